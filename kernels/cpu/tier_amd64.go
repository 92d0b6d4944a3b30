package cpu

import "golang.org/x/sys/cpu"

var available = detect()

func detect() []Tier {
	tiers := []Tier{Generic}
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasF16C {
		return tiers
	}
	tiers = append(tiers, AVX2)
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL {
		tiers = append(tiers, AVX512)
	}
	return tiers
}

// hasVNNI says whether the AVX-512 tier has dot products of bytes; without them
// it computes those as AVX2 does.
var hasVNNI = cpu.X86.HasAVX512VNNI

// hasAVXVNNI says the same of the AVX2 tier.
var hasAVXVNNI = cpu.X86.HasAVXVNNI

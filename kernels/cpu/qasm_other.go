//go:build !amd64

package cpu

func qgemmAsm(*QGemm, Tier) bool { return false }

func quantizeAsm(Tier, *QRow, []float32, int) bool { return false }

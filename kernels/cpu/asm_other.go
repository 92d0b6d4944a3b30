//go:build !amd64

package cpu

// Without assembly every kernel runs as Go: these take no part of the work.

func gemmAsm(*Gemm, Tier) bool                                       { return false }
func packAsm(Tier, []float32, []float32, int, int, int) int          { return 0 }
func sumSquaresAsm(Tier, []float32, *lanes) int                      { return 0 }
func scaleMulAsm(Tier, []float32, []float32, []float32, float32) int { return 0 }
func scaleAsm(Tier, []float32, []float32, float32) int               { return 0 }
func blendAsm(Tier, []float32, []float32, float32, float32) int      { return 0 }
func siluMulAsm(Tier, []float32, []float32, []float32) int           { return 0 }
func geluMulAsm(Tier, []float32, []float32, []float32) int           { return 0 }
func softCapAsm(Tier, []float32, float32, float32, float32) int      { return 0 }
func scaleMaxAsm(Tier, []float32, float32) (float32, bool)           { return 0, false }
func expSumAsm(Tier, []float32, float32) (float32, bool)             { return 0, false }

//go:build !amd64

package cpu

// Without assembly every kernel runs as Go: these take no part of the work.

func gemmAsm(*Gemm, Tier) bool                                                 { return false }
func packAsm(Tier, []float32, []float32, int, int, int) int                    { return 0 }
func sumSquaresAsm(Tier, []float32, *lanes) int                                { return 0 }
func scaleMulAsm(Tier, []float32, []float32, []float32, float32) int           { return 0 }
func scaleAsm(Tier, []float32, []float32, float32) int                         { return 0 }
func blendAsm(Tier, []float32, []float32, float32, float32) int                { return 0 }
func siluMulAsm(Tier, []float32, []float32, []float32) int                     { return 0 }
func geluMulAsm(Tier, []float32, []float32, []float32) int                     { return 0 }
func softCapAsm(Tier, []float32, float32, float32, float32) int                { return 0 }
func softmaxAsm(Tier, []float32, int, int, float32, []float32, []float32) bool { return false }
func scoresAsm(*Attend, Tier) bool                                             { return false }
func valuesAsm(*Attend, Tier) bool                                             { return false }
func exp2Asm(Tier, []float32) bool                                             { return false }
func rotateAsm(Tier, []float32, []float32, []float32) int                      { return 0 }
func magnitudeAsm(Tier, []float32) (uint32, int)                               { return 0, 0 }
func (*Store) laneAsm(Tier, []float32) int                                     { return 0 }
func (*Store) columnsAsm(Tier, []float32) int                                  { return 0 }

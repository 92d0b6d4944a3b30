package metrics

// Upper bounds of vLLM's histograms; +Inf is added by the client library.
var (
	bucketsTTFT = []float64{
		0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
		1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
	}
	bucketsITL = []float64{
		0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
		1, 2.5, 5, 7.5, 10, 20, 40, 80,
	}
	bucketsLatency = []float64{
		0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60,
		120, 240, 480, 960, 1920, 7680,
	}
	bucketsStep        = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	bucketsN           = []float64{1, 2, 5, 10, 20}
	bucketsPreemptions = []float64{1, 2, 3, 4, 5, 10, 20}
	bucketsHTTP        = []float64{0.1, 0.5, 1}
	bucketsHTTPFine    = []float64{
		0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5,
		3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
	}
)

// tokenBuckets returns the 1-2-5 series up to and not above maxModelLen, at
// least [1].
func tokenBuckets(maxModelLen int) []float64 {
	buckets := []float64{1}
	for power := 1; power <= maxModelLen; power *= 10 {
		for _, m := range []int{1, 2, 5} {
			if v := m * power; v > 1 && v <= maxModelLen {
				buckets = append(buckets, float64(v))
			}
		}
	}
	return buckets
}

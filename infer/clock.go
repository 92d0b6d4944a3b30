package infer

import "time"

// base is the instant that Now counts from. One nanosecond is added so that no
// reading is ever 0, which means "not known".
var base = time.Now().Add(-time.Nanosecond)

// Now returns nanoseconds of the process's monotonic clock; it is always > 0.
// Only differences of two readings mean anything.
func Now() int64 { return int64(time.Since(base)) }

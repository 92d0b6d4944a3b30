//go:build !unix

package main

import "math"

// maxOpenFiles returns how many files this process may have open: not limited here.
func maxOpenFiles() int { return math.MaxInt32 }

//go:build !unix

package main

import (
	"fmt"
	"time"
)

// cpuTime says that it cannot tell.
func cpuTime() (time.Duration, error) {
	return 0, fmt.Errorf("%w: no getrusage here", ErrCannot)
}

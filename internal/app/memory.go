package app

import (
	"os"
	"runtime/debug"
)

// heapGrowth is the GOGC of a process: the heap grows to five times the live memory before it is
// collected. The heap is small and most of it short-lived; Go's default of 100 costs a tenth of the
// throughput.
const heapGrowth = 400

// CollectLess sets heapGrowth, unless the environment sets GOGC.
func CollectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
}

package main

import (
	"fmt"
	"os"
	"strings"
)

// machine is the processor time of the machine since its start, in ticks.
type machine struct{ total, stolen float64 }

// readMachine reads what vmstat reads. Where there is no /proc/stat, all is zero.
func readMachine() (m machine) {
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return m
	}
	first, _, _ := strings.Cut(string(content), "\n")
	var ticks [8]float64 // user, nice, system, idle, waiting, interrupts, soft interrupts, stolen
	read, _ := fmt.Sscanf(first, "cpu %f %f %f %f %f %f %f %f",
		&ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7])
	for _, some := range ticks[:read] {
		m.total += some
	}
	m.stolen = ticks[7]
	return m
}

// steal is the share of the time since an earlier reading that the host gave to other machines, in
// percent.
func (m machine) steal(since machine) float64 {
	if m.total <= since.total {
		return 0
	}
	return 100 * (m.stolen - since.stolen) / (m.total - since.total)
}

// load is how many processes wanted a processor during the last minute, on average.
func load() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	minute, _, _ := strings.Cut(string(content), " ")
	return minute
}

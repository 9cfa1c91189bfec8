package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// cell is what a measurement is told.
type cell struct {
	params map[string]string
}

func newCell(words []string) *cell {
	c := &cell{params: map[string]string{}}
	for _, word := range words {
		if name, value, ok := strings.Cut(word, "="); ok {
			c.params[name] = value
		}
	}
	return c
}

// num is the parameter as a number; it must be there.
func (c *cell) num(name string) int {
	value, err := strconv.ParseFloat(c.params[name], 64)
	if err != nil {
		fail("parameter %s=%q makes no sense", name, c.params[name])
	}
	return int(value)
}

// get is the parameter as a number, or otherwise if it is not there.
func (c *cell) get(name string, otherwise int) int {
	if _, ok := c.params[name]; !ok {
		return otherwise
	}
	return c.num(name)
}

func (c *cell) ops() int { return c.num("ops") }

// warmUp is the number of operations before the measured ones.
func warmUp(ops int) int { return max(ops/4, 1) }

// sample is what a measurement answers.
type sample struct {
	Ops       uint64             `json:"ops"`
	Checksum  string             `json:"checksum"`
	Metrics   map[string]float64 `json:"metrics"`
	Latencies string             `json:"latencies,omitempty"`
}

// lap is a running measurement of this process.
type lap struct {
	wall     time.Time
	cpu      time.Duration
	usage    syscall.Rusage
	syscalls int64
}

func startLap() *lap {
	l := &lap{}
	l.usage = usage()
	l.syscalls = countedSyscalls()
	l.cpu = processCPU()
	l.wall = time.Now()
	return l
}

// stop divides by the operations done; checksum says what was computed.
func (l *lap) stop(ops int, checksum uint64) *sample {
	wall := time.Since(l.wall)
	cpu := processCPU() - l.cpu
	syscalls := countedSyscalls()
	now := usage()
	each := 1 / float64(max(ops, 1))
	s := &sample{Ops: uint64(ops), Checksum: fmt.Sprintf("%016x", checksum), Metrics: map[string]float64{
		"wall_ns":  float64(wall) * each,
		"cpu_ns":   float64(cpu) * each,
		"switches": float64(now.Nvcsw+now.Nivcsw-l.usage.Nvcsw-l.usage.Nivcsw) * each,
		"faults":   float64(now.Minflt-l.usage.Minflt) * each,
	}}
	if syscalls >= 0 {
		s.Metrics["syscalls"] = float64(max(syscalls-l.syscalls-3, 0)) * each
	}
	return s
}

func usage() (u syscall.Rusage) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		fail("getrusage: %v", err)
	}
	return u
}

func processCPU() time.Duration {
	const clockProcessCPUTime = 2
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockProcessCPUTime, uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		fail("clock_gettime: %v", errno)
	}
	return time.Duration(t.Nano())
}

// countedSyscalls is what the counter shows that the starter of this process passed on, or -1.
func countedSyscalls() int64 {
	number, ok := os.LookupEnv("URGO_BENCH_SYSCALLS_FD")
	if !ok {
		return -1
	}
	fd, err := strconv.Atoi(number)
	if err != nil {
		fail("%q is no descriptor", number)
	}
	var values [32]byte
	if n, err := syscall.Read(fd, values[:]); err != nil || n < 8 {
		fail("the counter of system calls cannot be read: %d bytes, %v", n, err)
	}
	return int64(binary.LittleEndian.Uint64(values[:8]))
}

// peakBytes is the most memory that this process has had resident at one time. It is not ru_maxrss, which a process inherits
// from the one that forked it.
func peakBytes() int { return statusBytes("VmHWM:") }

// statusBytes is the sum of these lines of the process's status, which are in KiB.
func statusBytes(keys ...string) (sum int) {
	for _, line := range procLines("/proc/self/status") {
		fields := strings.Fields(line)
		if len(fields) > 1 && slices.Contains(keys, fields[0]) {
			kib, err := strconv.Atoi(fields[1])
			if err != nil {
				fail("%q: %v", line, err)
			}
			sum += kib << 10
		}
	}
	return sum
}

func procLines(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		fail("%v", err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

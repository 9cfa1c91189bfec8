package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// sleepCell is the workload "sleep": all that sleep for 1 ms, or until one moment.
func sleepCell(c *cell) *sample {
	if c.num("whole") == 0 {
		return sleepers(c)
	}
	const count = 1000
	once := func(ops int) *sample {
		var slept uint64
		l := startLap()
		for range ops {
			var all sync.WaitGroup
			all.Add(count)
			for range count {
				go func() {
					time.Sleep(time.Millisecond)
					all.Done()
				}()
			}
			all.Wait()
			slept += count
		}
		s := l.stop(ops, slept)
		s.Metrics["wall_ms"] = s.Metrics["wall_ns"] / 1e6
		return s
	}
	once(warmUp(c.ops()))
	return once(c.ops())
}

// sleepers is the Go side of hosts/sleepers.rs, where its values are explained.
func sleepers(c *cell) *sample {
	const lead, leadEach, missesMax = time.Millisecond, 5 * time.Microsecond, 5
	count, repeats, misses := c.ops(), c.get("repeats", 1), 0
	seesMemory := c.get("memory", 0) == 1
	var bytesBefore, bytes, vmasBefore, vmas int
	if seesMemory {
		bytesBefore, vmasBefore = memory()
	}
	var cpuNs, lateNs, parkNs float64
	for done := 0; done < repeats; {
		var came, went, cameInTime atomic.Int64
		full, late := make(chan struct{}, 1), make(chan time.Duration, 1)
		moment := time.Now().Add((lead + leadEach*time.Duration(count)) << misses)
		parking := processCPU()
		for range count {
			go func() {
				if came.Add(1) == int64(count) {
					full <- struct{}{}
				}
				time.Sleep(time.Until(moment))
				out := went.Add(1)
				if out == 1 {
					cameInTime.Store(came.Load())
				}
				if out == int64(count) {
					late <- time.Since(moment)
				}
			}()
		}
		<-full
		parking = processCPU() - parking
		if seesMemory {
			bytes, vmas = memory()
		}
		l := startLap()
		lateness := <-late
		lapped := l.stop(1, 0)
		if cameInTime.Load() != int64(count) {
			misses++
			if misses > missesMax {
				fail("the machine is too slow: some woke before all slept, again and again")
			}
			continue
		}
		done++
		parkNs += float64(parking)
		lateNs += float64(lateness)
		cpuNs += lapped.Metrics["cpu_ns"]
	}
	ops := count * repeats
	s := &sample{Ops: uint64(ops), Checksum: fmt.Sprintf("%016x", ops), Metrics: map[string]float64{
		"cpu_ns":  cpuNs / float64(ops),
		"late_ns": lateNs / float64(ops),
		"park_ns": parkNs / float64(ops),
	}}
	if seesMemory {
		s.Metrics["bytes_each"] = float64(max(bytes-bytesBefore, 0)) / float64(count)
		s.Metrics["vmas"] = float64(max(vmas-vmasBefore, 0))
	}
	if wait := c.get("left_ms", 0); wait > 0 {
		time.Sleep(time.Duration(wait) * time.Millisecond)
		left, _ := memory()
		s.Metrics["left_fraction"] = float64(left) / float64(bytes)
	}
	return s
}

// memory is resident bytes and page tables of this process, and the number of its mappings.
func memory() (bytes, vmas int) {
	return statusBytes("VmRSS:", "VmPTE:"), len(procLines("/proc/self/maps"))
}

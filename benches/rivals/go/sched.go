package main

import (
	"runtime"
	"sync"
)

func yieldNow(c *cell) *sample {
	goroutines := c.num("goroutines")
	once := func(ops int) *sample {
		yields := ops / goroutines
		counts := make([]uint64, goroutines)
		var all sync.WaitGroup
		l := startLap()
		for at := range goroutines {
			all.Add(1)
			go func() {
				defer all.Done()
				for range yields {
					runtime.Gosched()
				}
				counts[at] = uint64(yields)
			}()
		}
		all.Wait()
		return l.stop(ops, checked(sumOf(counts), uint64(ops)))
	}
	once(warmUp(c.ops()))
	return once(c.ops())
}

func spawnJoin(c *cell) *sample {
	const batch = 1000
	once := func(ops int) *sample {
		results := make([]uint64, batch)
		var all sync.WaitGroup
		var sum, expected uint64
		l := startLap()
		for done := 0; done < ops; done += batch {
			size := min(batch, ops-done)
			all.Add(size)
			for index := range size {
				go func() {
					results[index] = uint64(index)
					all.Done()
				}()
			}
			all.Wait()
			sum += sumOf(results[:size])
			expected += uint64(size) * uint64(size-1) / 2
		}
		return l.stop(ops, checked(sum, expected))
	}
	once(warmUp(c.ops()))
	return once(c.ops())
}

func sumOf(values []uint64) (sum uint64) {
	for _, value := range values {
		sum += value
	}
	return sum
}

// checked is result, which must be what was expected.
func checked(result, expected uint64) uint64 {
	if result != expected {
		fail("the work was not done, or done twice: %d, not %d", result, expected)
	}
	return result
}

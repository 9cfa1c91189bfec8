package main

import (
	"sync"
	"sync/atomic"
)

// scale is one cost among many goroutines.
func scale(c *cell) *sample {
	measure := (*crowd).wake
	switch kind := c.params["kind"]; kind {
	case "spawn":
		measure = func(_ *crowd, ops int) *sample { return spawnBatches(ops) }
	case "wake":
	default:
		return sleepers(c)
	}
	all := newCrowd(c.num("goroutines"))
	measure(all, warmUp(c.ops()))
	return measure(all, c.ops())
}

// crowd is goroutines that wait, each at a channel of its own.
type crowd struct {
	doors []chan uint64
	left  atomic.Int64
	told  chan struct{}
}

func newCrowd(count int) *crowd {
	all := &crowd{doors: make([]chan uint64, count), told: make(chan struct{}, 1)}
	for at := range all.doors {
		door := make(chan uint64, 1)
		all.doors[at] = door
		go func() {
			for range door {
				if all.left.Add(-1) == 0 {
					all.told <- struct{}{}
				}
			}
		}()
	}
	// Afterwards all have run once, and wait.
	all.wake(count)
	return all
}

// wake wakes all of them once, over and over.
func (all *crowd) wake(ops int) *sample {
	count := len(all.doors)
	rounds := (ops + count - 1) / count
	l := startLap()
	for range rounds {
		all.left.Store(int64(count))
		for _, door := range all.doors {
			door <- 0
		}
		<-all.told
	}
	s := l.stop(rounds*count, uint64(rounds*count))
	if left := all.left.Load(); left != 0 {
		fail("%d did not run", left)
	}
	return s
}

func spawnBatches(ops int) *sample {
	const batch = 1000
	var all sync.WaitGroup
	var ended uint64
	l := startLap()
	for done := 0; done < ops; done += batch {
		size := min(batch, ops-done)
		all.Add(size)
		for range size {
			go all.Done()
		}
		all.Wait()
		ended += uint64(size)
	}
	return l.stop(ops, ended)
}

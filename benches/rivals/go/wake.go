package main

import "time"

// wake is a goroutine that wakes another one after each pause. The scheduler places both.
func wake(c *cell) *sample {
	pause := time.Duration(c.num("pause_us")) * time.Microsecond
	wait := time.Sleep
	if c.num("computes") == 1 {
		wait = spin
	}
	once := func(wakes int) *sample {
		letters, ended := make(chan time.Duration, 1), make(chan []time.Duration)
		l := startLap()
		base := time.Now()
		go func() {
			for range wakes {
				wait(pause)
				letters <- time.Since(base)
			}
			wait(pause)
			close(letters)
		}()
		go func() {
			latencies := make([]time.Duration, 0, wakes)
			for sent := range letters {
				latencies = append(latencies, time.Since(base)-sent)
			}
			ended <- latencies
		}()
		latencies := <-ended
		if len(latencies) != wakes {
			fail("%d wakes, not %d", len(latencies), wakes)
		}
		s := l.stop(wakes, uint64(len(latencies)))
		s.setLatencies(latencies)
		return s
	}
	once(warmUp(c.ops()))
	return once(c.ops())
}

func spin(pause time.Duration) {
	for start := time.Now(); time.Since(start) < pause; {
	}
}

package main

import "sync"

func pingPong(c *cell) *sample {
	slots := c.num("slots")
	once := func(trips int) *sample {
		there, back, sums := make(chan uint64, slots), make(chan uint64, slots), make(chan uint64)
		l := startLap()
		go func() {
			var sum uint64
			for value := range uint64(trips) {
				there <- value
				sum += <-back
			}
			close(there)
			sums <- sum
		}()
		go func() {
			for value := range there {
				back <- value + 1
			}
		}()
		sum := <-sums
		if expected := uint64(trips) * uint64(trips+1) / 2; sum != expected {
			fail("sum %d, not %d", sum, expected)
		}
		return l.stop(trips, sum)
	}
	once(warmUp(c.ops()))
	return once(c.ops())
}

// stream is one producer and one consumer. A channel of Go has no handles, so the cases with cloned ones are the same here.
func stream(c *cell) *sample {
	return flows(c, 1024, 1, 1)
}

func mpmc(c *cell) *sample {
	return flows(c, 128, 8, 8)
}

func fan(c *cell) *sample {
	return flows(c, 128, c.num("senders"), c.num("receivers"))
}

// flows lets senders send their shares of the numbers from 0 on over one channel to receivers, which add them up.
func flows(c *cell, slots, senders, receivers int) *sample {
	once := func(messages int) *sample {
		share := uint64(messages / senders)
		values, sums := make(chan uint64, slots), make(chan uint64)
		var sending sync.WaitGroup
		l := startLap()
		sending.Add(senders)
		for range senders {
			go func() {
				for value := range share {
					values <- value
				}
				sending.Done()
			}()
		}
		for range receivers {
			go func() {
				var sum uint64
				for value := range values {
					sum += value
				}
				sums <- sum
			}()
		}
		sending.Wait()
		close(values)
		var sum uint64
		for range receivers {
			sum += <-sums
		}
		if expected := uint64(senders) * (share * (share - 1) / 2); sum != expected {
			fail("sum %d, not %d", sum, expected)
		}
		return l.stop(messages, sum)
	}
	once(warmUp(c.ops()))
	return once(c.ops())
}

func selects(c *cell) *sample {
	slots := c.num("slots")
	once := func(messages int) *sample {
		share := uint64(messages / 3)
		first, second, third := make(chan uint64, slots), make(chan uint64, slots), make(chan uint64, slots)
		sums := make(chan uint64)
		l := startLap()
		go func() { sums <- selectOfThree(first, second, third) }()
		for _, values := range []chan uint64{first, second, third} {
			go func() {
				for value := range share {
					values <- value
				}
				close(values)
			}()
		}
		sum := <-sums
		if expected := 3 * (share * (share - 1) / 2); sum != expected {
			fail("sum %d, not %d", sum, expected)
		}
		return l.stop(messages, sum)
	}
	once(warmUp(c.ops()))
	return once(c.ops())
}

// selectOfThree adds up what comes until all three are closed. A closed one is replaced by nil, which is never ready.
func selectOfThree(first, second, third <-chan uint64) (sum uint64) {
	for first != nil || second != nil || third != nil {
		var value uint64
		var ok bool
		select {
		case value, ok = <-first:
			if !ok {
				first = nil
			}
		case value, ok = <-second:
			if !ok {
				second = nil
			}
		case value, ok = <-third:
			if !ok {
				third = nil
			}
		}
		// The value of a closed channel is 0.
		sum += value
	}
	return sum
}

func mutex(c *cell) *sample {
	const crowd = 64
	once := func(locks int) *sample {
		var number struct {
			sync.Mutex
			value uint64
		}
		var all sync.WaitGroup
		l := startLap()
		all.Add(crowd)
		for range crowd {
			go func() {
				for range locks / crowd {
					number.Lock()
					number.value++
					number.Unlock()
				}
				all.Done()
			}()
		}
		all.Wait()
		if expected := uint64(locks / crowd * crowd); number.value != expected {
			fail("number %d, not %d", number.value, expected)
		}
		return l.stop(locks, number.value)
	}
	once(warmUp(c.ops()))
	return once(c.ops())
}

package main

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

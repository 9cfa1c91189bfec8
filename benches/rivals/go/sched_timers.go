package main

import "time"

// timers makes timers that never fire, among others that do not fire meanwhile.
func timers(c *cell) *sample {
	const alive = 10 * time.Minute
	others := make([]*time.Timer, c.num("alive"))
	for at := range others {
		others[at] = time.AfterFunc(alive+time.Duration(at)*time.Microsecond, func() {
			fail("a timer fired early")
		})
	}
	defer func() {
		for _, timer := range others {
			timer.Stop()
		}
	}()
	if c.num("trips") == 0 {
		createAndCancel(warmUp(c.ops()), armed)
		createAndCancel(warmUp(c.ops()), forAChannel)
		notArmed := createAndCancel(c.ops(), forAChannel)
		s := createAndCancel(c.ops(), armed)
		s.Metrics["not_armed_ns"] = notArmed.Metrics["cpu_ns"]
		return s
	}
	tripsWithTimers(warmUp(c.ops()), receive)
	tripsWithTimers(warmUp(c.ops()), receiveWithin)
	without := tripsWithTimers(c.ops(), receive)
	with := tripsWithTimers(c.ops(), receiveWithin)
	with.Metrics["without_ns"] = without.Metrics["cpu_ns"]
	with.Metrics["deadline_ns"] = (with.Metrics["cpu_ns"] - without.Metrics["cpu_ns"]) / 2
	return with
}

// armed is a timer that is entered into the scheduler's heap at once.
func armed() *time.Timer {
	return time.AfterFunc(time.Hour, func() { fail("a timer fired early") })
}

// forAChannel is a timer that is entered nowhere until somebody waits at its channel (since Go 1.23).
func forAChannel() *time.Timer { return time.NewTimer(time.Hour) }

func createAndCancel(ops int, create func() *time.Timer) *sample {
	var pending uint64
	l := startLap()
	for range ops {
		timer := create()
		if timer.Stop() {
			pending++
		}
	}
	return l.stop(ops, checked(pending, uint64(ops)))
}

func receive(from chan uint64, _ *time.Timer) (uint64, bool) {
	value, ok := <-from
	return value, ok
}

func receiveWithin(from chan uint64, timer *time.Timer) (uint64, bool) {
	timer.Reset(time.Second)
	select {
	case value, ok := <-from:
		timer.Stop()
		return value, ok
	case <-timer.C:
		fail("nothing came in time")
		return 0, false
	}
}

// tripsWithTimers plays ping-pong; both sides receive by take, each with a timer of its own.
func tripsWithTimers(trips int, take func(chan uint64, *time.Timer) (uint64, bool)) *sample {
	there, back, over := make(chan uint64, 1), make(chan uint64, 1), make(chan struct{})
	go func() {
		timer := time.NewTimer(time.Hour)
		for {
			value, ok := take(there, timer)
			if !ok {
				close(over)
				return
			}
			back <- value + 1
		}
	}()
	timer := time.NewTimer(time.Hour)
	var sum uint64
	l := startLap()
	for value := range uint64(trips) {
		there <- value
		got, _ := take(back, timer)
		sum += got
	}
	s := l.stop(trips, checked(sum, uint64(trips)*uint64(trips+1)/2))
	close(there)
	<-over
	return s
}

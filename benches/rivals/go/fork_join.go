package main

import "math/bits"

// forkJoin measures work of ops operations, with some before to warm up. Both return what they computed, which must be sum.
func forkJoin(c *cell, sum func(ops int) uint64, work func(ops int) uint64) *sample {
	once := func(ops int) *sample {
		l := startLap()
		result := work(ops)
		s := l.stop(ops, result)
		if expected := sum(ops); result != expected {
			fail("result %d, not %d", result, expected)
		}
		return s
	}
	once(warmUp(c.ops()))
	return once(c.ops())
}

// --- skynet

const skynetChildren = 10

func skynetGrow(result chan<- uint64, first, leaves uint64) {
	if leaves == 1 {
		result <- first
		return
	}
	sums := make(chan uint64, skynetChildren)
	below := leaves / skynetChildren
	for i := range uint64(skynetChildren) {
		go skynetGrow(sums, first+i*below, below)
	}
	var sum uint64
	for range skynetChildren {
		sum += <-sums
	}
	result <- sum
}

// skynetLeaves is the number of leaves of the largest tree that has no more than ops goroutines.
func skynetLeaves(ops int) uint64 {
	leaves, all := 1, 1
	for all+leaves*skynetChildren <= ops {
		leaves *= skynetChildren
		all += leaves
	}
	return uint64(leaves)
}

func skynet(c *cell) *sample {
	sum := func(ops int) uint64 {
		leaves := skynetLeaves(ops)
		return leaves * (leaves - 1) / 2
	}
	s := forkJoin(c, sum, func(ops int) uint64 {
		result := make(chan uint64, 1)
		go skynetGrow(result, 0, skynetLeaves(ops))
		return <-result
	})
	s.Metrics["whole_s"] = s.Metrics["wall_ns"] * float64(s.Ops) / 1e9
	s.Metrics["whole_cpu_s"] = s.Metrics["cpu_ns"] * float64(s.Ops) / 1e9
	return s
}

// --- fib

func fibFork(n int) uint64 {
	if n < 2 {
		return uint64(n)
	}
	left := make(chan uint64, 1)
	go func() { left <- fibFork(n - 1) }()
	right := fibFork(n - 2)
	return <-left + right
}

func fibNumber(n int) uint64 {
	a, b := uint64(0), uint64(1)
	for range n {
		a, b = b, a+b
	}
	return a
}

func fib(c *cell) *sample {
	n := c.num("n")
	spawns := int(fibNumber(n+1)) - 1
	times := func(ops int) int { return max(ops/spawns, 1) }
	sum := func(ops int) uint64 { return uint64(times(ops)) * fibNumber(n) }
	return forkJoin(c, sum, func(ops int) (sum uint64) {
		for range times(ops) {
			sum += fibFork(n)
		}
		return sum
	})
}

// --- nqueens

// board is a board whose first rows are taken. Bits are columns; falling and rising are those of the next row that are
// attacked along the diagonals.
type board struct {
	all, columns, falling, rising uint32
}

func emptyBoard(n int) board { return board{all: 1<<n - 1} }

func (b board) free() uint32 { return b.all &^ (b.columns | b.falling | b.rising) }

func (b board) with(queen uint32) board {
	return board{b.all, b.columns | queen, (b.falling | queen) << 1, (b.rising | queen) >> 1}
}

// count is the number of queens placed on the way to all solutions, and the number of these.
func (b board) count() (queens int, solutions uint64) {
	if b.columns == b.all {
		return 0, 1
	}
	for free := b.free(); free != 0; free &= free - 1 {
		q, s := b.with(free & -free).count()
		queens += 1 + q
		solutions += s
	}
	return queens, solutions
}

func (b board) solve() uint64 {
	if b.columns == b.all {
		return 1
	}
	free := b.free()
	children := bits.OnesCount32(free)
	found := make(chan uint64, children)
	for ; free != 0; free &= free - 1 {
		next := b.with(free & -free)
		go func() { found <- next.solve() }()
	}
	var sum uint64
	for range children {
		sum += <-found
	}
	return sum
}

func nqueens(c *cell) *sample {
	n := c.num("n")
	queens, solutions := emptyBoard(n).count()
	times := func(ops int) int { return max(ops/queens, 1) }
	sum := func(ops int) uint64 { return uint64(times(ops)) * solutions }
	return forkJoin(c, sum, func(ops int) (sum uint64) {
		for range times(ops) {
			sum += emptyBoard(n).solve()
		}
		return sum
	})
}

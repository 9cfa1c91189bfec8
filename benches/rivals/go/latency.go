package main

import (
	"net"
	"runtime"
	"sync/atomic"
	"time"
)

// politeTime is the computing time of a polite hog between two turns of the others.
const politeTime = 100 * time.Microsecond

// echoBesideHogs is echo with one hog per CPU that wants all the time it can get; see net/servers/hog.rs.
func echoBesideHogs(c *cell, listener net.Listener) {
	if hog := c.params["hog"]; hog != "none" {
		for range runtime.GOMAXPROCS(0) {
			switch hog {
			case "polite":
				go func() {
					for {
						compute()
						runtime.Gosched()
					}
				}()
			case "loop":
				go func() {
					for {
						compute()
					}
				}()
			default:
				fail("no hog is %q", hog)
			}
		}
	}
	echo(c, listener)
}

// computed keeps the compiler from leaving the computation out.
var computed atomic.Uint64

func compute() {
	start := time.Now()
	value := uint64(1)
	for time.Since(start) < politeTime {
		for range 1000 {
			value = value*0x5851f42d4c957f2d + 1
		}
	}
	computed.Store(value)
}

// The Go side of the workloads of urgo-bench: the same names, the same parameters, the same answers.
//
//	urgo-bench-go cell WORKLOAD name=value...   measures, prints one line of JSON
//	urgo-bench-go serve WORKLOAD name=value...  prints its port, serves until it is killed
//
// It is confined to its CPUs before it starts, so GOMAXPROCS is their number by itself.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
)

var cells = map[string]func(*cell) *sample{
	"fan":        fan,
	"fib":        fib,
	"mpmc":       mpmc,
	"mutex":      mutex,
	"nqueens":    nqueens,
	"parked":     sleepers,
	"ping_pong":  pingPong,
	"scale":      scale,
	"select":     selects,
	"skynet":     skynet,
	"sleep":      sleepCell,
	"spawn_join": spawnJoin,
	"stream":     stream,
	"timers":     timers,
	"wake":       wake,
	"yield_now":  yieldNow,
}

var servers = map[string]func(*cell, net.Listener){
	"connect":   echo,
	"echo":      echo,
	"flow":      flow,
	"hog":       echoBesideHogs,
	"http":      hello,
	"http_idle": hello,
	"idle":      echo,
	"imbalance": imbalance,
	"latency":   echoBesideHogs,
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "urgo-bench-go: urgo-bench runs this program; it is not for people")
		os.Exit(2)
	}
	c := newCell(os.Args[3:])
	switch verb, name := os.Args[1], os.Args[2]; verb {
	case "cell":
		measure, ok := cells[name]
		if !ok {
			fail("no workload %q here", name)
		}
		s := measure(c)
		s.Metrics["peak_bytes"] = float64(peakBytes())
		out, err := json.Marshal(s)
		if err != nil {
			fail("%v", err)
		}
		fmt.Println(string(out))
	case "serve":
		serve, ok := servers[name]
		if !ok {
			fail("no server for %q here", name)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fail("%v", err)
		}
		fmt.Println(listener.Addr().(*net.TCPAddr).Port)
		serve(c, listener)
	}
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

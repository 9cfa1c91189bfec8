package main

import (
	"encoding/binary"
	"io"
	"net"
)

// flowBytes is the length of one write of a source, and of one read of a sink.
const flowBytes = 64 << 10

// workBytes is the length of a message that makes the server compute.
const workBytes = 64

func echo(c *cell, listener net.Listener) {
	bytes := max(c.num("message"), 1024)
	serveAll(listener, func(connection net.Conn) {
		buffer := make([]byte, bytes)
		for {
			n, err := connection.Read(buffer)
			if err != nil {
				return
			}
			if _, err := connection.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
}

// flow is bytes one way, as fast as they go.
func flow(c *cell, listener net.Listener) {
	if c.params["way"] != "source" {
		serveAll(listener, sink)
		return
	}
	block := make([]byte, flowBytes)
	for at := range block {
		block[at] = byte(at)
	}
	serveAll(listener, func(connection net.Conn) {
		for {
			if _, err := connection.Write(block); err != nil {
				return
			}
		}
	})
}

// sink says at the end how many bytes there were.
func sink(connection net.Conn) {
	buffer := make([]byte, flowBytes)
	var count uint64
	for {
		n, err := connection.Read(buffer)
		count += uint64(n)
		if err != nil {
			break
		}
	}
	// One that cannot be told is one that the client has ended.
	_, _ = connection.Write(binary.LittleEndian.AppendUint64(nil, count))
}

// imbalance gives answers that take some computing: a message's first bytes become its hash.
func imbalance(c *cell, listener net.Listener) {
	rounds := c.num("hash_rounds")
	serveAll(listener, func(connection net.Conn) {
		message := make([]byte, workBytes)
		for {
			if _, err := io.ReadFull(connection, message); err != nil {
				return
			}
			binary.LittleEndian.PutUint64(message, fnv(message, rounds))
			if _, err := connection.Write(message); err != nil {
				return
			}
		}
	})
}

// fnv is FNV-1a of the bytes, taken so many times one after the other.
func fnv(bytes []byte, rounds int) uint64 {
	hash := uint64(0xcbf29ce484222325)
	for range rounds {
		for _, value := range bytes {
			hash = (hash ^ uint64(value)) * 0x00000100000001b3
		}
	}
	return hash
}

// serveAll is an accept loop, with one goroutine for each connection.
func serveAll(listener net.Listener, serve func(net.Conn)) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			fail("accept: %v", err)
		}
		go func() {
			defer connection.Close()
			serve(connection)
		}()
	}
}

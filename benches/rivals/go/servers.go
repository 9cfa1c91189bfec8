package main

import "net"

func echo(c *cell, listener net.Listener) {
	bytes := max(c.num("message"), 1024)
	for {
		connection, err := listener.Accept()
		if err != nil {
			fail("accept: %v", err)
		}
		go func() {
			defer connection.Close()
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
		}()
	}
}

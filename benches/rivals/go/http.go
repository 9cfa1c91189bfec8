package main

import (
	"io"
	"net"
	"net/http"
)

// hello is the server of http and of http_idle: net/http as its documentation shows it.
func hello(_ *cell, listener net.Listener) {
	handler := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "Hello, World!\n")
	}
	fail("serve: %v", http.Serve(listener, http.HandlerFunc(handler)))
}

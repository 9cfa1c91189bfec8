//! may_minihttp: a coroutine per connection, made for plain requests like these.

use super::HELLO;
use crate::cell::Cell;
use crate::hosts::may_on;
use may_minihttp::{HttpServer, HttpService, Request, Response};
use std::io;
use std::net::TcpListener;

#[derive(Clone)]
struct Hello;

impl HttpService for Hello {
    fn call(&mut self, _: Request<'_, '_, '_>, response: &mut Response<'_>) -> io::Result<()> {
        response.header("Content-Type: text/plain").body(HELLO);
        Ok(())
    }
}

/// Says hello. It takes an address and no listener, so the listener's is bound again; clients wait for that.
pub(crate) fn hello(cell: &Cell, listener: TcpListener) {
    may_on(cell);
    let address = listener.local_addr().expect("a bound socket");
    drop(listener);
    let server = HttpServer(Hello)
        .start(address)
        .expect("the address is free");
    server.join().expect("no panic");
}

//! hyper's HTTP/1 server on tokio, one task per connection.
//!
//! `pipeline_flush`, which hyper has for this kind of bench, collects the answers to pipelined requests; without it each would be a
//! write of its own. As in hyper's own examples there is no timer, so no time limit on a request either.

use super::HELLO;
use crate::cell::Cell;
use crate::hosts::tokio_runtime;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::TcpListener;

/// Says hello.
pub(crate) fn hello(cell: &Cell, listener: TcpListener) {
    listener.set_nonblocking(true).expect("a socket");
    tokio_runtime(cell).block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("TCP_NODELAY");
            let connection = http1::Builder::new()
                .pipeline_flush(true)
                .serve_connection(TokioIo::new(stream), service_fn(answer));
            // One that ends with an error is one that the client has ended.
            drop(tokio::spawn(connection));
        }
    })
}

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(HELLO.as_bytes())));
    let text = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(CONTENT_TYPE, text);
    Ok(response)
}

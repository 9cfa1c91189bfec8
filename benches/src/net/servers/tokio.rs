//! tokio, as its documentation's echo server: an accept loop, one task per connection.
//!
//! The accept loop is a task itself: the thread that calls `block_on` is no worker of the multi-thread scheduler.

use super::{FLOW_BYTES, WORK_BYTES, flow_block, hog, read_bytes, work};
use crate::cell::Cell;
use crate::hosts::tokio_runtime;
use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

/// Echo.
pub(crate) fn echo(cell: &Cell, listener: TcpListener) {
    serve_echo(&tokio_runtime(cell), cell, listener);
}

/// Echo on the multi-thread scheduler, however few CPUs there are.
pub(crate) fn echo_multi(cell: &Cell, listener: TcpListener) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(cell.workers())
        .enable_all()
        .build()
        .expect("a runtime of tokio");
    serve_echo(&runtime, cell, listener);
}

/// Bytes one way, as fast as they go.
pub(crate) fn flow(cell: &Cell, listener: TcpListener) {
    let runtime = tokio_runtime(cell);
    if cell.get::<String>("way") == "source" {
        let block: Arc<[u8]> = flow_block().into();
        return serve(&runtime, listener, move |stream| {
            source(stream, block.clone())
        });
    }
    serve(&runtime, listener, sink);
}

/// Answers that take some computing.
pub(crate) fn imbalance(cell: &Cell, listener: TcpListener) {
    let rounds = cell.get("hash_rounds");
    serve(&tokio_runtime(cell), listener, move |stream| {
        work_one(stream, rounds)
    });
}

fn serve_echo(runtime: &Runtime, cell: &Cell, listener: TcpListener) {
    let bytes = read_bytes(cell);
    let inside = runtime.enter();
    hog::tasks(cell);
    drop(inside);
    serve(runtime, listener, move |stream| echo_one(stream, bytes));
}

fn serve<F: Future<Output = io::Result<()>> + Send + 'static>(
    runtime: &Runtime,
    listener: TcpListener,
    connection: impl Fn(TcpStream) -> F + Send + 'static,
) {
    listener
        .set_nonblocking(true)
        .expect("a listener that does not block");
    let accept_all = async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("registered");
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("TCP_NODELAY");
            // One that ends with an error is one that the client has ended.
            tokio::spawn(connection(stream));
        }
    };
    runtime
        .block_on(async { tokio::spawn(accept_all).await })
        .expect("it never ends")
}

async fn echo_one(mut stream: TcpStream, bytes: usize) -> io::Result<()> {
    let mut buffer = vec![0; bytes];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            bytes => stream.write_all(&buffer[..bytes]).await?,
        }
    }
}

async fn source(mut stream: TcpStream, block: Arc<[u8]>) -> io::Result<()> {
    loop {
        stream.write_all(&block).await?;
    }
}

async fn sink(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; FLOW_BYTES];
    let mut count = 0_u64;
    loop {
        match stream.read(&mut buffer).await? {
            0 => return stream.write_all(&count.to_le_bytes()).await,
            bytes => count += bytes as u64,
        }
    }
}

async fn work_one(mut stream: TcpStream, rounds: usize) -> io::Result<()> {
    let mut message = [0; WORK_BYTES];
    loop {
        stream.read_exact(&mut message).await?;
        work(&mut message, rounds);
        stream.write_all(&message).await?;
    }
}

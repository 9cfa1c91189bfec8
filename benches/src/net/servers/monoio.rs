//! monoio on its io_uring driver, as its documentation's echo server: an accept loop, one task per connection, buffers that
//! go into an operation and come back with its result.

use super::{FLOW_BYTES, flow_block, read_bytes};
use crate::cell::Cell;
use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::TcpStream;
use monoio::{IoUringDriver, RuntimeBuilder};
use std::future::Future;
use std::io;
use std::net::TcpListener;

const RING_ENTRIES: u32 = 4096;

/// Echo.
pub(crate) fn echo(cell: &Cell, listener: TcpListener) {
    let bytes = read_bytes(cell);
    serve(listener, move |stream| echo_one(stream, bytes));
}

/// Bytes one way, as fast as they go.
pub(crate) fn flow(cell: &Cell, listener: TcpListener) {
    if cell.get::<String>("way") == "source" {
        // One block for all connections, as the others have it.
        let block: &'static [u8] = flow_block().leak();
        return serve(listener, move |stream| source(stream, block));
    }
    serve(listener, sink);
}

fn serve<F: Future<Output = io::Result<()>> + 'static>(
    listener: TcpListener,
    connection: impl Fn(TcpStream) -> F,
) {
    // One thread enters the ring, and it does so often: no interrupts for the kernel's deferred work.
    let mut ring = io_uring_06::IoUring::builder();
    ring.setup_single_issuer().setup_coop_taskrun();
    let mut runtime = RuntimeBuilder::<IoUringDriver>::new()
        .with_entries(RING_ENTRIES)
        .uring_builder(ring)
        .build()
        .expect("a runtime of monoio");
    runtime.block_on(async move {
        let listener = monoio::net::TcpListener::from_std(listener).expect("registered");
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("TCP_NODELAY");
            // One that ends with an error is one that the client has ended.
            monoio::spawn(connection(stream));
        }
    })
}

async fn echo_one(mut stream: TcpStream, bytes: usize) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(bytes);
    let mut result;
    loop {
        (result, buffer) = stream.read(buffer).await;
        if result? == 0 {
            return Ok(());
        }
        (result, buffer) = stream.write_all(buffer).await;
        result?;
        buffer.clear();
    }
}

async fn source(mut stream: TcpStream, block: &'static [u8]) -> io::Result<()> {
    loop {
        stream.write_all(block).await.0?;
    }
}

async fn sink(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(FLOW_BYTES);
    let mut count = 0_u64;
    let mut result;
    loop {
        (result, buffer) = stream.read(buffer).await;
        match result? {
            0 => break,
            bytes => count += bytes as u64,
        }
        buffer.clear();
    }
    stream.write_all(count.to_le_bytes().to_vec()).await.0?;
    Ok(())
}

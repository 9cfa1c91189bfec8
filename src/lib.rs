//! urgo runs stackful goroutines on Linux: ordinary blocking code, by the hundred thousand, on one OS thread per CPU, with
//! all I/O and timers through io_uring.
//!
//! ```
//! use std::io::{Read, Write};
//! use urgo::net::{TcpListener, TcpStream};
//!
//! fn main() -> std::io::Result<()> {
//!     urgo::run(|| {
//!         let listener = TcpListener::bind("127.0.0.1:0")?;
//!         let address = listener.local_addr()?;
//!         urgo::spawn(move || {
//!             for stream in listener.incoming() {
//!                 let mut stream = stream?;
//!                 urgo::spawn(move || {
//!                     let mut buffer = [0; 1024];
//!                     let n = stream.read(&mut buffer)?; // blocks this goroutine only
//!                     stream.write_all(&buffer[..n])
//!                 });
//!             }
//!             Ok::<(), std::io::Error>(())
//!         });
//!         let mut client = TcpStream::connect(address)?;
//!         client.write_all(b"hello")?;
//!         let mut answer = [0; 5];
//!         client.read_exact(&mut answer)?;
//!         assert_eq!(&answer, b"hello");
//!         Ok(())
//!     })
//! }
//! ```
//!
//! # What is promised
//!
//! * **Spawning is safe.** A goroutine may be taken over by another worker until it first runs; from then on it stays on one
//!   OS thread. Thread-locals, `Rc`, errno and lock guards mean in a goroutine what they mean in a thread.
//! * **Borrowed buffers are sound.** A goroutine never leaves an I/O call, by return, cancellation or unwinding, before the
//!   kernel has finished with its memory. So `std::io::Read` and `Write` are implemented on sockets as they are.
//! * **A panic stays in its goroutine**, and [`JoinHandle::join`] returns it.
//! * **Nothing is left behind.** When [`run`] returns, all goroutines have been unwound, all operations are over, and all
//!   rings and ports are closed.
//!
//! # What to mind
//!
//! * **Calls that block the OS thread block its worker**, and every goroutine on it: use [`blocking`], and this crate's
//!   `sleep`, sockets and joins instead of std's.
//! * **A std lock held across a wait** blocks every goroutine of the same worker that wants it, for good if its holder needs
//!   that worker to go on. Let go of it before you wait, or use [`sync::Mutex`]. With `URGO_REPORT_STUCK=100` in the environment
//!   of the program a helper thread names each goroutine that has kept its worker for more than 100 ms, by a lock, another call
//!   that blocks, or computing, on standard error and as a `tracing` warning. Without it there is no such thread. The README shows
//!   how clippy keeps std's locks out of a crate.
//! * **Thread-locals are shared by the goroutines of a worker.** That is sound, but code that expects its own calls to nest on
//!   one thread, such as a pointer to the stack left in a thread-local while a callback runs, must not wait inside.
//!   [`goroutine_local!`] gives each goroutine its own.
//! * **Foreign code runs on a goroutine's stack**, 256 KiB unless said otherwise. C code with larger frames needs a larger
//!   stack ([`go::Builder::stack_size`]). An overflow is reported with the goroutine's name, and aborts.
//! * **A goroutine that computes without end keeps its worker.** Call [`yield_now`] now and then.

#![deny(unsafe_code)]
#![cfg_attr(urgo_loom, allow(dead_code, unreachable_pub, unused_imports))]

#[cfg(not(target_os = "linux"))]
compile_error!("urgo runs on Linux only: it is built on io_uring");

#[cfg(not(urgo_loom))]
mod ambient;
mod atomic;
#[cfg(not(urgo_loom))]
mod blocking;
pub mod chan;
#[cfg(not(urgo_loom))]
pub mod context;
#[cfg(not(urgo_loom))]
pub mod debug;
#[cfg(not(urgo_loom))]
pub mod go;
mod goroutine;
#[cfg(not(urgo_loom))]
pub mod host;
#[cfg(not(urgo_loom))]
mod io;
mod limits;
#[cfg(not(urgo_loom))]
pub mod net;
mod park;
#[cfg(not(urgo_loom))]
mod runtime;
mod sched;
#[cfg(not(urgo_loom))]
mod seam;
pub mod sync;
pub mod time;
#[cfg(not(urgo_loom))]
mod timer;

#[cfg(not(urgo_loom))]
mod front {
    pub use crate::blocking::blocking;
    pub use crate::go::{
        JoinError, JoinHandle, current, exit_goroutine, safepoint, scope, spawn, spawn_local,
        try_scope, uncancellable, yield_now,
    };
    pub use crate::runtime::{
        BuildError, Builder, Handle, RunError, Runtime, ShutdownReport, Straggler, run,
    };
    pub use crate::time::{sleep, sleep_until};
}
#[cfg(not(urgo_loom))]
pub use front::*;

#[doc = include_str!("../README.md")]
#[cfg(all(doctest, not(urgo_loom)))]
struct ReadmeDoctests;

//! Limiting what a closure may wait.

use super::instant::duration_ns;
use crate::ambient::Node;
use crate::sched;
use std::time::Duration;

/// Calls `f` under a context that is over `duration` from now, and returns what it returns: short for
/// `context::current().with_timeout(duration).enter(f)`.
///
/// From then on calls in `f`, and in goroutines that `f` spawns, that return an [`io::Result`](std::io::Result) do not wait any
/// longer: they fail with the kind `TimedOut`. Waits of other kinds are not cut short, nor is computing; the
/// [context](crate::context) has calls of its own for them. So whatever `f` has done is in what it returns. The time counts from
/// the call; a duration too long to say is no limit.
///
/// ```
/// use std::io::{ErrorKind, Read};
/// use std::time::Duration;
/// use urgo::net::{TcpListener, TcpStream};
///
/// urgo::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0").unwrap();
///     let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
///     let mut header = [0; 16];
///     let read = urgo::time::timeout(Duration::from_millis(5), || stream.read_exact(&mut header));
///     assert_eq!(read.unwrap_err().kind(), ErrorKind::TimedOut);
/// });
/// ```
pub fn timeout<R>(duration: Duration, f: impl FnOnce() -> R) -> R {
    let deadline = sched::now_ns().saturating_add(duration_ns(duration));
    let node = Node::child(sched::ambient::ambient(), deadline, None);
    sched::ambient::enter(Some(&node), f)
}

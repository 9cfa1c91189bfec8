//! std counts panics per thread, so that `thread::panicking` can tell and a panic in a `Drop` during a panic aborts. A
//! goroutine that waits in a `Drop` while it unwinds would leave its count to the others on its worker.

/// Calls `leave` with no panic counted on this thread, and counts this goroutine's own again afterwards.
#[cold]
pub(super) fn set_aside(leave: impl FnOnce()) {
    leave();
}

//! Parts of a goroutine that must not be cut short.

use crate::sched;

/// Calls `f`; no wait in it is cut short by a cancellation. If the goroutine has been cancelled meanwhile, its next wait
/// after this unwinds.
///
/// For what must not stop half-way: a message of two parts, a file and its entry in an index. Blocks as `f` does, and so
/// does whoever waits for the goroutine's end, the runtime's own end included: a wait in here that nobody ends is not
/// ended by anything. Calls may nest. A panic in `f` ends the part that must not be cut short, like its return. On a plain
/// thread, which nobody cancels, `f` is just called.
///
/// In a `Drop` of a goroutine that unwinds because it was cancelled, calls on sockets that would have to wait fail; inside this
/// they wait.
///
/// ```
/// use std::time::Duration;
///
/// urgo::run(|| {
///     let (sender, receiver) = urgo::chan::bounded(2);
///     let (started, has_started) = urgo::chan::oneshot();
///     let worker = urgo::spawn(move || {
///         urgo::uncancellable(|| {
///             started.send(()).unwrap();
///             sender.send("head").unwrap();
///             urgo::sleep(Duration::from_millis(1));
///             sender.send("body").unwrap();
///         });
///         urgo::sleep(Duration::MAX); // cut short
///     });
///     has_started.recv().unwrap();
///     worker.cancel();
///     assert!(worker.join().unwrap_err().is_cancelled());
///     assert_eq!(receiver.iter().collect::<Vec<_>>(), ["head", "body"]);
/// });
/// ```
pub fn uncancellable<F, R>(f: F) -> R
where
    F: FnOnce() -> R,
{
    sched::uncancellable(f)
}

//! What locks and other ways to wait for each other promise, between goroutines and threads.

mod support;

#[path = "sync/barrier.rs"]
mod barrier;
#[path = "sync/condvar.rs"]
mod condvar;
#[path = "sync/futex.rs"]
mod futex;
#[path = "sync/mutex.rs"]
mod mutex;
#[path = "sync/once.rs"]
mod once;
#[path = "sync/regressions.rs"]
mod regressions;
#[path = "sync/rw_lock.rs"]
mod rw_lock;
#[path = "sync/semaphore.rs"]
mod semaphore;
#[path = "sync/wait_group.rs"]
mod wait_group;

//! Cancelling very many.

use crate::support::wait_until;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use urgo::context::{self, Context, ContextError};

/// 100,000 sleepers of one context, on two workers, each of which ends with its error.
#[test]
fn a_hundred_thousand_waiters_end_with_their_context() {
    const WAITERS: usize = 100_000;
    let runtime = urgo::Runtime::builder().workers(2).stack_size(64 * 1024);
    runtime.build().unwrap().run(|| {
        let context = Context::background().with_cancel();
        let (waiting, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        context.enter(|| {
            for _ in 0..WAITERS {
                let (waiting, ended) = (waiting.clone(), ended.clone());
                drop(urgo::spawn(move || {
                    waiting.fetch_add(1, Ordering::Relaxed);
                    let slept = context::current().sleep(Duration::from_secs(3600));
                    assert_eq!(slept, Err(ContextError::Cancelled));
                    ended.fetch_add(1, Ordering::Relaxed);
                }));
            }
        });
        wait_until("all wait", || waiting.load(Ordering::Relaxed) == WAITERS);
        assert!(context.cancel());
        wait_until("all have ended", || {
            ended.load(Ordering::Relaxed) == WAITERS
        });
    });
}

/// Chains and broad trees of contexts are cancelled and dropped without recursion.
#[test]
fn deep_and_broad_trees_end_whole() {
    let root = Context::background().with_cancel();
    let mut deep = root.clone();
    for _ in 0..100_000 {
        deep = deep.with_cancel();
    }
    let broad: Vec<Context> = (0..100_000).map(|_| root.with_cancel()).collect();
    assert!(root.cancel());
    assert_eq!(deep.err(), Some(ContextError::Cancelled));
    assert!(broad.iter().all(|context| context.err().is_some()));
}

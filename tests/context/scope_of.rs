//! Under which context what runs.

use crate::support::{hush_planned_panics, runtime};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use urgo::chan::bounded;
use urgo::context::{self, Context, ContextError};

fn number() -> Option<u32> {
    context::current().value::<u32>().copied()
}

#[test]
fn a_goroutine_has_its_spawners_context_of_the_time_of_the_spawn() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            assert_eq!(number(), None);
            let (s, r) = bounded(0);
            let one = Context::background().with_value(1u32);
            let spawned = one.enter(|| {
                let spawned = urgo::spawn(move || {
                    r.recv().unwrap();
                    let own = number();
                    (own, urgo::spawn(number).join().unwrap())
                });
                let two = context::current().with_value(2u32);
                two.enter(|| assert_eq!(number(), Some(2)));
                assert_eq!(number(), Some(1));
                spawned
            });
            assert_eq!(number(), None);
            s.send(()).unwrap();
            assert_eq!(spawned.join().unwrap(), (Some(1), Some(1)));
        });
    }
}

#[test]
fn a_scopes_children_have_it_and_many_that_end_leave_nothing() {
    runtime(2).run(|| {
        let context = Context::background().with_value(3u32);
        for _ in 0..100 {
            context.enter(|| {
                urgo::scope(|scope| {
                    for _ in 0..100 {
                        scope.spawn(|| assert_eq!(number(), Some(3)));
                    }
                });
            });
        }
    });
}

#[test]
fn the_background_cuts_off() {
    runtime(1).run(|| {
        let context = Context::background().with_cancel();
        context.cancel();
        context.enter(|| {
            let slept = Context::background().enter(|| {
                let current = context::current();
                assert_eq!(current.err(), None);
                current.sleep(Duration::from_millis(1))
            });
            assert_eq!(slept, Ok(()));
            assert_eq!(context::current().err(), Some(ContextError::Cancelled));
        });
    });
}

#[test]
fn a_panic_leaves_the_context_that_it_goes_through() {
    hush_planned_panics();
    runtime(1).run(|| {
        let context = Context::background().with_value(4u32);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            context.enter(|| panic!("planned"));
        }));
        assert!(caught.is_err());
        assert_eq!(number(), None);
        assert_eq!(urgo::spawn(number).join().unwrap(), None);
    });
}

#[test]
fn threads_and_runtimes_hand_it_on() {
    let context = Context::background().with_value(5u32);
    context.enter(|| {
        assert_eq!(number(), Some(5));
        runtime(1).run(|| assert_eq!(number(), Some(5)));
        std::thread::scope(|scope| {
            let other = scope.spawn(number);
            assert_eq!(other.join().unwrap(), None, "a thread begins anew");
        });
    });
    assert_eq!(number(), None);
}

#[test]
fn a_goroutine_that_never_starts_lets_go_of_its_context() {
    let value = std::sync::Arc::new(());
    let context = Context::background().with_value(value.clone());
    runtime(1).run(|| {
        context.enter(|| {
            for _ in 0..10 {
                // Still fresh when the main goroutine returns.
                drop(urgo::spawn(|| ()));
            }
        });
    });
    drop(context);
    assert_eq!(std::sync::Arc::strong_count(&value), 1);
}

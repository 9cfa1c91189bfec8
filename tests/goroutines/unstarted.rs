//! Scopes whose goroutines get no stack: that is not lost.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use urgo::go::{Builder, Placement};
use urgo::{JoinError, scope, try_scope};

use crate::support::{hush_planned_panics, panic_of, run_alone, runtime, wait_until};

/// Too large a stack for the address space that [`limit_address_space`] leaves.
const TOO_LARGE: usize = 1 << 30;

/// The process may map half of [`TOO_LARGE`] from here on, no more.
fn limit_address_space() {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').next().unwrap().parse().unwrap();
    let soft = (pages * 4096 + TOO_LARGE / 2) as libc::rlim_t;
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: soft,
    };
    // SAFETY: the struct is alive for the call.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Calls `body` on a goroutine, with 1 worker and with 2, in a process where a stack of [`TOO_LARGE`] bytes is not to be had.
fn short_of_stacks(name: &str, body: fn()) {
    run_alone(name, &[], || {
        hush_planned_panics();
        for workers in [1, 2] {
            let runtime = runtime(workers);
            runtime.run(|| urgo::spawn(|| ()).join().unwrap());
        }
        limit_address_space();
        for workers in [1, 2] {
            runtime(workers).run(body);
        }
    });
}

fn too_large() -> Builder {
    Builder::new().stack_size(TOO_LARGE)
}

#[test]
fn a_child_of_try_scope_without_a_stack_ends_the_others_and_is_a_panic() {
    short_of_stacks(
        "unstarted::a_child_of_try_scope_without_a_stack_ends_the_others_and_is_a_panic",
        || {
            let (ran, waiting) = (AtomicBool::new(false), AtomicUsize::new(0));
            let message = panic_of(|| {
                let _: Result<(), ()> = try_scope(|s| {
                    for _ in 0..3 {
                        s.spawn(|| {
                            waiting.fetch_add(1, Ordering::SeqCst);
                            urgo::sleep(Duration::MAX);
                            Ok(())
                        });
                    }
                    wait_until("the others", || waiting.load(Ordering::SeqCst) == 3);
                    s.spawn_with(too_large(), || {
                        ran.store(true, Ordering::SeqCst);
                        Ok(())
                    })
                    .unwrap();
                    Ok(())
                });
            });
            assert!(message.contains("no stack"), "{message}");
            assert!(!ran.into_inner());
        },
    );
}

#[test]
fn a_child_of_a_scope_without_a_stack_is_a_panic_unless_it_is_joined() {
    short_of_stacks(
        "unstarted::a_child_of_a_scope_without_a_stack_is_a_panic_unless_it_is_joined",
        || {
            scope(|s| {
                let handle = s.spawn_with(too_large(), || ()).unwrap();
                assert!(matches!(handle.join(), Err(JoinError::NoStack(_))));
            });
            let dropped_at_once = panic_of(|| {
                scope(|s| drop(s.spawn_with(too_large(), || ()).unwrap()));
            });
            let dropped_later = panic_of(|| {
                scope(|s| {
                    let handle = s.spawn_with(too_large(), || ()).unwrap();
                    wait_until("its end", || handle.is_finished());
                });
            });
            for message in [dropped_at_once, dropped_later] {
                assert!(message.contains("no stack"), "{message}");
            }
        },
    );
}

#[test]
fn in_a_cancelled_scope_a_child_without_a_stack_is_none_that_failed() {
    short_of_stacks(
        "unstarted::in_a_cancelled_scope_a_child_without_a_stack_is_none_that_failed",
        || {
            let ended: Result<u8, u8> = try_scope(|s| {
                s.cancel();
                s.spawn_with(too_large(), || Err(1)).unwrap();
                Ok(7)
            });
            assert_eq!(ended, Ok(7));
        },
    );
}

#[test]
fn a_child_that_could_not_be_spawned_is_its_spawners_affair() {
    runtime(2).run(|| {
        let ended: Result<u8, u8> = try_scope(|s| {
            let nowhere = Builder::new().placement(Placement::Worker(2));
            assert!(s.spawn_with(nowhere, || Err(1)).is_err());
            Ok(7)
        });
        assert_eq!(ended, Ok(7));
    });
}

//! Ends of runtimes some of whose goroutines do not want to end: the others end all the same.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use urgo::go::{Builder, Placement};

use crate::support::{Drops, OnDrop, PATIENCE, runtime, wait_until};

/// Short for a wait, and long for a machine that is busy with other things.
const SHORT: Duration = Duration::from_secs(1);

fn on(worker: usize) -> Builder {
    Builder::new().placement(Placement::Worker(worker))
}

#[test]
fn a_goroutine_that_spawns_for_ever_does_not_keep_the_shutdown() {
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let (begun, released) = (AtomicBool::new(false), AtomicBool::new(false));
        let flags = Arc::new((begun, released));
        let of = flags.clone();
        let spawner = runtime.handle().spawn(move || {
            urgo::uncancellable(|| {
                while !of.1.load(Ordering::SeqCst) {
                    drop(urgo::spawn(|| ()));
                    of.0.store(true, Ordering::SeqCst);
                    urgo::sleep(Duration::from_millis(1));
                }
            });
        });
        wait_until("it spawns", || flags.0.load(Ordering::SeqCst));
        let report = runtime.shutdown(SHORT);
        assert!(!report.is_complete());
        let (first, others) = report.not_ended().split_first().unwrap();
        assert_eq!(first.id(), spawner.id());
        // One may be there that is just being refused.
        assert!(others.iter().all(|s| s.worker().is_none()), "{report}");
        flags.1.store(true, Ordering::SeqCst);
        drop(spawner.join());
    }
}

/// The first to be cancelled blocks its worker's thread, so that the turn of those behind it does not come.
#[test]
fn a_destructor_that_blocks_its_worker_does_not_keep_the_goroutines_of_others_from_being_ended() {
    let runtime = runtime(2);
    let handle = runtime.handle();
    let (begun, drops) = (Arc::new(AtomicUsize::new(0)), Drops::default());
    let (release, released) = mpsc::channel::<()>();
    let of = begun.clone();
    let blocker = handle.spawn_with(on(0), move || {
        // Of std: blocks the worker.
        let _guard = OnDrop(|| assert!(released.recv().is_err()));
        of.fetch_add(1, Ordering::SeqCst);
        urgo::sleep(Duration::MAX);
    });
    let blocker = blocker.unwrap();
    wait_until("the first waits", || begun.load(Ordering::SeqCst) == 1);
    for n in 0..20 {
        let (of, guard) = (begun.clone(), drops.guard());
        let sleeper = handle.spawn_with(on(n % 2), move || {
            let _guard = guard;
            of.fetch_add(1, Ordering::SeqCst);
            urgo::sleep(Duration::MAX);
        });
        drop(sleeper.unwrap());
    }
    wait_until("all wait", || begun.load(Ordering::SeqCst) == 21);
    let report = runtime.shutdown(SHORT);
    assert!(!report.is_complete());
    assert_eq!((report.left().len(), drops.count()), (21, 10), "{report}");
    let not_ended = report.not_ended();
    assert_eq!(not_ended.len(), 11, "{report}");
    assert_eq!(not_ended[0].id(), blocker.id());
    assert!(not_ended.iter().all(|s| s.worker() == Some(0)), "{report}");
    drop(release);
    assert!(blocker.join().unwrap_err().is_cancelled());
    wait_until("the rest is unwound", || drops.count() == 20);
}

/// A worker is stuck, so that no list comes about, while another goes on spawning and starting goroutines until the end begins.
#[test]
fn goroutines_that_start_while_the_end_begins_are_ended_even_if_a_worker_is_stuck() {
    let runtime = runtime(2);
    let handle = runtime.handle();
    let (spawned, drops) = (Arc::new(AtomicUsize::new(0)), Drops::default());
    let (of, guards) = (spawned.clone(), drops.clone());
    let spawner = handle.spawn_with(on(1), move || {
        loop {
            let guard = guards.guard();
            let waiting = move || {
                let _guard = guard;
                urgo::sleep(Duration::MAX);
            };
            let local = Builder::new().placement(Placement::Local);
            drop(local.spawn(waiting).unwrap());
            if of.fetch_add(1, Ordering::SeqCst) % 16 == 0 {
                urgo::sleep(Duration::from_millis(1));
            } else {
                urgo::yield_now();
            }
        }
    });
    wait_until("it spawns", || spawned.load(Ordering::SeqCst) > 100);
    let (release, released) = mpsc::channel::<()>();
    let is_stuck = Arc::new(AtomicBool::new(false));
    let of = is_stuck.clone();
    let stuck = handle.spawn_with(on(0), move || {
        of.store(true, Ordering::SeqCst);
        // Of std: blocks the worker.
        assert!(released.recv().is_err());
    });
    let stuck = stuck.unwrap();
    wait_until("it is stuck", || is_stuck.load(Ordering::SeqCst));
    let report = runtime.shutdown(SHORT);
    assert!(!report.is_complete());
    let not_ended = Vec::from_iter(report.not_ended().iter().map(urgo::Straggler::id));
    assert_eq!(not_ended, [stuck.id()], "{report}");
    drop(release);
    stuck.join().unwrap();
    assert!(spawner.unwrap().join().unwrap_err().is_cancelled());
    assert!(drops.count() >= spawned.load(Ordering::SeqCst));
}

/// It does not wait, so nothing says that it is for a later one that it lets others run.
#[test]
fn a_destructor_that_yields_until_a_later_goroutine_has_ended_comes_to_its_end() {
    for (workers, later_on) in [(1, 0), (2, 0), (2, 1)] {
        let drops = Drops::default();
        let (first, second) = (drops.guard(), drops.clone());
        let ended = runtime(workers).run(move || {
            let (is_over, begun) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
            let begun = Arc::new(begun);
            let (of, until) = (begun.clone(), is_over.clone());
            let spinner = on(0).spawn(move || {
                let _first = first;
                let _guard = OnDrop(|| {
                    while !until.load(Ordering::SeqCst) {
                        urgo::yield_now();
                    }
                });
                of.fetch_add(1, Ordering::SeqCst);
                urgo::sleep(Duration::MAX);
            });
            wait_until("the first waits", || begun.load(Ordering::SeqCst) == 1);
            let of = begun.clone();
            let later = on(later_on).spawn(move || {
                let _second = second.guard();
                let _guard = OnDrop(|| is_over.store(true, Ordering::SeqCst));
                of.fetch_add(1, Ordering::SeqCst);
                urgo::sleep(Duration::MAX);
            });
            wait_until("both wait", || begun.load(Ordering::SeqCst) == 2);
            (spinner.unwrap(), later.unwrap())
        });
        assert_eq!(drops.count(), 2);
        assert!(ended.0.join().unwrap_err().is_cancelled());
        assert!(ended.1.join().unwrap_err().is_cancelled());
    }
}

/// The thread of the call cannot wait for itself, nor for the goroutine that waits for the call.
#[test]
fn a_runtime_that_is_dropped_or_shut_down_in_a_blocking_call_of_its_own_ends() {
    for is_dropped in [true, false] {
        let runtime = runtime(2);
        let (handle, drops) = (runtime.handle(), Drops::default());
        let guard = drops.guard();
        let sleeper = handle.spawn(move || {
            let _guard = guard;
            urgo::sleep(Duration::MAX);
        });
        wait_until("it waits", || handle.metrics().goroutines == 1);
        let (tell, told) = mpsc::channel();
        let caller = handle.spawn(move || {
            urgo::blocking(move || {
                if is_dropped {
                    drop(runtime);
                } else {
                    let report = runtime.shutdown(SHORT);
                    assert!(!report.is_complete(), "{report}");
                    assert_eq!(report.blocking_calls(), 1, "{report}");
                }
            });
            tell.send(()).unwrap();
            urgo::sleep(Duration::MAX);
        });
        told.recv_timeout(PATIENCE).unwrap();
        assert!(caller.join().unwrap_err().is_cancelled());
        assert!(sleeper.join().unwrap_err().is_cancelled());
        assert_eq!(drops.count(), 1);
        wait_until("the pool's thread to leave", || {
            handle.metrics().blocking_threads == 0
        });
    }
}

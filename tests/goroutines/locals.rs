//! Goroutine-locals: one value each, dropped where it was used.

use std::cell::{Cell, RefCell};
use std::thread::ThreadId;

use crate::support::{Drops, Log, OnDrop, hush_planned_panics, runtime, wait_until};

urgo::goroutine_local! {
    static NUMBER: Cell<u64> = Cell::new(7);
    static GUARD: RefCell<Option<Box<dyn Send>>> = RefCell::new(None);
    static LATE: RefCell<Option<Box<dyn Send>>> = RefCell::new(None);
}

#[test]
fn each_goroutine_has_its_own_value_across_waits() {
    runtime(4).run(|| {
        let handles: Vec<_> = (0..1000_u64)
            .map(|n| {
                urgo::spawn(move || {
                    assert_eq!(NUMBER.with(Cell::get), 7);
                    NUMBER.with(|v| v.set(n));
                    for _ in 0..3 {
                        urgo::yield_now();
                        assert_eq!(NUMBER.with(Cell::get), n);
                    }
                    NUMBER.with(|v| {
                        urgo::yield_now(); // the borrow goes across a wait
                        assert_eq!(v.get(), n);
                    });
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
        assert_eq!(NUMBER.with(Cell::get), 7);
    });
}

#[test]
fn values_are_dropped_at_the_end_in_their_goroutine() {
    runtime(4).run(|| {
        let log = Log::<(u64, ThreadId)>::new();
        let handles: Vec<_> = (0..100)
            .map(|_| {
                let log = log.clone();
                urgo::spawn(move || {
                    let guard = OnDrop(move || {
                        log.add((urgo::current().id(), std::thread::current().id()));
                    });
                    GUARD.with(|g| *g.borrow_mut() = Some(Box::new(guard)));
                    urgo::yield_now();
                    (urgo::current().id(), std::thread::current().id())
                })
            })
            .collect();
        let mut expected: Vec<_> = handles.into_iter().map(|h| h.join().unwrap()).collect();
        let mut dropped = log.entries();
        expected.sort_by_key(|entry| entry.0);
        dropped.sort_by_key(|entry| entry.0);
        assert_eq!(
            dropped, expected,
            "dropped before join returned, by their owner"
        );
    });
}

#[test]
fn values_of_a_goroutine_that_panics_or_is_cancelled_are_dropped() {
    hush_planned_panics();
    let drops = Drops::default();
    runtime(2).run(|| {
        let guard = drops.guard();
        let panicked = urgo::spawn(move || {
            GUARD.with(|g| *g.borrow_mut() = Some(Box::new(guard)));
            panic!("planned");
        });
        assert!(panicked.join().unwrap_err().is_panic());
        assert_eq!(drops.count(), 1);
        let guard = drops.guard();
        let parked = crate::support::Log::new();
        let is_parked = parked.clone();
        drop(urgo::spawn(move || {
            GUARD.with(|g| *g.borrow_mut() = Some(Box::new(guard)));
            is_parked.add(());
            urgo::sleep(std::time::Duration::MAX);
        }));
        wait_until("the sleeper", || parked.len() == 1);
    });
    assert_eq!(drops.count(), 2);
}

#[test]
fn a_value_that_is_being_dropped_is_no_longer_there() {
    runtime(1).run(|| {
        let log = Log::<&str>::new();
        let own = log.clone();
        let handle = urgo::spawn(move || {
            let late = own.clone();
            let guard = OnDrop(move || {
                own.add(match GUARD.try_with(|_| ()) {
                    Ok(()) => "still there",
                    Err(_) => "gone",
                });
                // Another key, first used now: made, and dropped as well.
                let late = late.clone();
                let of_late = OnDrop(move || late.add("late one dropped"));
                LATE.with(|g| *g.borrow_mut() = Some(Box::new(of_late)));
            });
            GUARD.with(|g| *g.borrow_mut() = Some(Box::new(guard)));
        });
        handle.join().unwrap();
        assert_eq!(log.entries(), ["gone", "late one dropped"]);
    });
}

#[test]
fn a_value_whose_drop_waits_ends_before_the_join() {
    runtime(2).run(|| {
        let drops = Drops::default();
        let count = drops.clone();
        let handle = urgo::spawn(move || {
            let inner = count.guard();
            let guard = OnDrop(move || {
                urgo::sleep(std::time::Duration::from_millis(1));
                urgo::spawn(|| ()).join().unwrap();
                let _inner = &inner;
            });
            GUARD.with(|g| *g.borrow_mut() = Some(Box::new(guard)));
        });
        handle.join().unwrap();
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn a_value_whose_drop_panics_is_the_goroutines_panic_and_the_rest_is_dropped() {
    hush_planned_panics();
    runtime(1).run(|| {
        let drops = Drops::default();
        let guard = drops.guard();
        let handle = urgo::spawn(move || {
            GUARD.with(|g| *g.borrow_mut() = Some(Box::new(guard)));
            let bomb = OnDrop(|| panic!("planned, of a local"));
            LATE.with(|g| *g.borrow_mut() = Some(Box::new(bomb)));
        });
        let error = handle.join().unwrap_err();
        assert!(error.to_string().contains("planned, of a local"), "{error}");
        assert_eq!(drops.count(), 1, "the other local was dropped, too");
        assert_eq!(urgo::spawn(|| 3).join().unwrap(), 3);
    });
}

#[test]
fn plain_threads_have_their_own_values() {
    NUMBER.with(|v| v.set(1));
    let drops = Drops::default();
    let guard = drops.guard();
    let other = std::thread::spawn(move || {
        GUARD.with(|g| *g.borrow_mut() = Some(Box::new(guard)));
        NUMBER.with(|v| {
            v.set(v.get() + 1);
            v.get()
        })
    });
    assert_eq!(other.join().unwrap(), 8);
    assert_eq!(drops.count(), 1);
    assert_eq!(NUMBER.with(Cell::get), 1);
}

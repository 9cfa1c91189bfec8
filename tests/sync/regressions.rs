//! What once went wrong, under the name of what it should do.

use crate::support::{panic_of, runtime, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use urgo::sync::{Condvar, Mutex, MutexGuard, Semaphore, futex};

/// A word and locks, one after the other in the same memory.
#[repr(C, u32)]
enum Place {
    Word(AtomicU32),
    Condvar(Condvar),
    Mutex(Mutex<()>),
}

/// A place whose word is gone while a goroutine still waits for it, moved there from another word.
fn place_of_a_gone_word() -> (Box<Place>, usize) {
    let from = Arc::new(AtomicU32::new(0));
    let waiter = from.clone();
    urgo::spawn(move || futex::wait(&waiter, 0));
    let place = Box::new(Place::Word(AtomicU32::new(0)));
    let Place::Word(to) = &*place else {
        unreachable!()
    };
    wait_until("it waits and is moved", || {
        futex::requeue(&from, 0, to, 0, 1).unwrap().requeued == 1
    });
    let address = (&raw const *to).addr();
    (place, address)
}

#[test]
fn condvar_knows_nothing_of_waiters_that_were_moved_to_a_word_before_it() {
    runtime(1).run(|| {
        let (mut place, address) = place_of_a_gone_word();
        *place = Place::Condvar(Condvar::new());
        let Place::Condvar(condvar) = &*place else {
            unreachable!()
        };
        assert_eq!((&raw const *condvar).addr(), address);
        let turn = Mutex::new(0);
        urgo::scope(|s| {
            s.spawn(|| {
                let mut turn = turn.lock();
                *turn = 1;
                condvar.wait_while(&mut turn, |turn| *turn == 1);
            });
            wait_until("it waits", || *turn.lock() == 1);
            *turn.lock() = 2;
            assert_eq!(condvar.notify_all(), 1);
        });
    });
}

#[test]
fn mutex_is_not_handed_to_waiters_that_were_moved_to_a_word_before_it() {
    runtime(1).run(|| {
        let (mut place, address) = place_of_a_gone_word();
        *place = Place::Mutex(Mutex::new(()));
        let Place::Mutex(mutex) = &*place else {
            unreachable!()
        };
        assert_eq!((&raw const *mutex).addr(), address);
        urgo::scope(|s| {
            let guard = mutex.lock();
            let waiting = Arc::new(AtomicU32::new(0));
            let said = waiting.clone();
            s.spawn(move || {
                said.store(1, Ordering::Relaxed);
                drop(mutex.lock());
            });
            wait_until("it waits", || waiting.load(Ordering::Relaxed) == 1);
            MutexGuard::unlock_fair(guard);
        });
        assert!(!mutex.is_locked());
    });
}

#[test]
fn semaphore_that_refuses_permits_has_as_many_as_before() {
    crate::support::hush_planned_panics();
    let semaphore = Semaphore::new(1);
    for _ in 0..20 {
        let text = panic_of(|| semaphore.add_permits(Semaphore::MAX_PERMITS));
        assert!(text.contains("MAX_PERMITS"), "{text}");
        assert_eq!(semaphore.available_permits(), 1);
    }
    semaphore.add_permits(Semaphore::MAX_PERMITS - 1);
    assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS);
}

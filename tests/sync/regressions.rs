//! What once went wrong, under the name of what it should do.

use crate::support::{panic_of, runtime, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use urgo::sync::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard, Semaphore, futex,
};

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

/// What a goroutine that lets a lock go for a while and a thread that takes it meanwhile tell each other.
#[derive(Default)]
struct Stage {
    is_held: AtomicBool,
    is_taken: AtomicBool,
    is_ending: AtomicBool,
}

impl Stage {
    /// The goroutine has the lock; `let_go` is called until the thread has it.
    fn let_go(&self, mut let_go: impl FnMut()) {
        self.is_held.store(true, Ordering::Release);
        while !self.is_taken.load(Ordering::Acquire) {
            let_go();
        }
        // A wait that is cut short.
        urgo::sleep(Duration::from_secs(3600));
    }

    /// In the goroutine, without the lock.
    fn wait_taken(&self) {
        while !self.is_taken.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    /// The thread has the lock, until the goroutine has been cancelled.
    fn keep(&self) {
        self.is_taken.store(true, Ordering::Release);
        while !self.is_ending.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
}

/// A goroutine is cancelled when it wants a lock again that its guard let go, and that a thread has by now: its guard must not
/// unlock what it has not. `own` is the goroutine's part, `steal` the thread's, which says whether it was alone.
fn cancelled_while_locking_again(own: fn(&Stage), steal: fn(&Stage) -> bool) {
    struct Last(Arc<Stage>);
    impl Drop for Last {
        fn drop(&mut self) {
            self.0.is_ending.store(true, Ordering::Release);
        }
    }
    let stage = Arc::new(Stage::default());
    let thief = runtime(1).run(move || {
        let theirs = stage.clone();
        urgo::spawn(move || own(&theirs));
        // Goroutines are cancelled in the order in which they were spawned.
        let last = Last(stage.clone());
        urgo::spawn(move || {
            let _last = last;
            urgo::sleep(Duration::from_secs(3600));
        });
        let theirs = stage.clone();
        let thief = std::thread::spawn(move || {
            wait_until("the goroutine has it", || {
                theirs.is_held.load(Ordering::Acquire)
            });
            steal(&theirs)
        });
        wait_until("the thread has it", || {
            stage.is_taken.load(Ordering::Acquire)
        });
        // Let both goroutines come to their waits.
        urgo::sleep(Duration::from_millis(5));
        thief
    });
    assert!(thief.join().unwrap(), "two had the lock");
}

#[test]
fn mutex_guards_lock_again_though_cancelled() {
    static MUTEX: Mutex<()> = Mutex::new(());
    let steal = |stage: &Stage| {
        let _guard = MUTEX.lock();
        stage.keep();
        MUTEX.try_lock().is_none()
    };
    cancelled_while_locking_again(
        |stage| {
            let mut guard = MUTEX.lock();
            stage.let_go(|| MutexGuard::unlocked(&mut guard, || stage.wait_taken()));
        },
        steal,
    );
    cancelled_while_locking_again(
        |stage| {
            let mut guard = MUTEX.lock();
            stage.let_go(|| MutexGuard::bump(&mut guard));
        },
        steal,
    );
    assert!(!MUTEX.is_locked());
}

#[test]
fn rw_lock_guards_lock_again_though_cancelled() {
    static LOCK: RwLock<()> = RwLock::new(());
    let steal = |stage: &Stage| {
        let _guard = LOCK.write();
        stage.keep();
        LOCK.try_write().is_none() && LOCK.try_read().is_none()
    };
    let owns: [fn(&Stage); 4] = [
        |stage| {
            let mut guard = LOCK.write();
            stage.let_go(|| RwLockWriteGuard::unlocked(&mut guard, || stage.wait_taken()));
        },
        |stage| {
            let mut guard = LOCK.read();
            stage.let_go(|| RwLockReadGuard::unlocked(&mut guard, || stage.wait_taken()));
        },
        |stage| {
            let mut guard = LOCK.upgradable_read();
            stage.let_go(|| {
                RwLockUpgradableReadGuard::unlocked(&mut guard, || stage.wait_taken());
            });
        },
        |stage| {
            let mut guard = LOCK.write();
            stage.let_go(|| RwLockWriteGuard::bump(&mut guard));
        },
    ];
    for own in owns {
        cancelled_while_locking_again(own, steal);
    }
    assert!(!LOCK.is_locked());
}

//! Closures and results of every size and alignment, joining, detaching, exiting, names.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use urgo::go::{Builder, Current, SpawnError};
use urgo::{JoinError, JoinHandle, RunError};

use crate::support::{Drops, hush_planned_panics, panic_of, runtime, wait_until};

/// `N` bytes at `Align`'s alignment, with a count of drops.
#[repr(C)]
struct Sized<Align, const N: usize> {
    align: [Align; 0],
    bytes: [u8; N],
}

impl<Align, const N: usize> Sized<Align, N> {
    fn new(first: u8) -> Self {
        let mut bytes = [0; N];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = first.wrapping_add(i as u8);
        }
        Sized { align: [], bytes }
    }

    fn check(&self, first: u8) {
        let at = std::ptr::from_ref(self) as usize;
        assert_eq!(at % align_of::<Self>(), 0, "moved to an odd address");
        for (i, byte) in self.bytes.iter().enumerate() {
            assert_eq!(*byte, first.wrapping_add(i as u8), "byte {i} of {N}");
        }
    }
}

#[repr(align(16))]
struct Align16;
#[repr(align(32))]
struct Align32;
#[repr(align(64))]
struct Align64;
#[repr(align(4096))]
struct Align4096;

/// Captures a value, returns it, and counts that captured and returned ones are dropped exactly once.
fn round_trip<Align: Send + 'static, const N: usize>() {
    let drops = Drops::default();
    for first in [3, 200] {
        let captured = (Sized::<Align, N>::new(first), drops.guard());
        let handle = urgo::spawn(move || {
            captured.0.check(first);
            captured
        });
        let before = drops.count();
        let returned = handle.join().unwrap();
        returned.0.check(first);
        assert_eq!(drops.count(), before, "size {N}: dropped before its time");
        drop(returned);
        assert_eq!(drops.count(), before + 1, "size {N}: not dropped once");
    }
    // The same without anyone who takes the result.
    let before = drops.count();
    let captured = (Sized::<Align, N>::new(9), drops.guard());
    drop(urgo::spawn(move || captured));
    wait_until("the unwanted result is dropped", || {
        drops.count() == before + 1
    });
    let captured = (Sized::<Align, N>::new(9), drops.guard());
    let handle = urgo::spawn(move || captured);
    wait_until("its end", || handle.is_finished());
    assert_eq!(drops.count(), before + 1);
    drop(handle);
    assert_eq!(drops.count(), before + 2);
}

#[test]
fn values_and_closures_of_every_size_and_alignment_come_through() {
    // Unoptimised, the frame that holds all of them is large.
    let builder = urgo::Runtime::builder().workers(2).stack_size(8 << 20);
    builder.build().unwrap().run(|| {
        macro_rules! sizes {
            ($align:ty: $($n:expr),*) => { $(round_trip::<$align, $n>();)* };
        }
        sizes!(u8: 0, 1, 2, 7, 8, 15, 16, 24, 31, 32, 63, 64, 65, 96, 111, 112, 119, 120, 121, 127, 128, 129, 255, 256, 1000, 1024);
        sizes!(u64: 0, 8, 64, 112, 120, 128, 136, 1024);
        sizes!(Align16: 0, 16, 112, 128, 144, 1024);
        sizes!(Align32: 0, 32, 96, 128, 1024);
        sizes!(Align64: 0, 64, 128, 192, 1024);
        sizes!(Align4096: 0, 4096);
    });
}

#[test]
fn a_goroutine_without_value_or_captures_is_joined() {
    runtime(1).run(|| {
        for _ in 0..1000 {
            urgo::spawn(|| ()).join().unwrap();
        }
    });
}

#[test]
fn a_detached_goroutine_runs_to_its_end() {
    runtime(2).run(|| {
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..1000 {
            let ran = ran.clone();
            drop(urgo::spawn(move || {
                urgo::yield_now();
                ran.fetch_add(1, Ordering::SeqCst);
            }));
        }
        wait_until("all detached goroutines", || {
            ran.load(Ordering::SeqCst) == 1000
        });
    });
}

#[test]
fn a_plain_thread_joins_a_goroutine() {
    runtime(2).run(|| {
        for wait in [false, true] {
            let handles: Vec<_> = (0..50)
                .map(|n| {
                    urgo::spawn(move || {
                        if wait {
                            urgo::sleep(std::time::Duration::from_millis(2));
                        }
                        n
                    })
                })
                .collect();
            let thread = std::thread::spawn(move || -> usize {
                handles.into_iter().map(|h| h.join().unwrap()).sum()
            });
            wait_until("the thread", || thread.is_finished());
            assert_eq!(thread.join().unwrap(), 49 * 50 / 2);
        }
    });
}

/// Handles are thrown into one heap, and everybody joins what they find there: goroutines of all workers join those of all
/// others, before, while and after they end.
#[test]
fn a_storm_of_joins_across_workers_gets_every_result() {
    let total = runtime(4).run(|| {
        let heap = Arc::new(Mutex::new(Vec::<JoinHandle<usize>>::new()));
        let sum = Arc::new(AtomicUsize::new(0));
        let joiners: Vec<_> = (0..200)
            .map(|n| {
                let (heap, sum) = (heap.clone(), sum.clone());
                urgo::spawn(move || {
                    for i in 0..20 {
                        let child = urgo::spawn(move || {
                            for _ in 0..(n + i) % 4 {
                                urgo::yield_now();
                            }
                            1
                        });
                        heap.lock().unwrap().push(child);
                        let found = {
                            let mut heap = heap.lock().unwrap();
                            let at = (n * 31 + i * 7) % heap.len().max(1);
                            (!heap.is_empty()).then(|| heap.swap_remove(at))
                        };
                        if let Some(found) = found {
                            sum.fetch_add(found.join().unwrap(), Ordering::SeqCst);
                        }
                    }
                })
            })
            .collect();
        for joiner in joiners {
            joiner.join().unwrap();
        }
        let rest = std::mem::take(&mut *heap.lock().unwrap());
        let rest: usize = rest.into_iter().map(|h| h.join().unwrap()).sum();
        rest + sum.load(Ordering::SeqCst)
    });
    assert_eq!(total, 200 * 20);
}

#[test]
fn exit_goroutine_unwinds_only_its_own() {
    runtime(2).run(|| {
        let drops = Drops::default();
        let guard = drops.guard();
        let handle = urgo::spawn(move || -> u8 {
            let _guard = guard;
            urgo::exit_goroutine()
        });
        assert!(matches!(handle.join(), Err(JoinError::Exited)));
        assert_eq!(drops.count(), 1);
        assert_eq!(urgo::spawn(|| 5).join().unwrap(), 5);
        // A catch on the way stops it, and the goroutine goes on.
        let handle = urgo::spawn(|| {
            let caught = std::panic::catch_unwind(|| urgo::exit_goroutine());
            urgo::yield_now();
            caught.is_err()
        });
        assert!(handle.join().unwrap());
    });
}

#[test]
fn the_main_goroutine_that_exits_leaves_no_value() {
    let drops = Drops::default();
    let guard = drops.guard();
    let result = runtime(2).try_run(|| -> u8 {
        drop(urgo::spawn(move || {
            let _guard = guard;
            urgo::sleep(std::time::Duration::MAX);
        }));
        urgo::exit_goroutine()
    });
    assert!(matches!(result, Err(RunError::Exited)), "{result:?}");
    assert_eq!(drops.count(), 1);
}

#[test]
fn exit_goroutine_on_a_plain_thread_is_refused_in_words() {
    hush_planned_panics();
    let message = panic_of(|| urgo::exit_goroutine());
    assert!(message.contains("plain thread"), "{message}");
}

#[test]
fn spawn_local_takes_what_is_not_send_and_stays_there() {
    runtime(4).run(|| {
        let here = std::thread::current().id();
        let shared = Rc::new(std::cell::RefCell::new(Vec::new()));
        let handles: Vec<_> = (0..100)
            .map(|n| {
                let shared = shared.clone();
                urgo::spawn_local(move || {
                    assert_eq!(std::thread::current().id(), here);
                    urgo::yield_now();
                    shared.borrow_mut().push(n);
                    urgo::yield_now();
                    assert_eq!(std::thread::current().id(), here);
                    Rc::new(n)
                })
            })
            .collect();
        let sum: i32 = handles.into_iter().map(|h| *h.join().unwrap()).sum();
        assert_eq!(sum, 99 * 100 / 2);
        assert_eq!(shared.borrow().len(), 100);
        assert_eq!(Rc::strong_count(&shared), 1, "a closure was not dropped");
    });
}

#[test]
fn current_says_id_name_spawn_site_and_worker() {
    runtime(2).run(|| {
        assert_eq!(urgo::current().id(), 0);
        assert_eq!(urgo::current().name(), Some("main"));
        let line = line!() + 1;
        let handle = urgo::spawn(urgo::current);
        let id = handle.id();
        let current = handle.join().unwrap();
        assert_eq!(current.id(), id);
        assert_eq!(current.name(), None);
        assert_eq!(current.spawn_site().line(), line);
        assert!(current.spawn_site().file().ends_with("spawning.rs"));
        assert!(current.worker() < 2);
        let named = Builder::new().name("réader").spawn(urgo::current).unwrap();
        let current = named.join().unwrap();
        assert_eq!(current.name(), Some("réader"));
        let text = current.to_string();
        assert!(
            text.contains("réader") && text.contains("spawning.rs:"),
            "{text}"
        );
    });
    assert!(Current::try_current().is_none());
}

#[test]
fn ids_are_unique_over_all_workers() {
    let ids = runtime(4).run(|| {
        let parents: Vec<_> = (0..20)
            .map(|_| {
                urgo::spawn(|| {
                    let children: Vec<_> = (0..500)
                        .map(|_| urgo::spawn(|| urgo::current().id()))
                        .collect();
                    let mut ids: Vec<u64> =
                        children.into_iter().map(|h| h.join().unwrap()).collect();
                    ids.push(urgo::current().id());
                    ids
                })
            })
            .collect();
        let mut ids = vec![0];
        for parent in parents {
            ids.extend(parent.join().unwrap());
        }
        ids
    });
    let unique: HashSet<u64> = ids.iter().copied().collect();
    assert_eq!((ids.len(), unique.len()), (20 * 501 + 1, 20 * 501 + 1));
}

#[test]
fn a_goroutine_that_joins_itself_is_told() {
    hush_planned_panics();
    runtime(1).run(|| {
        let own = Arc::new(Mutex::new(None::<JoinHandle<()>>));
        let said = Arc::new(Mutex::new(None));
        let (own_of, said_of) = (own.clone(), said.clone());
        let handle = urgo::spawn(move || {
            let handle = own_of.lock().unwrap().take().unwrap();
            *said_of.lock().unwrap() = Some(panic_of(|| handle.join()));
        });
        *own.lock().unwrap() = Some(handle);
        wait_until("the goroutine", || said.lock().unwrap().is_some());
        let said = said.lock().unwrap().take().unwrap();
        assert!(said.contains("joins itself"), "{said}");
    });
}

#[test]
fn what_cannot_be_spawned_is_a_typed_error_and_drops_its_closure() {
    let drops = Drops::default();
    let refused = |builder: Builder| {
        let guard = drops.guard();
        let before = drops.count();
        let error = builder.spawn(move || drop(guard)).unwrap_err();
        assert_eq!(drops.count(), before + 1, "{error}");
        error
    };
    assert!(matches!(refused(Builder::new()), SpawnError::NoRuntime));
    let message = panic_of(|| urgo::spawn(|| ()));
    assert!(message.contains("Handle"), "{message}");
    runtime(2).run(|| {
        for bytes in [0, (1 << 30) + 1, usize::MAX] {
            let error = refused(Builder::new().stack_size(bytes));
            assert!(
                matches!(error, SpawnError::StackSize(b) if b == bytes),
                "{error}"
            );
            assert!(error.to_string().contains(&bytes.to_string()));
        }
        let error = refused(Builder::new().placement(urgo::go::Placement::Worker(2)));
        assert!(
            matches!(
                error,
                SpawnError::NoSuchWorker {
                    index: 2,
                    workers: 2
                }
            ),
            "{error}"
        );
        let text = std::io::Error::from(error).to_string();
        assert!(text.contains("0 to 1"), "{text}");
    });
}

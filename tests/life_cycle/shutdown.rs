//! `Runtime::shutdown`: the grace time, the end, and the report of who was late.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use urgo::debug::WaitReason;
use urgo::go::{Builder, Placement, SpawnError};
use urgo::net::TcpListener;
use urgo::{Handle, JoinHandle, Straggler};

use crate::support::{Drops, Log, OnDrop, PATIENCE, alone, runtime, wait_until};

/// Short for a wait, and long for a machine that is busy with other things: nobody who can be ended is given up before.
const SHORT: Duration = Duration::from_secs(1);

type Wait = Box<dyn FnOnce() + Send>;

/// Spawns a named goroutine on a worker, which says when it has begun.
fn spawn_named(
    handle: &Handle,
    name: &str,
    worker: usize,
    begun: &Arc<AtomicUsize>,
    body: impl FnOnce() + Send + 'static,
) -> JoinHandle<()> {
    let begun = begun.clone();
    let builder = Builder::new()
        .name(name)
        .placement(Placement::Worker(worker));
    let body = move || {
        begun.fetch_add(1, Ordering::SeqCst);
        body();
    };
    handle.spawn_with(builder, body).unwrap()
}

fn names(stragglers: &[Straggler]) -> Vec<&str> {
    Vec::from_iter(stragglers.iter().map(|s| s.name().unwrap_or("(no name)")))
}

#[test]
fn when_all_end_by_themselves_nobody_is_reported_and_the_grace_is_not_waited_out() {
    for workers in [1, 2] {
        let (runtime, ended) = (runtime(workers), Arc::new(AtomicUsize::new(0)));
        let handle = runtime.handle();
        for n in 0..20 {
            let ended = ended.clone();
            drop(handle.spawn(move || {
                urgo::sleep(Duration::from_millis(n % 5));
                urgo::spawn(|| urgo::sleep(Duration::from_millis(1)))
                    .join()
                    .unwrap();
                ended.fetch_add(1, Ordering::SeqCst);
            }));
        }
        // Waiting for all of it would be the end of the test.
        let report = runtime.shutdown(20 * PATIENCE);
        assert!(report.is_complete() && report.left().is_empty(), "{report}");
        assert!(report.not_ended().is_empty() && report.blocking_calls() == 0);
        assert_eq!(ended.load(Ordering::SeqCst), 20);
    }
}

#[test]
fn a_runtime_without_goroutines_shuts_down_at_once() {
    let report = runtime(2).shutdown(20 * PATIENCE);
    assert!(report.is_complete() && report.left().is_empty());
    assert!(runtime(1).shutdown(Duration::ZERO).is_complete());
    assert!(runtime(1).shutdown(Duration::MAX).is_complete());
}

#[test]
fn who_is_left_is_reported_and_unwound_in_spawn_order() {
    let runtime = runtime(1);
    let (handle, order) = (runtime.handle(), Log::new());
    let begun = Arc::new(AtomicUsize::new(0));
    let (_sender, receiver) = urgo::chan::unbounded::<u8>();
    let waits: [(&str, Wait); 4] = [
        ("sleeper", Box::new(|| urgo::sleep(Duration::MAX))),
        (
            "receiver",
            Box::new(move || assert!(receiver.recv().is_err())),
        ),
        (
            "listener",
            Box::new(|| drop(TcpListener::bind("127.0.0.1:0").unwrap().accept())),
        ),
        (
            "joiner",
            Box::new(|| drop(urgo::spawn(|| urgo::sleep(Duration::MAX)).join())),
        ),
    ];
    let mut ids = Vec::new();
    for (name, wait) in waits {
        let order = order.clone();
        let spawned = spawn_named(&handle, name, 0, &begun, move || {
            let _guard = OnDrop(|| order.add(name));
            wait();
        });
        ids.push(spawned.id());
        wait_until("it has begun", || begun.load(Ordering::SeqCst) == ids.len());
    }
    wait_until("the joiner's own", || handle.metrics().goroutines == 5);
    let report = runtime.shutdown(SHORT);
    assert!(report.is_complete() && report.not_ended().is_empty());
    let left = report.left();
    assert_eq!(
        order.entries(),
        ["sleeper", "receiver", "listener", "joiner"]
    );
    assert_eq!(names(&left[..4]), order.entries());
    assert_eq!(left.len(), 5, "{report}");
    let reasons = [
        WaitReason::Timer,
        WaitReason::ChanRecv,
        WaitReason::Accept,
        WaitReason::Join,
        WaitReason::Timer,
    ];
    for (straggler, reason) in left.iter().zip(reasons) {
        assert_eq!(straggler.wait_reason(), reason, "{straggler}");
        assert_eq!(straggler.worker(), Some(0));
        assert!(straggler.spawn_site().file().ends_with("shutdown.rs"));
    }
    assert!(left.iter().zip(&ids).all(|(s, id)| s.id() == *id));
    assert_eq!(left[4].name(), None);
}

#[test]
fn during_the_grace_work_from_outside_is_refused_and_goroutines_may_spawn() {
    let runtime = runtime(2);
    let handle = runtime.handle();
    let begun = Arc::new(AtomicUsize::new(0));
    let is_released = Arc::new(AtomicBool::new(false));
    let of = is_released.clone();
    let last = spawn_named(&handle, "last", 0, &begun, move || {
        wait_until("the release", || of.load(Ordering::SeqCst));
        assert_eq!(urgo::spawn(|| 4).join().unwrap(), 4);
    });
    let outside = std::thread::spawn(move || {
        let drops = Drops::default();
        let mut tried = 0;
        wait_until("the refusal", || {
            tried += 1;
            let guard = drops.guard();
            match handle.spawn_with(Builder::new(), move || drop(guard)) {
                Ok(_) => false,
                Err(error) => {
                    assert!(matches!(error, SpawnError::Stopped), "{error}");
                    true
                }
            }
        });
        let refused = handle.spawn(|| 1);
        assert!(refused.join().unwrap_err().is_cancelled());
        wait_until("all closures are gone", || drops.count() == tried);
        is_released.store(true, Ordering::SeqCst);
    });
    let report = runtime.shutdown(20 * PATIENCE);
    assert!(report.is_complete() && report.left().is_empty(), "{report}");
    last.join().unwrap();
    outside.join().unwrap();
}

/// Scenario 100: a call that does not come back, and a read of standard input.
#[test]
fn a_blocking_call_and_a_pending_read_of_stdin_do_not_keep_the_shutdown() {
    alone!(|| {
        let (mut typist, terminal) = UnixStream::pair().unwrap();
        let number = terminal.as_raw_fd();
        // SAFETY: both numbers are open; standard input is nobody's else in this process.
        let duplicated = unsafe { libc::dup2(number, 0) };
        assert_eq!(duplicated, 0);
        let runtime = runtime(2);
        let handle = runtime.handle();
        let (begun, drops) = (Arc::new(AtomicUsize::new(0)), Drops::default());
        let (release, released) = mpsc::channel::<()>();
        let guard = drops.guard();
        let caller = spawn_named(&handle, "caller", 0, &begun, move || {
            let _guard = guard;
            urgo::blocking(move || assert!(released.recv().is_err()));
            urgo::sleep(Duration::MAX);
        });
        let (guard, line) = (drops.guard(), Log::new());
        let lines = line.clone();
        let reader = spawn_named(&handle, "reader", 1, &begun, move || {
            let _guard = guard;
            let mut text = String::new();
            urgo::blocking(|| std::io::stdin().read_line(&mut text).unwrap());
            lines.add(text);
        });
        for n in 0..10 {
            let guard = drops.guard();
            drop(spawn_named(&handle, "sleeper", n % 2, &begun, move || {
                let _guard = guard;
                urgo::sleep(Duration::MAX);
            }));
        }
        wait_until("all have begun", || begun.load(Ordering::SeqCst) == 12);
        wait_until("both calls run", || handle.metrics().blocking_threads == 2);
        urgo::sleep(Duration::from_millis(5));
        let report = runtime.shutdown(SHORT);
        println!("{report}");
        assert!(!report.is_complete());
        assert_eq!(report.left().len(), 12);
        assert_eq!(names(report.not_ended()), ["caller", "reader"]);
        for (n, straggler) in report.not_ended().iter().enumerate() {
            assert_eq!(straggler.wait_reason(), WaitReason::Blocking);
            assert_eq!(straggler.worker(), Some(n));
        }
        assert_eq!(report.blocking_calls(), 2);
        assert_eq!(drops.count(), 10, "the others were unwound");
        assert!(!caller.is_finished() && !reader.is_finished());
        // They come back after all, and find everything as they left it.
        typist.write_all(b"late\n").unwrap();
        drop(release);
        assert!(caller.join().unwrap_err().is_cancelled());
        reader.join().unwrap();
        assert_eq!(
            (line.entries(), drops.count()),
            (vec![String::from("late\n")], 12)
        );
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        // The harness's own and this one.
        wait_until("the threads to leave", || threads() <= 2);
    });
}

/// A call that blocks the worker itself: its goroutines cannot be ended, those of the others can.
#[test]
fn a_worker_that_is_stuck_does_not_keep_the_shutdown() {
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let handle = runtime.handle();
        let (begun, drops) = (Arc::new(AtomicUsize::new(0)), Drops::default());
        let mut handles = Vec::new();
        for n in 0..workers {
            let guard = drops.guard();
            handles.push(spawn_named(&handle, "sleeper", n, &begun, move || {
                let _guard = guard;
                urgo::sleep(Duration::MAX);
            }));
        }
        wait_until("they wait", || begun.load(Ordering::SeqCst) == workers);
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        let last = workers - 1;
        handles.push(spawn_named(&handle, "stuck", last, &begun, move || {
            // Of std: blocks the worker.
            assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
        }));
        wait_until("it is stuck", || {
            begun.load(Ordering::SeqCst) == workers + 1
        });
        let behind = Arc::new(AtomicUsize::new(0));
        handles.push(spawn_named(&handle, "behind it", last, &behind, || {}));
        let report = runtime.shutdown(SHORT);
        assert!(!report.is_complete());
        assert_eq!(report.left().len(), workers + 2, "{report}");
        let not_ended = report.not_ended();
        assert_eq!(not_ended.len(), 3, "{report}");
        assert_eq!(not_ended[0].wait_reason(), WaitReason::Timer);
        assert_eq!(not_ended[1].wait_reason(), WaitReason::None);
        assert!(not_ended[..2].iter().all(|s| s.worker() == Some(last)));
        assert_eq!(not_ended[2].worker(), None, "{}", not_ended[2]);
        assert_eq!(drops.count(), workers - 1, "the other worker's was unwound");
        ours.shutdown(Shutdown::Both).unwrap();
        for (n, handle) in handles.into_iter().enumerate() {
            let joined = handle.join();
            // The stuck one went on to its end.
            assert_eq!(joined.is_ok(), n == workers, "{n}");
        }
        assert_eq!((drops.count(), behind.load(Ordering::SeqCst)), (workers, 0));
    }
}

#[test]
fn who_must_not_be_cut_short_is_reported_and_may_end_later() {
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let (handle, log) = (runtime.handle(), Log::new());
        let begun = Arc::new(AtomicUsize::new(0));
        let (release, released) = urgo::chan::bounded::<()>(0);
        let (of, until) = (log.clone(), released.clone());
        let first = spawn_named(&handle, "uncancellable", 0, &begun, move || {
            urgo::uncancellable(|| assert!(until.recv().is_err()));
            of.add("uncancellable");
            urgo::yield_now();
            of.add("went on");
        });
        let of = log.clone();
        let second = spawn_named(&handle, "in a drop", workers - 1, &begun, move || {
            let _guard = OnDrop(|| {
                assert!(released.recv().is_err());
                of.add("in a drop");
            });
            urgo::sleep(Duration::MAX);
        });
        wait_until("both have begun", || begun.load(Ordering::SeqCst) == 2);
        let report = runtime.shutdown(SHORT);
        assert!(!report.is_complete());
        assert_eq!(names(report.not_ended()), ["uncancellable", "in a drop"]);
        let mut reasons = report.not_ended().iter().map(Straggler::wait_reason);
        assert!(
            reasons.all(|reason| reason == WaitReason::ChanRecv),
            "{report}"
        );
        assert_eq!(log.len(), 0);
        drop(release);
        assert!(first.join().unwrap_err().is_cancelled());
        assert!(second.join().unwrap_err().is_cancelled());
        let mut ended = log.entries();
        ended.sort_unstable();
        assert_eq!(ended, ["in a drop", "uncancellable"]);
    }
}

#[test]
fn a_goroutine_of_another_runtime_may_shut_one_down() {
    runtime(1).run(|| {
        let other = runtime(2);
        let drops = Drops::default();
        for _ in 0..10 {
            let guard = drops.guard();
            drop(other.handle().spawn(move || {
                let _guard = guard;
                urgo::sleep(Duration::MAX);
            }));
        }
        let beside = urgo::spawn(|| 5);
        let report = other.shutdown(SHORT);
        assert!(report.is_complete());
        assert_eq!((report.left().len(), drops.count()), (10, 10));
        assert_eq!(beside.join().unwrap(), 5);
    });
}

#[test]
fn one_of_its_own_goroutines_may_shut_it_down_and_does_not_wait_for_itself() {
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let (handle, drops) = (runtime.handle(), Drops::default());
        let guard = drops.guard();
        let sleeper = handle.spawn(move || {
            let _guard = guard;
            urgo::sleep(Duration::MAX);
        });
        let (tell, told) = mpsc::channel();
        let closer = handle.spawn(move || {
            let report = runtime.shutdown(SHORT);
            tell.send((report.is_complete(), report.left().len()))
                .unwrap();
            urgo::sleep(Duration::MAX);
        });
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), (false, 1));
        assert!(closer.join().unwrap_err().is_cancelled());
        assert!(sleeper.join().unwrap_err().is_cancelled());
        assert_eq!(drops.count(), 1);
    }
}

//! Which roads the runtime takes on the kernel that runs this, seen from outside: what the process has open and mapped, not
//! what the code says of itself. `ci/kernel` builds it as one more test binary and shows what it prints.
//!
//! | since | road | before |
//! |---|---|---|
//! | 6.7 | a thread wakes a worker by a futex wake on its sleep word | an eventfd for each worker |
//! | 6.13 | guards by `MADV_GUARD_INSTALL` | guards by `mprotect`, two mappings each |
//! | 6.15 | a sleeping ring is not counted as iowait | it is |

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use urgo_sys::guard::{self, GuardRoad};
use urgo_sys::host::KernelVersion;
use urgo_uring::{Capabilities, Config, Ring};

/// Descriptors and mappings are the process's: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kernel_has(major: u32, minor: u32) -> bool {
    KernelVersion::current() >= KernelVersion::new(major, minor, 0)
}

fn eventfds() -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap();
    open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .filter(|target| target.as_os_str() == "anon_inode:[eventfd]")
        .count()
}

fn forbidden_mappings() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(" ---p ")).count()
}

#[test]
fn capabilities_are_those_of_this_kernel() {
    let _alone = alone();
    let ring = Ring::new(&Config::default()).unwrap();
    let has = ring.capabilities();
    println!("roads: kernel {}: {has:?}", KernelVersion::current());
    for (capability, major, minor) in [
        (Capabilities::NO_SQARRAY, 6, 6),
        (Capabilities::MSG_RING, 6, 7),
        (Capabilities::FUTEX_WAIT, 6, 7),
        (Capabilities::ABS_TIMER, 6, 12),
        (Capabilities::NO_IOWAIT, 6, 15),
    ] {
        assert_eq!(
            has.contains(capability),
            kernel_has(major, minor),
            "{capability:?}"
        );
    }
}

#[test]
fn threads_wake_workers_by_the_road_of_this_kernel() {
    let _alone = alone();
    let before = eventfds();
    let runtime = urgo::Runtime::builder().workers(2).build().unwrap();
    let handle = runtime.handle();
    let kicker = std::thread::spawn(move || {
        for round in 0..100 {
            // Long enough for the workers to fall asleep: the main goroutine only waits.
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(handle.spawn(move || round).join().unwrap(), round);
        }
    });
    let (opened, sleeps) = runtime.run(move || {
        while !kicker.is_finished() {
            urgo::sleep(Duration::from_millis(20));
        }
        kicker.join().unwrap();
        let metrics = urgo::debug::metrics();
        (
            eventfds() - before,
            metrics
                .workers
                .iter()
                .map(|worker| worker.sleeps)
                .sum::<u64>(),
        )
    });
    println!(
        "roads: 100 kicks from a thread heard, {sleeps} sleeps of 2 workers, {opened} eventfd(s) open"
    );
    assert!(sleeps > 0, "nobody slept, so nobody was woken");
    assert_eq!(opened, if kernel_has(6, 7) { 0 } else { 2 });
}

#[test]
fn guards_are_made_by_the_road_of_this_kernel() {
    const GOROUTINES: usize = 200;
    let _alone = alone();
    let expected = if kernel_has(6, 13) {
        GuardRoad::Marker
    } else {
        GuardRoad::Protect
    };
    assert_eq!(guard::probe(), expected);
    let before = forbidden_mappings();
    let runtime = urgo::Runtime::builder().workers(2).build().unwrap();
    let made = runtime.run(move || {
        let parked = Arc::new(AtomicUsize::new(0));
        for _ in 0..GOROUTINES {
            let parked = parked.clone();
            urgo::spawn(move || {
                parked.fetch_add(1, SeqCst);
                urgo::sleep(Duration::from_secs(3600));
            });
        }
        while parked.load(SeqCst) < GOROUTINES {
            urgo::sleep(Duration::from_millis(1));
        }
        forbidden_mappings() - before
    });
    println!(
        "roads: guards by {expected:?}: {made} forbidden mappings more for {GOROUTINES} goroutines"
    );
    match expected {
        GuardRoad::Protect => assert!(made >= GOROUTINES),
        // The workers' own thread stacks and arenas have some.
        GuardRoad::Marker => assert!(made < GOROUTINES / 4),
    }
}

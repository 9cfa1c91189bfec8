//! Mixed traffic for as long as one likes, with an allocator that notices late writes: no byte is lost, repeated or delivered
//! to somebody else, nobody writes into memory that was freed, and no descriptor is left.
//!
//! ```text
//! URGO_TRAFFIC_SECONDS=600 cargo test --release --features fault-injection --test traffic -- --nocapture
//! ```
//!
//! With the feature the kernel's answers are refused, late, reordered and doubled as the seed has it (see `urgo_uring::faults`).

#[path = "traffic/churn.rs"]
mod churn;
#[path = "traffic/poison.rs"]
mod poison;
#[path = "traffic/streams.rs"]
mod streams;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{Random, hush_planned_panics, run_in_child, seed, wait_until};

#[global_allocator]
static ALLOCATOR: poison::Poison = poison::Poison;

/// What all players share.
#[derive(Clone)]
struct Game {
    is_over: Arc<AtomicBool>,
    tally: Arc<Tally>,
}

/// What was done, so that a game in which nothing happened is seen.
#[derive(Debug, Default)]
struct Tally {
    bytes: AtomicU64,
    timed_out: AtomicU64,
    cancelled: AtomicU64,
    unwound: AtomicU64,
    closed: AtomicU64,
    visits: AtomicU64,
}

impl Game {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }
}

fn add(count: &AtomicU64, n: u64) {
    count.fetch_add(n, Ordering::Relaxed);
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn play(duration: Duration, seed: u64) {
    hush_planned_panics();
    // What stays for good (a thread's waker, the dead socket) is made by a first, short game.
    game(Duration::from_millis(200), seed ^ 1);
    let before = descriptors();
    game(duration, seed);
    wait_until("all descriptors are closed", || descriptors() <= before);
    poison::check_all();
}

fn game(duration: Duration, seed: u64) {
    let game = Game {
        is_over: Arc::default(),
        tally: Arc::default(),
    };
    let mut random = Random::new(seed);
    urgo::Runtime::builder()
        .workers(2)
        .build()
        .unwrap()
        .run(|| {
            let mut players = Vec::new();
            for _ in 0..24 {
                players.extend(streams::start(&game, random.next()));
            }
            players.extend(churn::start(&game, random.next()));
            let end = Instant::now() + duration;
            while Instant::now() < end && !players.iter().any(urgo::JoinHandle::is_finished) {
                urgo::sleep(Duration::from_millis(20));
            }
            game.is_over.store(true, Ordering::Relaxed);
            for player in players {
                if let Err(error) = player.join() {
                    panic!("a player lost: {error}");
                }
            }
            wait_until("every operation has ended once", || {
                let workers = urgo::debug::metrics().workers;
                workers.iter().all(|w| {
                    let ring = w.ring;
                    ring.operations - ring.completions <= 1 && ring.in_flight <= 1
                })
            });
        });
    println!("{:?}", game.tally);
    let tally = &game.tally;
    for (what, count) in [
        ("bytes", &tally.bytes),
        ("time-outs", &tally.timed_out),
        ("cancellations", &tally.cancelled),
        ("unwound readers", &tally.unwound),
        ("closed readers", &tally.closed),
        ("visits", &tally.visits),
    ] {
        let is_short = duration < Duration::from_secs(2);
        assert!(
            is_short || count.load(Ordering::Relaxed) > 10,
            "hardly any {what}"
        );
    }
}

#[test]
fn mixed_traffic_loses_nothing_and_writes_nothing_late() {
    let duration = match std::env::var("URGO_TRAFFIC_SECONDS") {
        Ok(text) => text.parse().expect("URGO_TRAFFIC_SECONDS is a number"),
        Err(_) => 5,
    };
    let seed = seed();
    println!("{duration} s");
    let faults = format!("seed={seed}");
    let text = seed.to_string();
    let environment = [
        ("URGO_FAULTS", faults.as_str()),
        ("URGO_TEST_SEED", text.as_str()),
    ];
    let environment = if cfg!(feature = "fault-injection") {
        &environment[..]
    } else {
        &environment[1..]
    };
    let name = "mixed_traffic_loses_nothing_and_writes_nothing_late";
    let limit = Duration::from_secs(duration) + support::PATIENCE;
    let body = || play(Duration::from_secs(duration), seed);
    if let Some(output) = support::run_in_child_within(limit, name, environment, body) {
        let text = String::from_utf8_lossy(&output.stdout);
        println!("{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}", output.status);
    }
}

/// The allocator sees a late write: otherwise the test above could not fail.
#[test]
fn a_late_write_is_noticed() {
    let output = run_in_child("a_late_write_is_noticed", &[], || {
        let bytes = vec![1u8; 300];
        let late = bytes.as_ptr().cast_mut();
        drop(bytes);
        // Freed by us, and kept by the allocator.
        poison::scribble(late);
        poison::check_all();
    });
    if let Some(output) = output {
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(text.contains("written after it was freed"), "{text}");
    }
}

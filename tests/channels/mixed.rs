//! Threads and goroutines at the same mutex, condition variable and channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use urgo::chan::{RecvTimeoutError, Sender, bounded};
use urgo::select;
use urgo::sync::{Condvar, Mutex};

use crate::stress::is_full;
use crate::support::{Random, runtime, seed};

const THREADS: usize = 8;
const GOROUTINES: usize = 1_000;

/// What the mutex guards: tokens in a box that are either here or in somebody's hands.
#[derive(Default)]
struct Account {
    here: u64,
    /// Two fields that are only equal while nobody writes.
    writes: u64,
    writes_again: u64,
}

struct Shared {
    account: Mutex<Account>,
    has_more: Condvar,
    in_hands: AtomicU64,
    inside: AtomicUsize,
    rounds: AtomicU64,
    stop: AtomicBool,
    sent: AtomicU64,
    received: AtomicU64,
}

const TOKENS: u64 = 50;

impl Shared {
    /// Nobody else is inside, and nobody was while I was.
    fn write(&self, account: &mut Account) {
        assert_eq!(self.inside.fetch_add(1, Ordering::Relaxed), 0, "two inside");
        assert_eq!(account.writes, account.writes_again);
        account.writes += 1;
        std::hint::black_box(&mut *account);
        account.writes_again += 1;
        self.inside.fetch_sub(1, Ordering::Relaxed);
        assert_eq!(
            account.here + self.in_hands.load(Ordering::Relaxed),
            TOKENS,
            "tokens were lost"
        );
    }

    /// Takes a token, waiting for one; `false` when it is over.
    fn take(&self, patience: Option<Duration>) -> bool {
        let mut account = self.account.lock();
        while account.here == 0 {
            if self.stop.load(Ordering::SeqCst) {
                return false;
            }
            match patience {
                None => self.has_more.wait(&mut account),
                Some(time) => drop(self.has_more.wait_for(&mut account, time)),
            }
        }
        account.here -= 1;
        self.in_hands.fetch_add(1, Ordering::Relaxed);
        self.write(&mut account);
        true
    }

    fn give_back(&self) {
        let mut account = self.account.lock();
        account.here += 1;
        self.in_hands.fetch_sub(1, Ordering::Relaxed);
        self.write(&mut account);
        drop(account);
        self.has_more.notify_one();
    }
}

/// One of the crowd: random uses of all three until it is over.
fn hammer(shared: &Shared, s: &Sender<u64>, r: &urgo::chan::Receiver<u64>, mut random: Random) {
    while !shared.stop.load(Ordering::SeqCst) {
        match random.below(6) {
            0 | 1 => {
                let patience = match random.below(2) {
                    0 => None,
                    _ => Some(Duration::from_micros(random.below(300))),
                };
                if shared.take(patience) {
                    if random.below(4) == 0 {
                        urgo::yield_now();
                    }
                    shared.give_back();
                }
            }
            2 => {
                let value = random.below(1_000);
                let time = Duration::from_micros(random.below(500));
                if s.send_timeout(value, time).is_ok() {
                    shared.sent.fetch_add(value, Ordering::Relaxed);
                }
            }
            3 => {
                let time = Duration::from_micros(random.below(500));
                match r.recv_timeout(time) {
                    Ok(value) => {
                        shared.received.fetch_add(value, Ordering::Relaxed);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => panic!("all live"),
                }
            }
            4 => {
                let value = random.below(1_000);
                select! {
                    send(s, value) -> sent => {
                        sent.unwrap();
                        shared.sent.fetch_add(value, Ordering::Relaxed);
                    }
                    recv(r) -> got => {
                        shared.received.fetch_add(got.unwrap(), Ordering::Relaxed);
                    }
                    default(Duration::from_micros(200)) => {}
                }
            }
            _ => {
                if let Some(mut account) = shared.account.try_lock() {
                    shared.write(&mut account);
                }
                shared.has_more.notify_all();
            }
        }
        shared.rounds.fetch_add(1, Ordering::Relaxed);
    }
}

fn threads_and_goroutines_hammer(workers: usize) {
    let seed = seed();
    let shared = Arc::new(Shared {
        account: Mutex::new(Account {
            here: TOKENS,
            ..Account::default()
        }),
        has_more: Condvar::new(),
        in_hands: AtomicU64::new(0),
        inside: AtomicUsize::new(0),
        rounds: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        sent: AtomicU64::new(0),
        received: AtomicU64::new(0),
    });
    for capacity in [0, 4] {
        shared.stop.store(false, Ordering::SeqCst);
        let time = Duration::from_millis(if is_full() { 5_000 } else { 500 });
        let mut random = Random::new(seed ^ capacity as u64);
        let (s, r) = bounded::<u64>(capacity);
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (shared, s, r) = (shared.clone(), s.clone(), r.clone());
                let random = Random::new(random.next());
                std::thread::spawn(move || hammer(&shared, &s, &r, random))
            })
            .collect();
        runtime(workers).run(|| {
            let goroutines: Vec<_> = (0..GOROUTINES)
                .map(|_| {
                    let (shared, s, r) = (shared.clone(), s.clone(), r.clone());
                    let random = Random::new(random.next());
                    urgo::spawn(move || hammer(&shared, &s, &r, random))
                })
                .collect();
            let began = Instant::now();
            while began.elapsed() < time {
                urgo::sleep(Duration::from_millis(10));
                // Who looks sees a whole account.
                let account = shared.account.lock();
                assert_eq!(account.writes, account.writes_again);
            }
            shared.stop.store(true, Ordering::SeqCst);
            drop(shared.account.lock());
            shared.has_more.notify_all();
            for goroutine in goroutines {
                goroutine.join().unwrap();
            }
        });
        for thread in threads {
            thread.join().unwrap();
        }
        drop(s);
        let left: u64 = r.try_iter().sum();
        assert_eq!(
            shared.received.load(Ordering::Relaxed) + left,
            shared.sent.load(Ordering::Relaxed)
        );
        // The queue's rest is accounted for, for the next capacity.
        shared.received.fetch_add(left, Ordering::Relaxed);
        let account = shared.account.lock();
        assert_eq!(
            (account.here, account.writes),
            (TOKENS, account.writes_again)
        );
    }
    println!(
        "note: {workers} workers: {} rounds",
        shared.rounds.load(Ordering::Relaxed)
    );
}

#[test]
fn threads_and_goroutines_of_one_worker_hammer_a_mutex_a_condvar_and_a_channel() {
    threads_and_goroutines_hammer(1);
}

#[test]
fn threads_and_goroutines_of_two_workers_hammer_a_mutex_a_condvar_and_a_channel() {
    threads_and_goroutines_hammer(2);
}

#[test]
fn threads_and_goroutines_of_four_workers_hammer_a_mutex_a_condvar_and_a_channel() {
    threads_and_goroutines_hammer(4);
}

//! Channels whose messages time makes: `after`, `at`, `tick`, and `never`, which it makes none for. Times are asserted from
//! below only: a loaded machine is late.

use std::time::{Duration, Instant};

use urgo::chan::{
    Receiver, RecvTimeoutError, Select, TryRecvError, after, at, bounded, never, tick,
};
use urgo::select;

use crate::grounds::{everywhere, spawn};
use crate::support::wait_until;

const MOMENT: Duration = Duration::from_millis(4);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn after_fires_once_and_not_before_its_time() {
    everywhere(|_| {
        let began = Instant::now();
        let r = after(MOMENT);
        assert_eq!((r.capacity(), r.len()), (Some(1), 0));
        let due = r.recv().unwrap();
        assert!(Instant::now() >= due && due >= began + MOMENT);
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(r.recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
        assert!(r.is_empty() && !r.is_full());
    });
}

#[test]
fn a_message_of_time_waits_until_it_is_taken() {
    everywhere(|_| {
        let r = after(Duration::ZERO);
        wait_until("it is there", || r.len() == 1);
        assert!(r.is_full() && !r.is_empty());
        assert!(r.try_recv().is_ok());
        assert_eq!((r.len(), r.try_recv()), (0, Err(TryRecvError::Empty)));
        let r = after(MOMENT);
        wait_until("it is there", || r.is_full());
        let taken: Vec<_> = r.try_iter().collect();
        assert_eq!(taken.len(), 1);
    });
}

#[test]
fn at_gives_the_moment_itself() {
    everywhere(|_| {
        for when in [Instant::now(), Instant::now() + MOMENT] {
            let r = at(when);
            assert_eq!(r.recv(), Ok(when));
            assert!(Instant::now() >= when);
            assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        }
        let r = at(Instant::now() + HOUR);
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(r.recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
    });
}

#[test]
fn ticks_come_again_and_again_and_not_before_their_time() {
    everywhere(|_| {
        let began = Instant::now();
        let r = tick(MOMENT);
        assert_eq!((r.capacity(), r.len()), (Some(1), 0));
        let mut last = began;
        for _ in 0..5 {
            let beat = r.recv().unwrap();
            assert!(Instant::now() >= beat);
            assert!(beat >= last + MOMENT / 2, "two beats at once");
            last = beat;
        }
        assert!(began.elapsed() >= 5 * MOMENT / 2);
    });
}

/// Beats that nobody took do not pile up.
#[test]
fn missed_ticks_do_not_queue() {
    everywhere(|_| {
        let period = Duration::from_millis(20);
        let r = tick(period);
        urgo::sleep(4 * period);
        assert_eq!(r.len(), 1);
        let began = Instant::now();
        assert!(r.try_recv().is_ok());
        let more = r.try_iter().take(3).count() as u32;
        // Those that came meanwhile, if it took so long; not those that were missed.
        let took = began.elapsed();
        assert!(
            more <= 1 + took.div_duration_f64(period) as u32,
            "{more} in {took:?}"
        );
    });
}

#[test]
fn clones_share_the_messages_of_time() {
    everywhere(|ground| {
        for _ in 0..ground.rounds(8) {
            let r = after(MOMENT / 2);
            let takers: Vec<_> = (0..4)
                .map(|_| {
                    let r = r.clone();
                    spawn(move || r.recv_timeout(4 * MOMENT).is_ok())
                })
                .collect();
            let taken = takers.into_iter().map(|taker| taker.join());
            assert_eq!(taken.filter(|taken| *taken).count(), 1);
        }
        let (r, other) = (after(MOMENT), after(MOMENT));
        assert!(r.same_channel(&r.clone()) && !r.same_channel(&other));
    });
}

#[test]
fn time_beyond_the_clock_never_comes() {
    everywhere(|_| {
        for r in [
            after(Duration::MAX),
            tick(Duration::MAX),
            after(HOUR),
            tick(HOUR),
            never(),
        ] {
            assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
            assert_eq!(r.recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout));
            assert!(r.is_empty());
            assert_eq!(r.len(), 0);
        }
    });
}

#[test]
fn time_is_an_arm_of_a_select_like_others() {
    everywhere(|_| {
        let (_s, r) = bounded::<u8>(0);
        let began = Instant::now();
        select! {
            recv(r) -> _ => panic!("nobody sends"),
            recv(after(MOMENT)) -> due => assert!(due.unwrap() >= began + MOMENT),
        }
        assert!(began.elapsed() >= MOMENT);
        // The nearest of several.
        let fired = select! {
            recv(after(HOUR)) -> _ => 1,
            recv(after(MOMENT)) -> _ => 2,
            recv(tick(HOUR)) -> _ => 3,
            recv(never::<Instant>()) -> _ => 4,
            default(HOUR) => 5,
        };
        assert_eq!(fired, 2);
        // A deadline that is kept over several rounds.
        let began = Instant::now();
        let end = after(3 * MOMENT);
        let period = MOMENT / 4;
        let beats = tick(period);
        let mut count = 0;
        loop {
            select! {
                recv(beats) -> _ => count += 1,
                recv(end) -> _ => break,
            }
        }
        let took = began.elapsed();
        assert!(took >= 3 * MOMENT);
        assert!(count * period <= took, "{count} beats in {took:?}");
    });
}

#[test]
fn time_is_an_operation_of_a_dynamic_select_like_others() {
    everywhere(|_| {
        let never = never::<u8>();
        let late = after(HOUR);
        let soon = after(MOMENT);
        let mut select = Select::new();
        select.recv(&never);
        select.recv(&late);
        let index = select.recv(&soon);
        assert!(select.try_select().is_err() && select.try_ready().is_err());
        assert_eq!(select.ready(), index);
        let operation = select.select();
        assert_eq!(operation.index(), index);
        assert!(operation.recv(&soon).is_ok());
        assert!(select.select_timeout(MOMENT).is_err());
    });
}

/// Of two who select on one message of time, one gets it, and the other is not stuck with it.
#[test]
fn two_selects_on_one_message_of_time_share_it() {
    everywhere(|ground| {
        for _ in 0..ground.rounds(8) {
            let r: Receiver<Instant> = after(MOMENT / 4);
            let takers: Vec<_> = (0..2)
                .map(|_| {
                    let r = r.clone();
                    spawn(move || {
                        select! {
                            recv(r) -> got => { assert!(got.is_ok()); true }
                            default(3 * MOMENT) => false,
                        }
                    })
                })
                .collect();
            let taken: Vec<_> = takers.into_iter().map(|taker| taker.join()).collect();
            assert!(taken[0] != taken[1], "{taken:?}");
        }
    });
}

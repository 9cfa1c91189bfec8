//! What does a timer cost that never fires?

use crate::catalogue::{Budget, Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Lap, Sample};
use crate::hosts::{Coroutines, Goroutines, Green, Put, Take, tokio_runtime, warm_up};
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

pub(super) const WORKLOAD: Workload = Workload {
    name: "timers",
    question: "What does a timer cost that is cancelled before it fires, alone and among many others?",
    work: "\"Create, cancel\": a timer of one hour is made and cancelled at once, as a user does it who has found that it is not \
           needed. Go's `AfterFunc` + `Stop` enters it into the scheduler's heap and takes it out; tokio's `sleep` is polled \
           once, which enters it into the timer wheel, and dropped, which takes it out. urgo's `chan::after` is made and \
           dropped: it arms nothing until somebody waits for it, so no timer is entered here; what an armed one costs urgo is \
           \"what a deadline adds\". Go's timer with a channel, `NewTimer` + `Stop`, arms nothing either: its time is \
           `not_armed_ns` in the results file. may has no timer without a wait. \"Round trip, deadlines\": two goroutines hand a number to \
           and fro over channels of one slot, and each receive waits with a deadline of 1 s that never passes, so a round trip \
           enters two timers and takes two out; urgo and may: `recv_timeout`, Go: `select` with a timer that is reset and \
           stopped, tokio: `timeout` around `recv`. \"What a deadline adds\": that round trip less one without deadlines in \
           the same process, per deadline. The other timers are goroutines or tasks that sleep 10 minutes; in Go they are \
           `AfterFunc`s, which spares its collector their stacks. In may, whose stacks are a mapping and a guard page each, \
           there can be no more than about 32,000 of them.",
    is_not: "a measure of timers that fire (see sleep and scale), nor of how exact they are.",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::GO.fewer(2),
        Contender::alone("tokio", tokio_tasks)
            .of_crate("tokio")
            .fewer(2),
        Contender::alone("may", round_trips::<Coroutines>)
            .of_crate("may")
            .fewer(16),
    ],
    client: None,
};

const ADDED: Judge = Judge {
    metric: "deadline_ns",
    unit: "ns",
    what: "CPU time that a deadline adds",
};
const FAR: Duration = Duration::from_secs(3600);
const ALIVE: Duration = Duration::from_secs(600);
const DEADLINE: Duration = Duration::from_secs(1);
const AXIS: &str = "other timers alive";

fn cases(size: Size) -> Vec<Case> {
    let mut cases = Vec::new();
    for alive in [0, 1000, 100_000, 1_000_000] {
        let among = match alive {
            0 => "alone".to_owned(),
            _ => format!("{alive} alive"),
        };
        let alive_here = size.of(alive, alive.min(1000));
        let case = |name: &str, ops, trips: u8| {
            Case::new(format!("{name}, {among}"), 1, size.of(ops, 1000))
                .param("alive", alive_here)
                .param("trips", trips)
                .rounds_max(if alive == 1_000_000 { 3 } else { usize::MAX })
        };
        let create = case("create, cancel", 2_000_000, 0)
            .only(&["urgo", "go", "tokio"])
            .budget(Budget::AtMost(50.0));
        let trip = case("round trip, deadlines", 1_000_000, 1);
        let added = case("what a deadline adds", 1_000_000, 1)
            .judged_by(ADDED)
            .budget(Budget::AtMost(50.0));
        let all = [
            (create, "timer create + cancel against timers alive"),
            (trip, "round trip with deadlines against timers alive"),
            (added, "what a deadline adds against timers alive"),
        ];
        cases.extend(all.map(|(case, title)| {
            let case = if alive > 1000 && case.only.is_none() {
                case.only(&["urgo", "go", "tokio"])
            } else {
                case
            };
            match alive {
                0 => case,
                _ => case.plot(title, AXIS, alive),
            }
        }));
    }
    cases
}

/// Receiving with a deadline.
trait Patient: Take {
    /// `None` once all senders are gone.
    ///
    /// # Panics
    /// If nothing comes in time.
    fn take_within(&self, timeout: Duration) -> Option<u64>;
}

macro_rules! patient {
    ($($receiver:ty, $error:path;)*) => {$(
        impl Patient for $receiver {
            fn take_within(&self, timeout: Duration) -> Option<u64> {
                use $error::{Disconnected, Timeout};
                match self.recv_timeout(timeout) {
                    Ok(value) => Some(value),
                    Err(Disconnected) => None,
                    Err(Timeout) => panic!("nothing came within {timeout:?}"),
                }
            }
        }
    )*};
}

patient! {
    urgo::chan::Receiver<u64>, urgo::chan::RecvTimeoutError;
    may::sync::mpsc::Receiver<u64>, std::sync::mpsc::RecvTimeoutError;
}

/// `0..trips` come back as `1..=trips`.
fn sum(trips: usize) -> u64 {
    let trips = trips as u64;
    trips * (trips + 1) / 2
}

/// The sample of round trips with deadlines, with what each of the two deadlines of a trip added.
fn with_added(mut with: Sample, without: &Sample) -> Sample {
    let (with_ns, without_ns) = (with.metrics["cpu_ns"], without.metrics["cpu_ns"]);
    with.set("without_ns", without_ns);
    with.set("deadline_ns", (with_ns - without_ns) / 2.0);
    with
}

fn trips_done(lap: Lap, trips: usize, result: u64) -> Sample {
    let sample = lap.stop(trips, result);
    assert_eq!(result, sum(trips), "a value was lost, or came twice");
    sample
}

fn urgo(cell: &Cell) -> Sample {
    if cell.get::<u8>("trips") == 1 {
        return round_trips::<Goroutines>(cell);
    }
    let (ops, alive) = (cell.ops(), cell.get("alive"));
    Goroutines::run(cell, move || {
        fall_asleep::<Goroutines>(alive);
        let once = |ops: usize| {
            let mut made = 0;
            let lap = Lap::start();
            for _ in 0..ops {
                drop(black_box(urgo::chan::after(FAR)));
                made += 1;
            }
            lap.stop(ops, made)
        };
        once(warm_up(ops));
        once(ops)
    })
}

/// Starts `alive` sleepers and waits until all sleep.
fn fall_asleep<G: Green>(alive: usize) {
    let asleep = Arc::new(AtomicUsize::new(0));
    for at in 0..alive {
        let asleep = asleep.clone();
        drop(G::spawn(move || {
            // Relaxed: a number, and nothing else goes with it.
            asleep.fetch_add(1, Ordering::Relaxed);
            G::sleep(ALIVE + Duration::from_micros(at as u64));
        }));
    }
    while asleep.load(Ordering::Relaxed) < alive {
        G::sleep(Duration::from_millis(1));
    }
}

fn round_trips<G: Green>(cell: &Cell) -> Sample
where
    G::Take: Patient,
{
    let (ops, alive) = (cell.ops(), cell.get("alive"));
    G::run(cell, move || {
        fall_asleep::<G>(alive);
        let within: fn(&G::Take) -> Option<u64> = |receiver| receiver.take_within(DEADLINE);
        game::<G>(warm_up(ops), Take::take);
        game::<G>(warm_up(ops), within);
        let without = game::<G>(ops, Take::take);
        with_added(game::<G>(ops, within), &without)
    })
}

/// `trips` round trips between this green thread and another one, both of which receive by `take`.
fn game<G: Green>(trips: usize, take: fn(&G::Take) -> Option<u64>) -> Sample {
    let (ping, pinged) = G::channel();
    let (pong, ponged) = G::channel();
    let other = G::spawn(move || {
        while let Some(value) = take(&pinged) {
            pong.put(value + 1);
        }
    });
    let mut result = 0;
    let lap = Lap::start();
    for value in 0..trips as u64 {
        ping.put(value);
        result += take(&ponged).expect("it is sent back");
    }
    let sample = trips_done(lap, trips, result);
    drop(ping);
    G::join(other);
    sample
}

fn tokio_tasks(cell: &Cell) -> Sample {
    let (ops, alive) = (cell.ops(), cell.get("alive"));
    let trips = cell.get::<u8>("trips") == 1;
    let main = async move {
        tasks_fall_asleep(alive).await;
        if !trips {
            // A task's budget would make every 128th poll fail before it enters the timer.
            return tokio::task::unconstrained(async {
                create_and_cancel(warm_up(ops)).await;
                create_and_cancel(ops).await
            })
            .await;
        }
        game_of_tasks(warm_up(ops), false).await;
        game_of_tasks(warm_up(ops), true).await;
        let without = game_of_tasks(ops, false).await;
        with_added(game_of_tasks(ops, true).await, &without)
    };
    tokio_runtime(cell)
        .block_on(async { tokio::spawn(main).await })
        .expect("no panic")
}

async fn tasks_fall_asleep(alive: usize) {
    let asleep = Arc::new(AtomicUsize::new(0));
    for at in 0..alive {
        let asleep = asleep.clone();
        tokio::spawn(async move {
            // Relaxed: a number, and nothing else goes with it.
            asleep.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(ALIVE + Duration::from_micros(at as u64)).await;
        });
    }
    while asleep.load(Ordering::Relaxed) < alive {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn create_and_cancel(ops: usize) -> Sample {
    let mut pending = 0;
    let lap = Lap::start();
    for _ in 0..ops {
        let mut timer = pin!(tokio::time::sleep(FAR));
        let poll = poll_fn(|context| Poll::Ready(timer.as_mut().poll(context).is_pending()));
        pending += u64::from(poll.await);
    }
    let sample = lap.stop(ops, pending);
    assert_eq!(pending, ops as u64, "a timer fired an hour early");
    sample
}

async fn game_of_tasks(trips: usize, with_deadlines: bool) -> Sample {
    let (ping, mut pinged) = tokio::sync::mpsc::channel::<u64>(1);
    let (pong, mut ponged) = tokio::sync::mpsc::channel::<u64>(1);
    let other = tokio::spawn(async move {
        while let Some(value) = receive(&mut pinged, with_deadlines).await {
            pong.send(value + 1).await.expect("the other plays");
        }
    });
    let mut result = 0;
    let lap = Lap::start();
    for value in 0..trips as u64 {
        ping.send(value).await.expect("the other plays");
        let back = receive(&mut ponged, with_deadlines).await;
        result += back.expect("it is sent back");
    }
    let sample = trips_done(lap, trips, result);
    drop(ping);
    other.await.expect("no panic");
    sample
}

async fn receive(
    receiver: &mut tokio::sync::mpsc::Receiver<u64>,
    with_deadline: bool,
) -> Option<u64> {
    if with_deadline {
        let received = tokio::time::timeout(DEADLINE, receiver.recv());
        received.await.expect("it comes within the deadline")
    } else {
        receiver.recv().await
    }
}

//! How long does it take to wake a goroutine on an idle CPU?

use crate::catalogue::{Case, Contender, Judge, Size, Workload};
use crate::cell::{Cell, Latencies, Sample, latencies};
use crate::hosts::{Job, Put, Take, coroutines, goroutines, tasks, threads};
use crate::machine::pin_to;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(super) const WORKLOAD: Workload = Workload {
    name: "wake",
    question: "How long does it take from a send until the goroutine that waits for it runs, on a CPU that is idle?",
    work: "A goroutine sends a time stamp through a channel of one slot to a goroutine that has waited for 200 µs; its worker \
           sleeps in the kernel. One operation is one wake; its latency is from just before the send to just after the \
           receive returned. Apart: the two are bound to two workers, threads to two CPUs (over std's channel, which parks). \
           Between wakes the waker computes without a pause, so the other CPU must do the work, or it sleeps by a timer, before \
           and after each wake. Go places its goroutines itself, but where the waker computes, its other thread takes the woken \
           one over. tokio and may would leave the woken one to the waker's worker until that waits; so there the waker is a \
           thread outside, bound to one CPU, and the runtime has one worker, on the other. As placed: the schedulers may put \
           both on one worker, and then no CPU is woken. tokio's timer has a resolution of one millisecond.",
    is_not: "a measure of throughput; nor of a round trip without pauses, for which see ping_pong, apart.",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::GO,
        Contender::alone("tokio", tokio_tasks)
            .of_crate("tokio")
            .fewer(4),
        Contender::alone("may", may_coroutines).of_crate("may"),
        Contender::alone("threads", plain_threads),
    ],
    client: None,
};

/// Median of the latencies of one lap.
const JUDGE: Judge = Judge {
    metric: "p50_us",
    unit: "µs",
    what: "time until it runs (median of a lap)",
};

fn cases(size: Size) -> Vec<Case> {
    let case = |name, apart, computes| {
        Case::new(name, 2, size.of(2000, 40))
            .param("apart", apart)
            .param("computes", computes)
            .param("pause_us", 200)
            .judged_by(JUDGE)
    };
    vec![
        case("apart, waker computes", 1, 1),
        // The others cannot be bound.
        case("apart, waker sleeps", 1, 0).only(&["urgo", "threads"]),
        case("as placed, waker sleeps", 0, 0).only(&["urgo", "go", "tokio", "may"]),
    ]
}

fn urgo(cell: &Cell) -> Sample {
    measured(|seen| {
        goroutines(cell, count, |wakes| {
            let game = Game::new(cell, wakes, seen);
            let (sender, receiver) = urgo::chan::bounded(1);
            vec![game.waker(sender, urgo::sleep), game.sleeper(receiver)]
        })
    })
}

fn plain_threads(cell: &Cell) -> Sample {
    measured(|seen| {
        threads(cell, count, |wakes| {
            let game = Game::new(cell, wakes, seen);
            let (sender, receiver) = std::sync::mpsc::sync_channel(1);
            vec![
                game.waker(sender, std::thread::sleep),
                game.sleeper(receiver),
            ]
        })
    })
}

fn may_coroutines(cell: &Cell) -> Sample {
    measured(|seen| {
        coroutines(&outside_of_waker(cell), count, |wakes| {
            let game = Game::new(cell, wakes, seen);
            let (sender, receiver) = may::sync::mpsc::channel();
            let sleeper = game.sleeper(receiver);
            if game.waker_computes {
                game.waker_outside(move |sent_ns| sender.put(sent_ns));
                vec![sleeper]
            } else {
                vec![game.waker(sender, may::coroutine::sleep), sleeper]
            }
        })
    })
}

fn tokio_tasks(cell: &Cell) -> Sample {
    measured(|seen| {
        tasks(&outside_of_waker(cell), count, |wakes| {
            tokio_game(Game::new(cell, wakes, seen))
        })
    })
}

/// The cell of a runtime whose waker is a thread outside, if it is one: without the waker's CPU, to which this thread and
/// those that it will start are confined.
fn outside_of_waker(cell: &Cell) -> Cell {
    let mut cell = cell.clone();
    if cell.get::<u8>("computes") == 1 {
        cell.cpus.remove(0);
        pin_to(&cell.cpus).expect("CPUs of the cell");
    }
    cell
}

/// Each wake counts as one.
fn count(wakes: usize) -> u64 {
    wakes as u64
}

/// What `host` measures, with the latencies that its last lap has left.
fn measured(host: impl FnOnce(&Arc<Mutex<Latencies>>) -> Sample) -> Sample {
    let seen = Arc::new(Mutex::new(latencies()));
    let mut sample = host(&seen);
    sample.set_latencies(&seen.lock().expect("no panic"));
    sample
}

/// One lap.
#[derive(Clone)]
struct Game {
    wakes: usize,
    waker_computes: bool,
    /// Index of the worker that waker and sleeper are bound to.
    places: [Option<usize>; 2],
    waker_cpu: usize,
    pause: Duration,
    /// Time stamps count from here.
    base: Instant,
    /// Where the sleeper leaves its latencies in the end.
    seen: Arc<Mutex<Latencies>>,
}

impl Game {
    fn new(cell: &Cell, wakes: usize, seen: &Arc<Mutex<Latencies>>) -> Game {
        Game {
            wakes,
            waker_computes: cell.get::<u8>("computes") == 1,
            places: match cell.get::<u8>("apart") {
                1 => [Some(0), Some(1)],
                _ => [None; 2],
            },
            waker_cpu: cell.cpus[0],
            pause: Duration::from_micros(cell.get("pause_us")),
            base: Instant::now(),
            seen: seen.clone(),
        }
    }

    fn now_ns(&self) -> u64 {
        self.base.elapsed().as_nanos() as u64
    }

    fn waker(&self, sender: impl Put, sleep: fn(Duration)) -> Job {
        let game = self.clone();
        let pause = if self.waker_computes { compute } else { sleep };
        Job::new(self.places[0], move || {
            for _ in 0..game.wakes {
                pause(game.pause);
                sender.put(game.now_ns());
            }
            // So that the end of the waker hurries no wake.
            pause(game.pause);
            0
        })
    }

    /// A waker that computes, on a thread of its own. The lap ends with the sleeper, when `send` is dropped.
    fn waker_outside(&self, send: impl Fn(u64) + Send + 'static) {
        let game = self.clone();
        std::thread::spawn(move || {
            pin_to(&[game.waker_cpu]).expect("a CPU of the cell");
            for _ in 0..game.wakes {
                compute(game.pause);
                send(game.now_ns());
            }
            compute(game.pause);
        });
    }

    fn sleeper(&self, receiver: impl Take) -> Job {
        let game = self.clone();
        Job::new(self.places[1], move || {
            let mut latencies = latencies();
            while let Some(sent_ns) = receiver.take() {
                latencies.saturating_record(game.now_ns() - sent_ns);
            }
            game.leave(latencies)
        })
    }

    /// Returns how often the sleeper was woken.
    fn leave(&self, latencies: Latencies) -> u64 {
        let woken = latencies.len();
        *self.seen.lock().expect("no panic") = latencies;
        woken
    }
}

/// Keeps the CPU busy.
fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {}
}

async fn tokio_game(game: Game) -> u64 {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
    if game.waker_computes {
        game.waker_outside(move |sent_ns| sender.blocking_send(sent_ns).expect("a receiver"));
    } else {
        let waker = game.clone();
        tokio::spawn(async move {
            for _ in 0..waker.wakes {
                tokio::time::sleep(waker.pause).await;
                sender.send(waker.now_ns()).await.expect("a receiver");
            }
            tokio::time::sleep(waker.pause).await;
        });
    }
    let mut latencies = latencies();
    while let Some(sent_ns) = receiver.recv().await {
        latencies.saturating_record(game.now_ns() - sent_ns);
    }
    game.leave(latencies)
}

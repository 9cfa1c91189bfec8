//! Question: what does a message cost in a stream from one producer to one consumer?
//!
//! Workload: one goroutine sends the numbers from 0 on through a channel of 1024 slots, another one receives until the sender
//! is gone; the sum is checked. One operation is one message. Each table is made with one handle on each side, where no
//! second sender or receiver can interfere and a channel may make use of that, and with handles cloned, where a second
//! sender and a second receiver are alive all the time but idle. On two workers the two goroutines are once bound apart, and
//! once placed by the scheduler, which may well put them together.
//!
//! Beside it, in the same run: threads over crossbeam-channel, over `std::sync::mpsc::sync_channel` and over kanal, pinned
//! where the goroutines are bound and unpinned where they are not; tokio, `mpsc::channel(1024)`; may, its `mpsc` (`mpmc` where
//! handles are cloned), which has no bound: its producer never waits, and on one worker all messages are in memory before the
//! first is received. tokio and may place their tasks themselves, in the tables of bound goroutines too. std and tokio have
//! one receiver by nature, so only their sender is cloned.
//!
//! Printed: machine, kernel, commit; ns per message, CPU time on one worker and wall time on two; ratio round by round.
//!
//! It is not: a measure of waiting. With 1024 slots on one worker, there is one switch for hundreds of messages.
//!
//! Options: those of every bench; `--case PART-OF-A-HEADING`; `--workers N` for one number of workers, in this process.

#[path = "harness/mod.rs"]
mod harness;
#[path = "rivals/mod.rs"]
mod rivals;

use harness::{
    Clock, Contender, Options, Report, compare_by, each_in_a_process, locked_version, pin_to,
};
use rivals::{Job, Put, Take, Work, coroutines, goroutines, tasks, threads};

const SLOTS: usize = 1024;

/// Handles alive on each side of the channel, the places of producer and consumer, and what they are called.
struct Table {
    handles: usize,
    places: [Option<usize>; 2],
    case: &'static str,
    budget_ns: f64,
}

const ONE_WORKER: &[Table] = &[
    Table {
        handles: 1,
        places: [None; 2],
        case: "one handle a side, 1 worker",
        budget_ns: 8.0,
    },
    Table {
        handles: 2,
        places: [None; 2],
        case: "cloned handles, 1 worker",
        budget_ns: 15.0,
    },
];

const TWO_WORKERS: &[Table] = &[
    Table {
        handles: 1,
        places: [Some(0), Some(1)],
        case: "one handle a side, 2 workers, apart",
        budget_ns: 18.0,
    },
    Table {
        handles: 1,
        places: [None; 2],
        case: "one handle a side, 2 workers, as placed",
        budget_ns: 18.0,
    },
    Table {
        handles: 2,
        places: [Some(0), Some(1)],
        case: "cloned handles, 2 workers, apart",
        budget_ns: 25.0,
    },
    Table {
        handles: 2,
        places: [None; 2],
        case: "cloned handles, 2 workers, as placed",
        budget_ns: 25.0,
    },
];

fn main() {
    each_in_a_process(tables);
}

fn tables(options: &mut Options, allowed: &[usize], cpus: &[usize]) {
    let mut report = Report::open("stream", allowed, options);
    pin_to(cpus);
    let (clock, tables) = match cpus.len() {
        1 => (Clock::Cpu, ONE_WORKER),
        _ => (Clock::Wall, TWO_WORKERS),
    };
    let many = work(options.size(1 << 22, 5000));
    let some = work(options.size(1 << 20, 5000));
    let versions = ["crossbeam-channel", "kanal", "tokio", "may"].map(locked_version);
    for table in tables {
        let (handles, places) = (table.handles, table.places);
        let contenders = vec![
            Contender::new("urgo", move || {
                goroutines(cpus, many, || {
                    let (sender, receiver) = urgo::chan::bounded(SLOTS);
                    flow(places, many, vec![sender; handles], vec![receiver; handles])
                })
            }),
            Contender::new(format!("crossbeam {}", versions[0]), move || {
                let (sender, receiver) = crossbeam_channel::bounded(SLOTS);
                let jobs = flow(places, some, vec![sender; handles], vec![receiver; handles]);
                threads(cpus, some, jobs)
            }),
            Contender::new("std sync_channel", move || {
                let (sender, receiver) = std::sync::mpsc::sync_channel(SLOTS);
                let jobs = flow(places, some, vec![sender; handles], vec![receiver]);
                threads(cpus, some, jobs)
            }),
            Contender::new(format!("kanal {}", versions[1]), move || {
                let (sender, receiver) = kanal::bounded(SLOTS);
                let jobs = flow(places, some, vec![sender; handles], vec![receiver; handles]);
                threads(cpus, some, jobs)
            }),
            Contender::new(format!("tokio {} mpsc", versions[2]), move || {
                tasks(cpus, some, || tokio_flow(some.operations, handles))
            }),
            Contender::new(format!("may {} unbounded", versions[3]), move || {
                let jobs = if handles == 1 {
                    let (sender, receiver) = may::sync::mpsc::channel();
                    flow(places, some, vec![sender], vec![receiver])
                } else {
                    let (sender, receiver) = may::sync::mpmc::channel();
                    flow(places, some, vec![sender; handles], vec![receiver; handles])
                };
                coroutines(cpus, some, jobs)
            }),
        ];
        compare_by(
            clock,
            &mut report,
            options,
            &format!("stream, {SLOTS} slots, {}", table.case),
            Some(table.budget_ns),
            contenders,
        );
    }
}

fn work(messages: usize) -> Work {
    let messages_u64 = messages as u64;
    Work {
        operations: messages,
        sum: messages_u64 * (messages_u64 - 1) / 2,
    }
}

/// A producer and a consumer. Both keep all their handles until their end and use the first.
fn flow<S: Put, R: Take>(
    places: [Option<usize>; 2],
    work: Work,
    senders: Vec<S>,
    receivers: Vec<R>,
) -> Vec<Job> {
    let messages = work.operations as u64;
    vec![
        Job::new(places[0], move || {
            let sender = &senders[0];
            (0..messages).for_each(|value| sender.put(value));
            drop(senders);
            0
        }),
        Job::new(places[1], move || {
            let receiver = &receivers[0];
            let sum = std::iter::from_fn(|| receiver.take()).sum();
            drop(receivers);
            sum
        }),
    ]
}

async fn tokio_flow(messages: usize, handles: usize) -> u64 {
    let (sender, mut receiver) = tokio::sync::mpsc::channel::<u64>(SLOTS);
    let senders = vec![sender; handles];
    let producer = tokio::spawn(async move {
        for value in 0..messages as u64 {
            senders[0].send(value).await.expect("a consumer");
        }
    });
    let consumer = tokio::spawn(async move {
        let mut sum = 0;
        while let Some(value) = receiver.recv().await {
            sum += value;
        }
        sum
    });
    producer.await.expect("no panic");
    consumer.await.expect("no panic")
}

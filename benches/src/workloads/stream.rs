//! What does a message cost in a stream from one producer to one consumer?

use crate::catalogue::{Budget, Case, Contender, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::hosts::{Job, Put, Take, coroutines, goroutines, tasks, threads};

pub(super) const WORKLOAD: Workload = Workload {
    name: "stream",
    question: "What does a message cost in a stream from one producer to one consumer?",
    work: "One goroutine sends the numbers from 0 on through a channel of 1024 slots, another one receives until the sender is \
           gone; the sum is checked. One operation is one message. Each case is made with one handle on each side, where no \
           second sender or receiver can interfere and a channel may make use of that, and with handles cloned, where a second \
           sender and a second receiver are alive all the time but idle. On two workers the two goroutines are once bound \
           apart, and once placed by the scheduler, which may well put them together; threads are pinned where goroutines are \
           bound. tokio, may and Go place their tasks themselves in all cases. std and tokio have one receiver by nature, so \
           only their sender is cloned; a channel of Go has no handles to be counted. may's channels (mpmc where handles are \
           cloned) have no bound: its producer never waits, and on one worker all messages are in memory before the first is \
           received.",
    is_not: "a measure of waiting: with 1024 slots on one worker there is one switch for hundreds of messages.",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::GO.fewer(4),
        Contender::alone("crossbeam", crossbeam_threads)
            .of_crate("crossbeam-channel")
            .fewer(4),
        Contender::alone("std", std_threads).fewer(4),
        Contender::alone("kanal", kanal_threads)
            .of_crate("kanal")
            .fewer(4),
        Contender::alone("tokio", tokio_tasks)
            .of_crate("tokio")
            .fewer(4),
        // All that it sends may be in memory at once.
        Contender::alone("may", may_coroutines)
            .of_crate("may")
            .fewer(16),
    ],
    client: None,
};

const SLOTS: usize = 1024;

fn cases(size: Size) -> Vec<Case> {
    let mut cases = Vec::new();
    for (workers, apart, place) in [
        (1, 0, "1 worker"),
        (2, 1, "2 workers, apart"),
        (2, 0, "2 workers, as placed"),
    ] {
        for (handles, kind, budgets_ns) in [
            (1, "one handle a side", [8.0, 18.0]),
            (2, "cloned handles", [15.0, 25.0]),
        ] {
            let case = Case::new(
                format!("{kind}, {place}"),
                workers,
                size.of(1 << 24, 16 << 10),
            )
            .param("handles", handles)
            .param("apart", apart)
            .budget(Budget::AtMost(budgets_ns[workers - 1]));
            cases.push(case);
        }
    }
    cases
}

/// Of the messages `0..messages`.
fn sum(messages: usize) -> u64 {
    let messages = messages as u64;
    messages * (messages - 1) / 2
}

fn urgo(cell: &Cell) -> Sample {
    goroutines(cell, sum, |messages| {
        let (sender, receiver) = urgo::chan::bounded(SLOTS);
        let (senders, receivers) = (copies(cell, sender), copies(cell, receiver));
        flow(cell, messages, senders, receivers)
    })
}

fn crossbeam_threads(cell: &Cell) -> Sample {
    threads(cell, sum, |messages| {
        let (sender, receiver) = crossbeam_channel::bounded(SLOTS);
        let (senders, receivers) = (copies(cell, sender), copies(cell, receiver));
        flow(cell, messages, senders, receivers)
    })
}

fn std_threads(cell: &Cell) -> Sample {
    threads(cell, sum, |messages| {
        let (sender, receiver) = std::sync::mpsc::sync_channel(SLOTS);
        flow(cell, messages, copies(cell, sender), vec![receiver])
    })
}

fn kanal_threads(cell: &Cell) -> Sample {
    threads(cell, sum, |messages| {
        let (sender, receiver) = kanal::bounded(SLOTS);
        let (senders, receivers) = (copies(cell, sender), copies(cell, receiver));
        flow(cell, messages, senders, receivers)
    })
}

fn may_coroutines(cell: &Cell) -> Sample {
    coroutines(cell, sum, |messages| {
        if cell.get::<usize>("handles") == 1 {
            let (sender, receiver) = may::sync::mpsc::channel();
            flow(cell, messages, vec![sender], vec![receiver])
        } else {
            let (sender, receiver) = may::sync::mpmc::channel();
            let (senders, receivers) = (copies(cell, sender), copies(cell, receiver));
            flow(cell, messages, senders, receivers)
        }
    })
}

fn tokio_tasks(cell: &Cell) -> Sample {
    tasks(cell, sum, |messages| {
        tokio_flow(messages, cell.get("handles"))
    })
}

/// As many handles as the case wants on each side.
fn copies<H: Clone>(cell: &Cell, handle: H) -> Vec<H> {
    vec![handle; cell.get("handles")]
}

/// A producer and a consumer. Both keep all their handles until their end and use the first.
fn flow<S: Put, R: Take>(
    cell: &Cell,
    messages: usize,
    senders: Vec<S>,
    receivers: Vec<R>,
) -> Vec<Job> {
    let places = match cell.get::<u8>("apart") {
        1 => [Some(0), Some(1)],
        _ => [None; 2],
    };
    vec![
        Job::new(places[0], move || {
            let sender = &senders[0];
            (0..messages as u64).for_each(|value| sender.put(value));
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

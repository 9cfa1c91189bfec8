//! What does a message cost when many send to one, or one to many?

use crate::catalogue::{Case, Contender, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::hosts::{Job, Put, Take, coroutines, goroutines, tasks, threads};

pub(super) const WORKLOAD: Workload = Workload {
    name: "fan",
    question: "What does a message cost when many send to one, or one to many?",
    work: "64 goroutines send to one (fan-in), or one sends to 64 (fan-out), over one channel of 128 slots. Every sender sends \
           its share of the numbers from 0 on; every receiver receives until all senders are gone; the sum is checked. One \
           operation is one message. On two workers the schedulers place all, or all in turn are bound to the two (\"spread\"), where only goroutines and threads can be bound. may's channels (mpsc for fan-in, mpmc for fan-out) have no bound: its senders never wait. \
           tokio has no channel with several receivers of which one gets a message, so it has no fan-out.",
    is_not: "a broadcast, where every receiver gets every message; nor a measure of how evenly the 64 are served.",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::GO.fewer(4),
        Contender::alone("crossbeam", crossbeam_threads)
            .of_crate("crossbeam-channel")
            .fewer(8),
        Contender::alone("kanal", kanal_threads)
            .of_crate("kanal")
            .fewer(8),
        Contender::alone("tokio", tokio_tasks)
            .of_crate("tokio")
            .fewer(8),
        Contender::alone("may", may_coroutines)
            .of_crate("may")
            .fewer(8),
    ],
    client: None,
};

const SLOTS: usize = 128;
const MANY: usize = 64;

fn cases(size: Size) -> Vec<Case> {
    let mut cases = Vec::new();
    for (workers, spread, place) in [
        (1, 0, "1 worker"),
        (2, 0, "2 workers, as placed"),
        (2, 1, "2 workers, spread"),
    ] {
        for (senders, receivers) in [(MANY, 1), (1, MANY)] {
            let case = Case::new(
                format!("{senders} to {receivers}, {place}"),
                workers,
                size.of(1 << 22, 32 << 10),
            )
            .param("senders", senders)
            .param("receivers", receivers)
            .param("spread", spread);
            cases.push(if spread == 1 {
                case.only(&["urgo", "crossbeam", "kanal"])
            } else if receivers == 1 {
                case
            } else {
                case.only(&["urgo", "go", "crossbeam", "kanal", "may"])
            });
        }
    }
    cases
}

/// Of the messages of all senders.
fn sum(cell: &Cell) -> impl Fn(usize) -> u64 + Sync {
    let senders: usize = cell.get("senders");
    move |messages| {
        let share = (messages / senders) as u64;
        senders as u64 * (share * (share - 1) / 2)
    }
}

fn urgo(cell: &Cell) -> Sample {
    goroutines(cell, sum(cell), |messages| {
        let (sender, receiver) = urgo::chan::bounded(SLOTS);
        crowd(cell, messages, sender, receivers(cell, receiver))
    })
}

fn crossbeam_threads(cell: &Cell) -> Sample {
    threads(cell, sum(cell), |messages| {
        let (sender, receiver) = crossbeam_channel::bounded(SLOTS);
        crowd(cell, messages, sender, receivers(cell, receiver))
    })
}

fn kanal_threads(cell: &Cell) -> Sample {
    threads(cell, sum(cell), |messages| {
        let (sender, receiver) = kanal::bounded(SLOTS);
        crowd(cell, messages, sender, receivers(cell, receiver))
    })
}

fn may_coroutines(cell: &Cell) -> Sample {
    coroutines(cell, sum(cell), |messages| {
        if cell.get::<usize>("receivers") == 1 {
            let (sender, receiver) = may::sync::mpsc::channel();
            crowd(cell, messages, sender, vec![receiver])
        } else {
            let (sender, receiver) = may::sync::mpmc::channel();
            crowd(cell, messages, sender, receivers(cell, receiver))
        }
    })
}

fn tokio_tasks(cell: &Cell) -> Sample {
    tasks(cell, sum(cell), |messages| {
        tokio_fan_in(messages, cell.get("senders"))
    })
}

/// A handle for each receiver of the case.
fn receivers<R: Clone>(cell: &Cell, receiver: R) -> Vec<R> {
    vec![receiver; cell.get("receivers")]
}

fn crowd<S: Put, R: Take>(cell: &Cell, messages: usize, sender: S, receivers: Vec<R>) -> Vec<Job> {
    let senders = vec![sender; cell.get("senders")];
    let share = (messages / senders.len()) as u64;
    let senders = senders.into_iter().map(|sender| {
        Job::new(None, move || {
            (0..share).for_each(|value| sender.put(value));
            0
        })
    });
    let receivers = receivers
        .into_iter()
        .map(|receiver| Job::new(None, move || std::iter::from_fn(|| receiver.take()).sum()));
    senders.chain(receivers).collect()
}

async fn tokio_fan_in(messages: usize, senders: usize) -> u64 {
    let (sender, mut receiver) = tokio::sync::mpsc::channel::<u64>(SLOTS);
    let share = (messages / senders) as u64;
    for sender in vec![sender; senders] {
        tokio::spawn(async move {
            for value in 0..share {
                sender.send(value).await.expect("a receiver");
            }
        });
    }
    let receiver = tokio::spawn(async move {
        let mut sum = 0;
        while let Some(value) = receiver.recv().await {
            sum += value;
        }
        sum
    });
    receiver.await.expect("no panic")
}

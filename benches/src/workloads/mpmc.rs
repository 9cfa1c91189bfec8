//! What does a message cost when many send to many?

use crate::catalogue::{Budget, Case, Contender, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::hosts::{Job, Put, Take, coroutines, goroutines, threads};

pub(super) const WORKLOAD: Workload = Workload {
    name: "mpmc",
    question: "What does a message cost when many send to many?",
    work: "8 goroutines send and 8 receive over one channel of 128 slots. Every sender sends its share of the numbers from 0 on; \
           every receiver receives until all senders are gone; the sum is checked. One operation is one message. On two workers the schedulers place all, or half of the senders and half of the \
           receivers are bound to each (\"spread\"), where only goroutines and threads can be bound. may's channel \
           has no bound: its senders never wait. tokio has no channel with several receivers of which one gets a message, so it \
           is not here; several receivers behind its mutex would measure the mutex.",
    is_not: "a measure of fairness between receivers, nor of scaling beyond two CPUs.",
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
        Contender::alone("may", may_coroutines)
            .of_crate("may")
            .fewer(8),
    ],
    client: None,
};

const SLOTS: usize = 128;
const SENDERS: usize = 8;
const RECEIVERS: usize = 8;

fn cases(size: Size) -> Vec<Case> {
    let case = |workers, place, budget_ns| {
        Case::new(
            format!("{SENDERS} to {RECEIVERS}, {SLOTS} slots, {place}"),
            workers,
            size.of(1 << 22, 16 << 10),
        )
        .budget(Budget::AtMost(budget_ns))
    };
    vec![
        case(1, "1 worker", 20.0),
        case(2, "2 workers, as placed", 50.0),
        case(2, "2 workers, spread", 50.0)
            .param("spread", 1)
            .only(&["urgo", "crossbeam", "kanal"]),
    ]
}

/// Of the messages of all senders.
fn sum(messages: usize) -> u64 {
    let share = (messages / SENDERS) as u64;
    SENDERS as u64 * (share * (share - 1) / 2)
}

fn urgo(cell: &Cell) -> Sample {
    goroutines(cell, sum, |messages| {
        crowd(messages, urgo::chan::bounded(SLOTS))
    })
}

fn crossbeam_threads(cell: &Cell) -> Sample {
    threads(cell, sum, |messages| {
        crowd(messages, crossbeam_channel::bounded(SLOTS))
    })
}

fn kanal_threads(cell: &Cell) -> Sample {
    threads(cell, sum, |messages| crowd(messages, kanal::bounded(SLOTS)))
}

fn may_coroutines(cell: &Cell) -> Sample {
    coroutines(cell, sum, |messages| {
        crowd(messages, may::sync::mpmc::channel())
    })
}

fn crowd<S: Put, R: Take + Clone>(messages: usize, (sender, receiver): (S, R)) -> Vec<Job> {
    let share = (messages / SENDERS) as u64;
    let senders = vec![sender; SENDERS].into_iter().map(|sender| {
        Job::new(None, move || {
            (0..share).for_each(|value| sender.put(value));
            0
        })
    });
    let receivers = vec![receiver; RECEIVERS]
        .into_iter()
        .map(|receiver| Job::new(None, move || std::iter::from_fn(|| receiver.take()).sum()));
    senders.chain(receivers).collect()
}

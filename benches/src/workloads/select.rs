//! What does a message cost that is received by a select?

use crate::catalogue::{Budget, Case, Contender, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::hosts::{Job, Put, goroutines, tasks, threads};

pub(super) const WORKLOAD: Workload = Workload {
    name: "select",
    question: "What does a message cost that is received by a select?",
    work: "Three goroutines each send their share of the numbers from 0 on into a channel of their own; a fourth one receives \
           from whichever of the three is ready, until all three senders are gone; the sum is checked. A channel whose sender \
           is gone is replaced by one that is never ready. One operation is one message. On two workers the schedulers place all, or all in turn are bound to the two (\"spread\"), where only goroutines and threads can be bound. Channels have 128 slots, or none \
           (rendezvous). tokio has one slot where the others have none, because it has no rendezvous. may is not here: its \
           select starts a coroutine for every arm and cancels the losers, which is another thing, and slower by far.",
    is_not: "a measure of many arms, nor of arms that send.",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::GO.fewer(4),
        Contender::alone("tokio", tokio_tasks)
            .of_crate("tokio")
            .fewer(4),
        Contender::alone("crossbeam", crossbeam_threads)
            .of_crate("crossbeam-channel")
            .fewer(16),
    ],
    client: None,
};

const CHANNELS: usize = 3;

fn cases(size: Size) -> Vec<Case> {
    let mut cases = Vec::new();
    for (workers, spread, place) in [
        (1, 0, "1 worker"),
        (2, 0, "2 workers, as placed"),
        (2, 1, "2 workers, spread"),
    ] {
        for (slots, kind, full) in [(128, "128 slots", 3 << 20), (0, "rendezvous", 3 << 18)] {
            let case = Case::new(format!("{kind}, {place}"), workers, size.of(full, 3 << 10))
                .param("slots", slots)
                .budget(Budget::AtMost(90.0));
            cases.push(if spread == 1 {
                case.param("spread", 1).only(&["urgo", "crossbeam"])
            } else {
                case
            });
        }
    }
    cases
}

/// Of the messages of all senders.
fn sum(messages: usize) -> u64 {
    let share = (messages / CHANNELS) as u64;
    CHANNELS as u64 * (share * (share - 1) / 2)
}

fn urgo(cell: &Cell) -> Sample {
    goroutines(cell, sum, |messages| {
        let (senders, receivers) = ends(|| urgo::chan::bounded(cell.get("slots")));
        jobs(messages, senders, || urgo_selects(receivers))
    })
}

fn crossbeam_threads(cell: &Cell) -> Sample {
    threads(cell, sum, |messages| {
        let (senders, receivers) = ends(|| crossbeam_channel::bounded(cell.get("slots")));
        jobs(messages, senders, || crossbeam_selects(receivers))
    })
}

fn tokio_tasks(cell: &Cell) -> Sample {
    let slots = cell.get::<usize>("slots").max(1);
    tasks(cell, sum, |messages| tokio_selects(messages, slots))
}

fn ends<S, R>(channel: impl Fn() -> (S, R)) -> ([S; CHANNELS], [R; CHANNELS]) {
    let [(s0, r0), (s1, r1), (s2, r2)] = [(); CHANNELS].map(|()| channel());
    ([s0, s1, s2], [r0, r1, r2])
}

fn jobs<S: Put>(
    messages: usize,
    senders: [S; CHANNELS],
    receive: impl FnOnce() -> u64 + Send + 'static,
) -> Vec<Job> {
    let share = (messages / CHANNELS) as u64;
    let mut jobs = vec![Job::new(None, receive)];
    jobs.extend(senders.map(|sender| {
        Job::new(None, move || {
            (0..share).for_each(|value| sender.put(value));
            0
        })
    }));
    jobs
}

/// A receiver over the channels of one crate. Both crates have the same names, but nothing else in common.
macro_rules! selects {
    ($name:ident, $krate:ident $(:: $module:ident)*) => {
        fn $name(receivers: [$krate $(:: $module)*::Receiver<u64>; CHANNELS]) -> u64 {
            let [mut first, mut second, mut third] = receivers;
            let (mut alive, mut sum) = (CHANNELS, 0);
            while alive > 0 {
                let (arm, message) = $krate $(:: $module)*::select! {
                    recv(first) -> message => (0, message),
                    recv(second) -> message => (1, message),
                    recv(third) -> message => (2, message),
                };
                match message {
                    Ok(value) => sum += value,
                    Err(_) => {
                        alive -= 1;
                        *[&mut first, &mut second, &mut third][arm] = $krate $(:: $module)*::never();
                    }
                }
            }
            sum
        }
    };
}

selects!(urgo_selects, urgo::chan);
selects!(crossbeam_selects, crossbeam_channel);

async fn tokio_selects(messages: usize, slots: usize) -> u64 {
    let share = (messages / CHANNELS) as u64;
    let (senders, receivers) = ends(|| tokio::sync::mpsc::channel::<u64>(slots));
    let receiver = tokio::spawn(async move {
        let [mut first, mut second, mut third] = receivers;
        let mut sum = 0;
        // A channel that is at its end answers `None`, which no arm takes: it is left out of that turn.
        loop {
            sum += tokio::select! {
                Some(value) = first.recv() => value,
                Some(value) = second.recv() => value,
                Some(value) = third.recv() => value,
                else => break sum,
            };
        }
    });
    for sender in senders {
        tokio::spawn(async move {
            for value in 0..share {
                sender.send(value).await.expect("a receiver");
            }
        });
    }
    receiver.await.expect("no panic")
}

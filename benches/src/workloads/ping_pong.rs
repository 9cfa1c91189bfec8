//! What does it cost to hand a value over, and to be handed one back?

use crate::catalogue::{Budget, Case, Contender, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::hosts::{Job, Put, Take, coroutines, goroutines, tasks, threads};

pub(super) const WORKLOAD: Workload = Workload {
    name: "ping_pong",
    question: "What does it cost to hand a value over, and to be handed one back?",
    work: "Two goroutines and two channels, one each way. One sends a number and waits for it to come back greater by one; the \
           sum of what came back is checked. One operation is one round trip: two values, four ends of them waiting or being \
           woken. Channels are rendezvous (no slot) or of one slot. On two workers the schedulers place the two, or they are \
           bound apart, so that each value crosses from one CPU to the other. tokio has one slot in all cases, because it has \
           no rendezvous; may's channel has no bound at all. In the cases \"apart\" are only those who can be told where to run; \
           tokio, may and Go keep both sides together where they can.",
    is_not: "a measure of throughput, since nothing ever runs at the same time; nor of waking an idle machine: on two workers \
             the CPU that waits has hardly gone to sleep when it is called.",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::GO.fewer(8),
        Contender::alone("tokio", tokio_tasks)
            .of_crate("tokio")
            .fewer(8),
        Contender::alone("may", may_coroutines)
            .of_crate("may")
            .fewer(8),
        Contender::alone("crossbeam", crossbeam_threads)
            .of_crate("crossbeam-channel")
            .fewer(64),
    ],
    client: None,
};

fn cases(size: Size) -> Vec<Case> {
    let mut cases = Vec::new();
    for (workers, apart, place) in [
        (1, 0, "1 worker"),
        (2, 0, "2 workers, as placed"),
        (2, 1, "2 workers, apart"),
    ] {
        for (slots, kind) in [(0, "rendezvous"), (1, "1 slot")] {
            let ops = size.of(if apart == 1 { 1 << 18 } else { 1 << 21 }, 1000);
            let mut case = Case::new(format!("{kind}, {place}"), workers, ops)
                .param("slots", slots)
                .param("apart", apart);
            if apart == 1 {
                case = case.only(&["urgo", "crossbeam"]);
            }
            if workers == 1 && slots == 0 {
                case = case.budget(Budget::AtMost(60.0));
            }
            cases.push(case);
        }
    }
    cases
}

/// `0..trips` come back as `1..=trips`.
fn sum(trips: usize) -> u64 {
    let trips = trips as u64;
    trips * (trips + 1) / 2
}

fn places(cell: &Cell) -> [Option<usize>; 2] {
    match cell.get::<u8>("apart") {
        1 => [Some(0), Some(1)],
        _ => [None; 2],
    }
}

fn urgo(cell: &Cell) -> Sample {
    let (places, slots) = (places(cell), cell.get("slots"));
    goroutines(cell, sum, |trips| {
        let [there, back] = [(); 2].map(|()| urgo::chan::bounded(slots));
        game(places, trips, there, back)
    })
}

fn tokio_tasks(cell: &Cell) -> Sample {
    tasks(cell, sum, tokio_game)
}

fn may_coroutines(cell: &Cell) -> Sample {
    coroutines(cell, sum, |trips| {
        let [there, back] = [(); 2].map(|()| may::sync::mpsc::channel());
        game(places(cell), trips, there, back)
    })
}

fn crossbeam_threads(cell: &Cell) -> Sample {
    threads(cell, sum, |trips| {
        let [there, back] = [(); 2].map(|()| crossbeam_channel::bounded(cell.get("slots")));
        game(places(cell), trips, there, back)
    })
}

fn game<S: Put, R: Take>(
    places: [Option<usize>; 2],
    trips: usize,
    there: (S, R),
    back: (S, R),
) -> Vec<Job> {
    let trips = trips as u64;
    let (ping, pinged) = there;
    let (pong, ponged) = back;
    vec![
        Job::new(places[0], move || {
            let trip = |value| {
                ping.put(value);
                ponged.take().expect("it is sent back")
            };
            (0..trips).map(trip).sum()
        }),
        Job::new(places[1], move || {
            while let Some(value) = pinged.take() {
                pong.put(value + 1);
            }
            0
        }),
    ]
}

async fn tokio_game(trips: usize) -> u64 {
    let (ping, mut pinged) = tokio::sync::mpsc::channel::<u64>(1);
    let (pong, mut ponged) = tokio::sync::mpsc::channel::<u64>(1);
    let first = tokio::spawn(async move {
        let mut sum = 0;
        for value in 0..trips as u64 {
            ping.send(value).await.expect("the other plays");
            sum += ponged.recv().await.expect("it is sent back");
        }
        sum
    });
    let second = tokio::spawn(async move {
        while let Some(value) = pinged.recv().await {
            pong.send(value + 1).await.expect("the other plays");
        }
    });
    let sum = first.await.expect("no panic");
    second.await.expect("no panic");
    sum
}

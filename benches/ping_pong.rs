//! Question: what does it cost to hand a value over, and to be handed one back?
//!
//! Workload: two goroutines and two channels, one each way. One sends a number and waits for it to come back greater by one;
//! the sum of what came back is checked. One operation is one round trip: two values, four ends of them waiting or being
//! woken. Channels are rendezvous (`bounded(0)`) and of one slot (`bounded(1)`). On two workers there is a table in which the
//! schedulers place the two, and one in which they are bound apart, so that each value crosses from one CPU to another.
//!
//! Beside it, in the same run: tokio, `mpsc::channel(1)`, in all tables because it has no rendezvous; may, its `mpsc`, which has
//! no bound at all. Neither can be told where to run, so in the tables "apart" they are placed by their schedulers, too; threads over
//! crossbeam-channel, pinned where the goroutines are.
//!
//! Printed: machine, kernel, commit; ns per round trip, CPU time on one worker and wall time on two; ratio round by round.
//!
//! It is not: a measure of throughput, since nothing ever runs at the same time; nor of a wake-up of an idle machine: on two
//! workers the CPU that waits has hardly gone to sleep when it is called.
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

fn main() {
    each_in_a_process(tables);
}

fn tables(options: &mut Options, allowed: &[usize], cpus: &[usize]) {
    let mut report = Report::open("ping_pong", allowed, options);
    pin_to(cpus);
    let places: &[([Option<usize>; 2], &str)] = match cpus.len() {
        2 => &[
            ([None; 2], "2 workers, as placed"),
            ([Some(0), Some(1)], "2 workers, apart"),
        ],
        _ => &[([None; 2], "1 worker")],
    };
    for &(places, place) in places {
        for (slots, kind, budget) in [(0, "rendezvous", Some(60.0)), (1, "1 slot", None)] {
            let budget = budget.filter(|_| cpus.len() == 1);
            let case = format!("ping-pong, {kind}, {place}");
            table(&mut report, options, cpus, (places, slots), &case, budget);
        }
    }
}

fn table(
    report: &mut Report,
    options: &Options,
    cpus: &[usize],
    (places, slots): ([Option<usize>; 2], usize),
    case: &str,
    budget: Option<f64>,
) {
    let apart = places != [None; 2];
    let clock = if cpus.len() == 2 {
        Clock::Wall
    } else {
        Clock::Cpu
    };
    let trips = |one: usize, two: usize| options.size(if apart { two } else { one }, 500);
    let few = work(trips(1 << 14, 1 << 13));
    let some = work(trips(1 << 17, 1 << 14));
    let many = work(trips(1 << 20, 1 << 15));
    let versions = ["tokio", "may", "crossbeam-channel"].map(locked_version);
    let contenders = vec![
        Contender::new("urgo", move || {
            goroutines(cpus, many, || {
                let [there, back] = [(); 2].map(|()| urgo::chan::bounded(slots));
                game(places, many, there, back)
            })
        }),
        Contender::new(format!("tokio {} mpsc(1)", versions[0]), move || {
            tasks(cpus, some, || tokio_game(some.operations))
        }),
        Contender::new(format!("may {} unbounded", versions[1]), move || {
            let [there, back] = [(); 2].map(|()| may::sync::mpsc::channel());
            coroutines(cpus, some, game(places, some, there, back))
        }),
        Contender::new(format!("crossbeam {}", versions[2]), move || {
            let [there, back] = [(); 2].map(|()| crossbeam_channel::bounded(slots));
            threads(cpus, few, game(places, few, there, back))
        }),
    ];
    compare_by(clock, report, options, case, budget, contenders);
}

/// `0..trips` come back as `1..=trips`.
fn work(trips: usize) -> Work {
    let trips_u64 = trips as u64;
    Work {
        operations: trips,
        sum: trips_u64 * (trips_u64 + 1) / 2,
    }
}

fn game<S: Put, R: Take>(
    places: [Option<usize>; 2],
    work: Work,
    there: (S, R),
    back: (S, R),
) -> Vec<Job> {
    let trips = work.operations as u64;
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

//! Question: what does a message cost that is received by a select?
//!
//! Workload: three goroutines each send their share of the numbers from 0 on into a channel of their own; a fourth one receives
//! from whichever of the three is ready, until all three senders are gone; the sum is checked. A channel whose sender is
//! gone is replaced by one that is never ready. One operation is one message. Channels have 128 slots, or none
//! (rendezvous).
//!
//! Beside it, in the same run: threads and the `select!` of crossbeam-channel, on the same CPUs; tokio's `select!` over three
//! `mpsc` of 128 slots, and of one slot where the others have none, because it has no rendezvous. may is not here: its select
//! starts a coroutine for every arm and cancels the losers, which is another thing, and slower by far.
//!
//! Printed: machine, kernel, commit; ns per message, CPU time on one worker and wall time on two; ratio round by round.
//!
//! It is not: a measure of many arms, nor of arms that send.
//!
//! Options: those of every bench; `--case PART-OF-A-HEADING`; `--workers N` for one number of workers, in this process.

#[path = "harness/mod.rs"]
mod harness;
#[path = "rivals/mod.rs"]
mod rivals;

use harness::{
    Clock, Contender, Options, Report, compare_by, each_in_a_process, locked_version, pin_to,
};
use rivals::{Job, Put, Work, goroutines, tasks, threads};

const CHANNELS: usize = 3;
const BUDGET_NS: f64 = 90.0;

fn main() {
    each_in_a_process(tables);
}

fn tables(options: &mut Options, allowed: &[usize], cpus: &[usize]) {
    let mut report = Report::open("select", allowed, options);
    pin_to(cpus);
    let (clock, place) = match cpus.len() {
        1 => (Clock::Cpu, "1 worker"),
        _ => (Clock::Wall, "2 workers"),
    };
    let versions = ["crossbeam-channel", "tokio"].map(locked_version);
    for (slots, kind) in [(128, "128 slots"), (0, "rendezvous")] {
        let many = work(options.size(1 << 18, 500));
        let some = work(options.size(if slots == 0 { 1 << 15 } else { 1 << 18 }, 500));
        let tokio_slots = slots.max(1);
        let contenders = vec![
            Contender::new("urgo", move || {
                goroutines(cpus, many, || {
                    let (senders, receivers) = ends(|| urgo::chan::bounded(slots));
                    jobs(many, senders, || urgo_selects(receivers))
                })
            }),
            Contender::new(format!("crossbeam {}", versions[0]), move || {
                let (senders, receivers) = ends(|| crossbeam_channel::bounded(slots));
                threads(
                    cpus,
                    some,
                    jobs(some, senders, || crossbeam_selects(receivers)),
                )
            }),
            Contender::new(
                format!("tokio {} mpsc({tokio_slots})", versions[1]),
                move || tasks(cpus, many, || tokio_selects(many.operations, tokio_slots)),
            ),
        ];
        let case = format!("select of {CHANNELS}, {kind}, {place}");
        compare_by(
            clock,
            &mut report,
            options,
            &case,
            Some(BUDGET_NS),
            contenders,
        );
    }
}

/// `messages` rounded down to a multiple of the number of channels.
fn work(messages: usize) -> Work {
    let share = (messages / CHANNELS) as u64;
    Work {
        operations: messages / CHANNELS * CHANNELS,
        sum: CHANNELS as u64 * (share * (share - 1) / 2),
    }
}

fn ends<S, R>(channel: impl Fn() -> (S, R)) -> ([S; CHANNELS], [R; CHANNELS]) {
    let [(s0, r0), (s1, r1), (s2, r2)] = [(); CHANNELS].map(|()| channel());
    ([s0, s1, s2], [r0, r1, r2])
}

fn jobs<S: Put>(
    work: Work,
    senders: [S; CHANNELS],
    receive: impl FnOnce() -> u64 + Send + 'static,
) -> Vec<Job> {
    let share = (work.operations / CHANNELS) as u64;
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

//! Question: what does a message cost when many send to many?
//!
//! Workload: 8 goroutines send and 8 receive over one channel of 128 slots. Every sender sends its share of the numbers from 0
//! on; every receiver receives until all senders are gone; the sum is checked. One operation is one message.
//!
//! Beside it, in the same run: 16 threads over crossbeam-channel and over kanal, on the same CPUs; may, its `mpmc`, which has
//! no bound: its senders never wait. tokio has no channel with several receivers of which one gets a message, so it is not
//! here; several receivers behind its mutex would measure the mutex.
//!
//! Printed: machine, kernel, commit; ns per message, CPU time on one worker and wall time on two; ratio round by round.
//!
//! It is not: a measure of fairness between receivers, nor of scaling beyond two CPUs.
//!
//! Options: those of every bench; `--case PART-OF-A-HEADING`; `--workers N` for one number of workers, in this process.

#[path = "harness/mod.rs"]
mod harness;
#[path = "rivals/mod.rs"]
mod rivals;

use harness::{
    Clock, Contender, Options, Report, compare_by, each_in_a_process, locked_version, pin_to,
};
use rivals::{Job, Put, Take, Work, coroutines, goroutines, threads};

const SLOTS: usize = 128;
const SENDERS: usize = 8;
const RECEIVERS: usize = 8;

fn main() {
    each_in_a_process(tables);
}

fn tables(options: &mut Options, allowed: &[usize], cpus: &[usize]) {
    let mut report = Report::open("mpmc", allowed, options);
    pin_to(cpus);
    let (clock, place, budget_ns) = match cpus.len() {
        1 => (Clock::Cpu, "1 worker", 20.0),
        _ => (Clock::Wall, "2 workers", 50.0),
    };
    let many = work(options.size(1 << 21, 4096));
    let some = work(options.size(1 << 19, 4096));
    let versions = ["crossbeam-channel", "kanal", "may"].map(locked_version);
    let contenders = vec![
        Contender::new("urgo", move || {
            goroutines(cpus, many, || {
                let (sender, receiver) = urgo::chan::bounded(SLOTS);
                crowd(many, sender, receiver)
            })
        }),
        Contender::new(format!("crossbeam {}", versions[0]), move || {
            let (sender, receiver) = crossbeam_channel::bounded(SLOTS);
            threads(cpus, some, crowd(some, sender, receiver))
        }),
        Contender::new(format!("kanal {}", versions[1]), move || {
            let (sender, receiver) = kanal::bounded(SLOTS);
            threads(cpus, some, crowd(some, sender, receiver))
        }),
        Contender::new(format!("may {} unbounded", versions[2]), move || {
            let (sender, receiver) = may::sync::mpmc::channel();
            coroutines(cpus, some, crowd(some, sender, receiver))
        }),
    ];
    let case = format!("{SENDERS} to {RECEIVERS}, {SLOTS} slots, {place}");
    compare_by(
        clock,
        &mut report,
        options,
        &case,
        Some(budget_ns),
        contenders,
    );
}

fn work(messages: usize) -> Work {
    let share = (messages / SENDERS) as u64;
    Work {
        operations: messages,
        sum: SENDERS as u64 * (share * (share - 1) / 2),
    }
}

fn crowd<S: Put, R: Take + Clone>(work: Work, sender: S, receiver: R) -> Vec<Job> {
    let share = (work.operations / SENDERS) as u64;
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

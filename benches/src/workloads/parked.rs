//! What does a parked goroutine cost in memory and mappings, and what is left after a peak of them?

use crate::catalogue::{Budget, Case, Contender, Judge, Size, Workload};
use crate::hosts::{Coroutines, Goroutines, sleepers, sleeping_tasks};

pub(super) const WORKLOAD: Workload = Workload {
    name: "parked",
    question: "What does a parked goroutine cost in memory and mappings, and what is left after a peak of them?",
    work: "N goroutines are spawned by one and sleep until one moment; then all end. Memory is resident bytes plus page \
           tables, less what the process used before the first; it includes control block, stack and timer. urgo's stacks are \
           256 KiB unless the case says 64 KiB; Go's begin with 2 KiB and grow; a task of tokio has no stack, its memory is \
           that of its future; may's stacks are 32 KiB, and each is a mapping and a guard page, so the kernel's limit of \
           65,530 mappings ends it at 32,000 coroutines, too few for these cases. What is left is the process's memory 5 s after \
           the last one ended, over that at the peak. All run on one worker.",
    is_not: "a measure of goroutines that use their stacks: these touch the one page that every parked goroutine keeps.",
    cases,
    contenders: &[
        Contender::alone("urgo", sleepers::<Goroutines>),
        Contender::GO,
        Contender::alone("tokio", sleeping_tasks).of_crate("tokio"),
        Contender::alone("may", sleepers::<Coroutines>).of_crate("may"),
    ],
    client: None,
};

const BYTES: Judge = Judge {
    metric: "bytes_each",
    unit: "bytes",
    what: "memory of a parked goroutine",
};
const VMAS: Judge = Judge {
    metric: "vmas",
    unit: "mappings",
    what: "mappings of all parked goroutines together",
};
const LEFT: Judge = Judge {
    metric: "left_fraction",
    unit: "of the peak",
    what: "memory left after a peak",
};
const STACK_DEFAULT: usize = 256 << 10;

fn cases(size: Size) -> Vec<Case> {
    let peak = size.of(1_000_000, 2000);
    let case = |name: String, count: usize| {
        Case::new(name, 1, count)
            .param("memory", 1)
            .rounds_max(3)
            .judged_by(BYTES)
    };
    let mut cases = Vec::new();
    for count in [size.of(100_000, 1000), peak] {
        for (stack, budget) in [(64 << 10, 4608.0), (STACK_DEFAULT, 5018.0)] {
            let name = format!("{count}, stacks of {} KiB", stack >> 10);
            let case = case(name, count).param("stack_bytes", stack);
            let contenders: &[&str] = if stack == STACK_DEFAULT {
                &["urgo", "go", "tokio"]
            } else {
                &["urgo"]
            };
            cases.push(case.only(contenders).budget(Budget::AtMost(budget)));
        }
    }
    cases.push(
        case(
            "20000, so that may can take part".to_owned(),
            size.of(20_000, 500),
        )
        .only(&["urgo", "go", "tokio", "may"]),
    );
    cases.push(
        case(format!("mappings of {peak}"), peak)
            .judged_by(VMAS)
            .only(&["urgo"])
            .budget(Budget::AtMost(99.0))
            .rounds_max(1),
    );
    cases.push(
        case(format!("left after a peak of {peak}"), peak)
            .param("left_ms", size.of(5000, 50))
            .judged_by(LEFT)
            .only(&["urgo", "go", "tokio"])
            .budget(Budget::AtMost(0.25))
            .rounds_max(1),
    );
    cases
}

//! # Purpose
//!
//! Runs cells in turn and hands each finished case up.
//!
//! # Algorithm
//!
//! 1. Contenders of a case run in turn, A B C, C B A, A B C ..., each time in a new process (`child`) that sets itself up, warms
//!    up, measures one lap and ends. The order is reversed in every second round, so that a slow drift of the machine does not
//!    always hit the same one.
//! 2. After the rounds each contender runs once more with its system calls counted; of that round only their number is kept.
//! 3. Contenders that did the same number of operations must have computed the same.
//! 4. A contender that fails is left out of the remaining rounds and the run goes on; so does it after the first Ctrl-C, but to
//!    its end: what was measured so far is handed up.
//!
//! # Imports
//!
//! `catalogue`, `cell`, `machine`, `results`.

mod child;
mod go;
mod interrupt;
mod progress;

pub(crate) use child::{COMMAND_CELL, COMMAND_SERVE, GO_PROGRAM, confined, say};
pub(crate) use go::Go;

use crate::catalogue::{Case, Contender, Role, Size, Workload};
use crate::cell::Sample;
use crate::machine::{Facts, SyscallCount};
use crate::results::{Finished, Series};
use interrupt::Interrupt;
use progress::Progress;

/// What to run, and how.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) workloads: Vec<&'static Workload>,
    /// Only cases whose name contains this.
    pub(crate) case: Option<String>,
    /// Only contenders whose name is one of these; empty for all.
    pub(crate) only: Vec<String>,
    pub(crate) size: Size,
    /// Rounds of each case, unless the case wants fewer.
    pub(crate) rounds: usize,
    /// CPUs of the run: the first ones for workers and servers, the last one for the client.
    pub(crate) cpus: Vec<usize>,
}

/// How a run ended.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// "workload, case, contender: why", for each that failed.
    pub(crate) failures: Vec<String>,
    /// The user stopped it.
    pub(crate) interrupted: bool,
    /// Cases that were left out for want of CPUs.
    pub(crate) left_out: Vec<String>,
}

/// Runs the plan; `each` gets every case when it is finished, and the last one also when it was cut short.
pub(crate) fn run(plan: &Plan, facts: &Facts, go: &Go, mut each: impl FnMut(&Finished)) -> Ending {
    let mut ending = Ending::default();
    let mut cases = Vec::new();
    for workload in &plan.workloads {
        for case in (workload.cases)(plan.size) {
            let wanted = plan
                .case
                .as_deref()
                .is_none_or(|part| case.name.contains(part));
            if !wanted {
                continue;
            }
            let needed = case.workers.max(1 + usize::from(workload.client.is_some()));
            if needed > plan.cpus.len() {
                let why = format!("it takes {needed} CPUs, of {}", plan.cpus.len());
                ending
                    .left_out
                    .push(format!("{}, {}: {why}", workload.name, case.name));
                continue;
            }
            cases.push((*workload, case));
        }
    }
    let interrupt = Interrupt::install();
    // Only a try: one that stays open counts, and slows, every cell that is started.
    let may_count = SyscallCount::open().map(drop);
    if let Err(why) = &may_count {
        eprintln!("note: {why}");
    }
    let may_count = may_count.is_ok();
    let total = cases.iter().map(|(workload, case)| {
        contenders(plan, workload, case).len()
            * (rounds(plan, case) + usize::from(may_count && is_counted(case)))
    });
    let progress = Progress::start(total.sum());
    let all = cases.len();
    for (at, (workload, mut case)) in cases.into_iter().enumerate() {
        progress.case(at + 1, all, workload.name, &case.name);
        let turn = Turn {
            plan,
            workload,
            go,
            may_count,
            interrupt: &interrupt,
            progress: &progress,
        };
        let finished = turn.case(&mut case, facts, &mut ending);
        if !finished.series.is_empty() {
            progress.suspend(|| each(&finished));
        }
        if interrupt.is_set() {
            ending.interrupted = true;
            break;
        }
    }
    ending
}

/// Cases that last long, and so have few rounds, are not run once more for the number of their system calls.
fn is_counted(case: &Case) -> bool {
    case.rounds_max > 3
}

fn rounds(plan: &Plan, case: &Case) -> usize {
    plan.rounds.min(case.rounds_max)
}

fn contenders(plan: &Plan, workload: &Workload, case: &Case) -> Vec<&'static Contender> {
    let asked = |name: &str| plan.only.is_empty() || plan.only.iter().any(|only| only == name);
    let all = workload.contenders.iter();
    all.filter(|c| case.takes(c.name) && asked(c.name))
        .collect()
}

/// What a case needs of the run around it.
struct Turn<'a> {
    plan: &'a Plan,
    workload: &'static Workload,
    go: &'a Go,
    may_count: bool,
    interrupt: &'a Interrupt,
    progress: &'a Progress,
}

impl Turn<'_> {
    fn case(&self, case: &mut Case, facts: &Facts, ending: &mut Ending) -> Finished {
        let contenders = contenders(self.plan, self.workload, case);
        let mut all: Vec<Series> = contenders
            .iter()
            .map(|contender| Series::new(contender, self.version(contender)))
            .collect();
        if let Some(why) = self.go.missing() {
            for (series, contender) in all.iter_mut().zip(&contenders) {
                if matches!(contender.role, Role::Go) {
                    series.error = Some(why.clone());
                }
            }
        }
        if let Some(name) = case.calibrated_by
            && let Some(contender) = self.workload.contender(name)
        {
            // Where there is no Go, those who are there are still compared at one rate.
            let contender = match (contender.role, contenders.first()) {
                (Role::Go, Some(first)) if self.go.missing().is_some() => first,
                _ => contender,
            };
            let calibration = case.clone().param("calibrate", 1);
            match self.cell(&calibration, contender, None) {
                Ok(sample) => *case = case.clone().param("rate", sample.metrics["rate"]),
                Err(why) => {
                    self.failed(case, contender.name, &why, ending);
                    all.clear();
                }
            }
        }
        let rounds = rounds(self.plan, case);
        for round in 0..rounds {
            for turn in 0..all.len() {
                let at = if round % 2 == 0 {
                    turn
                } else {
                    all.len() - 1 - turn
                };
                self.progress.step(
                    self.workload.name,
                    &case.name,
                    all[at].contender,
                    round + 1,
                    rounds,
                );
                if all[at].error.is_some() || self.interrupt.is_set() {
                    continue;
                }
                match self.cell(case, contenders[at], None) {
                    Ok(sample) => all[at].samples.push(sample),
                    Err(_) if self.interrupt.is_set() => {}
                    Err(why) => {
                        self.failed(case, all[at].contender, &why, ending);
                        all[at].error = Some(why);
                    }
                }
            }
        }
        let counted = if self.may_count && is_counted(case) {
            all.len()
        } else {
            0
        };
        for at in 0..counted {
            // A counter of its own for each, since one adds up all that was started after it was opened.
            let Ok(count) = SyscallCount::open() else {
                break;
            };
            self.progress
                .step(self.workload.name, &case.name, all[at].contender, 0, rounds);
            if all[at].error.is_some() || self.interrupt.is_set() {
                continue;
            }
            if let Ok(counted) = self.cell(case, contenders[at], Some(&count)) {
                all[at].syscalls = counted.metrics.get("syscalls").copied();
            }
        }
        for why in disagreements(&all) {
            self.failed(case, "results differ", &why, ending);
        }
        all.retain(|series| !series.samples.is_empty() || series.error.is_some());
        Finished {
            workload: self.workload.name,
            case: case.clone(),
            series: all,
            facts: facts.clone(),
            is_quick: self.plan.size == Size::Quick,
        }
    }

    fn version(&self, contender: &Contender) -> String {
        match (contender.role, contender.package) {
            (Role::Go, _) => self.go.version(),
            (_, Some(package)) => crate::machine::locked_version(package),
            (_, None) => String::new(),
        }
    }

    fn cell(
        &self,
        case: &Case,
        contender: &Contender,
        count: Option<&SyscallCount>,
    ) -> Result<Sample, String> {
        child::cell(
            self.plan,
            self.workload,
            case,
            contender,
            self.go,
            count,
            self.interrupt,
        )
    }

    fn failed(&self, case: &Case, who: &str, why: &str, ending: &mut Ending) {
        let failure = format!("{}, {}, {who}: {why}", self.workload.name, case.name);
        self.progress.suspend(|| eprintln!("FAILED {failure}"));
        ending.failures.push(failure);
    }
}

/// Contenders that did as many operations as another but computed something else.
fn disagreements(all: &[Series]) -> Vec<String> {
    let mut seen: Vec<(&str, &Sample)> = Vec::new();
    let mut found = Vec::new();
    for series in all {
        for sample in &series.samples {
            match seen.iter().find(|(_, other)| other.ops == sample.ops) {
                Some((name, other)) if other.checksum != sample.checksum => {
                    found.push(format!(
                        "{} {} and {name} {}",
                        series.contender, sample.checksum, other.checksum
                    ));
                }
                Some(_) => {}
                None => seen.push((series.contender, sample)),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(contender: &'static str, ops: u64, checksum: u64) -> Series {
        Series {
            contender,
            version: String::new(),
            samples: vec![Sample::new(ops, checksum)],
            syscalls: None,
            error: None,
        }
    }

    #[test]
    fn contenders_that_compute_something_else_are_found() {
        let same = [series("a", 8, 1), series("b", 8, 1), series("c", 4, 2)];
        assert!(disagreements(&same).is_empty());
        let other = [series("a", 8, 1), series("b", 4, 2), series("c", 8, 3)];
        let found = disagreements(&other);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("c ") && found[0].contains(" a "),
            "{found:?}"
        );
    }

    #[test]
    fn a_contender_that_is_not_of_one_mind_is_found() {
        let mut fickle = series("a", 8, 1);
        fickle.samples.push(Sample::new(8, 2));
        assert_eq!(disagreements(&[fickle]).len(), 1);
    }
}

//! # Purpose
//!
//! Runs cells in turn and hands each finished case up.
//!
//! # Algorithm
//!
//! 1. Contenders of a case run in turn, A B C, C B A, A B C ..., each time in a new process (`child`) that sets itself up, warms
//!    up, measures one lap and ends. The order is reversed in every second round, so that a slow drift of the machine does not
//!    always hit the same one.
//! 2. After the rounds each contender runs once more with its system calls counted; of that round only their number is kept,
//!    and its failure is one like every other.
//! 3. Contenders that did the same number of operations must have computed the same.
//! 4. A contender that fails is left out of the remaining rounds and the run goes on; so does it after the first Ctrl-C, but to
//!    its end: what was measured so far is handed up.
//! 5. Where a case needs a rate, it is the median of some short calibrations before its rounds, unless the plan names one.
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
use crate::results::{Finished, Series, Summary};
use child::Fault;
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
    /// Requests per second for all cases that would be calibrated.
    pub(crate) rate: Option<f64>,
}

/// Calibrations of a case, each this part of a cell's window: one that a neighbour has slowed down does not count.
const CALIBRATIONS: usize = 3;

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

impl Ending {
    /// Exit status of the program: that of Ctrl-C as shells have it, else 1 if something failed.
    pub(crate) fn status(&self) -> u8 {
        const INTERRUPTED: u8 = 130;
        match (self.interrupted, self.failures.is_empty()) {
            (true, _) => INTERRUPTED,
            (false, true) => 0,
            (false, false) => 1,
        }
    }
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
            match self.rate(case, contender) {
                Ok(rate) => *case = case.clone().param("rate", rate),
                Err(fault) => {
                    if let Fault::Failed(why) = fault {
                        self.failed(case, contender.name, &why, ending);
                    }
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
                    Err(Fault::Interrupted) => {}
                    Err(Fault::Failed(why)) => {
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
            self.progress
                .step(self.workload.name, &case.name, all[at].contender, 0, rounds);
            if all[at].error.is_some() || self.interrupt.is_set() {
                continue;
            }
            // A counter of its own for each, since one adds up all that was started after it was opened.
            let counted = SyscallCount::open().map_err(Fault::Failed);
            let counted = counted.and_then(|count| self.cell(case, contenders[at], Some(&count)));
            self.counted(case, &mut all[at], counted, ending);
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

    /// Requests per second that the plan names, or the median of what `contender` finds.
    fn rate(&self, case: &Case, contender: &Contender) -> Result<f64, Fault> {
        if let Some(rate) = self.plan.rate {
            return Ok(rate);
        }
        let mut calibration = case.clone().param("calibrate", 1);
        if let Some(window_ms) = case.params.get("window_ms") {
            let whole: usize = window_ms.parse().expect("a window is a number");
            calibration = calibration.param("window_ms", (whole / CALIBRATIONS).max(1));
        }
        let mut rates = Vec::new();
        for _ in 0..CALIBRATIONS {
            let sample = self.cell(&calibration, contender, None)?;
            let rate = sample.metrics.get("rate").copied();
            rates.push(rate.ok_or_else(|| Fault::Failed("answers no rate".to_owned()))?);
        }
        let median = Summary::of(rates).expect("there are some").median;
        // Whole requests: a number that can be typed again.
        Ok(median.round().max(1.0))
    }

    /// Takes in what came of the round in which system calls are counted.
    fn counted(
        &self,
        case: &Case,
        series: &mut Series,
        counted: Result<Sample, Fault>,
        ending: &mut Ending,
    ) {
        match counted {
            Ok(sample) => series.counted = Some(sample),
            Err(Fault::Interrupted) => {}
            Err(Fault::Failed(why)) => {
                let why = format!("while its system calls were counted: {why}");
                self.failed(case, series.contender, &why, ending);
                series.error = Some(why);
            }
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
    ) -> Result<Sample, Fault> {
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
        for sample in series.samples.iter().chain(&series.counted) {
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
            counted: None,
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
        let mut fickle = series("a", 8, 1);
        fickle.counted = Some(Sample::new(8, 2));
        assert_eq!(disagreements(&[fickle]).len(), 1);
    }

    /// A turn of the workload `latency`, whose cases are calibrated, without Go.
    fn on_a_turn(interrupt: &Interrupt, rate: Option<f64>, test: impl FnOnce(&Turn<'_>, Case)) {
        let workload = crate::catalogue::find("latency").unwrap();
        let plan = Plan {
            workloads: vec![workload],
            case: None,
            only: vec!["urgo".to_owned()],
            size: Size::Quick,
            rounds: 1,
            cpus: crate::machine::allowed_cpus(),
            rate,
        };
        let turn = Turn {
            plan: &plan,
            workload,
            go: &Go::none(),
            may_count: false,
            interrupt,
            progress: &Progress::start(1),
        };
        let case = (workload.cases)(Size::Quick).remove(0);
        assert!(case.calibrated_by.is_some());
        test(&turn, case);
    }

    #[test]
    fn an_interrupt_while_a_rate_is_found_is_no_failure() {
        on_a_turn(&Interrupt::raised(), None, |turn, mut case| {
            let mut ending = Ending::default();
            let facts = Facts::gather(&turn.plan.cpus);
            let finished = turn.case(&mut case, &facts, &mut ending);
            assert!(ending.failures.is_empty(), "{:?}", ending.failures);
            assert!(finished.series.is_empty());
        });
    }

    #[test]
    fn a_rate_that_the_plan_names_is_not_looked_for() {
        on_a_turn(&Interrupt::raised(), Some(1234.0), |turn, case| {
            let contender = &turn.workload.contenders[0];
            assert_eq!(turn.rate(&case, contender), Ok(1234.0));
        });
    }

    #[test]
    fn a_failure_of_the_counting_round_alone_counts() {
        on_a_turn(&Interrupt::none(), None, |turn, case| {
            let mut ending = Ending::default();
            let mut good = series("a", 8, 1);
            turn.counted(&case, &mut good, Ok(Sample::new(8, 1)), &mut ending);
            turn.counted(&case, &mut good, Err(Fault::Interrupted), &mut ending);
            assert_eq!((good.error, ending.status()), (None, 0));

            let mut bad = series("b", 8, 1);
            let fault = Fault::Failed("planted".to_owned());
            turn.counted(&case, &mut bad, Err(fault), &mut ending);
            assert!(bad.error.unwrap().contains("planted"));
            assert_eq!((ending.failures.len(), ending.status()), (1, 1));
        });
    }

    #[test]
    fn the_status_tells_what_happened() {
        let ending = |interrupted, failures: &[&str]| Ending {
            failures: failures.iter().map(|why| (*why).to_owned()).collect(),
            interrupted,
            left_out: vec!["for want of CPUs".to_owned()],
        };
        assert_eq!(ending(false, &[]).status(), 0);
        assert_eq!(ending(false, &["results differ"]).status(), 1);
        assert_eq!(ending(true, &["results differ"]).status(), 130);
    }
}

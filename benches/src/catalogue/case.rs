//! One setting of a workload.

use std::collections::BTreeMap;
use std::fmt;

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// Enough to measure: a lap lasts from 50 ms to a few seconds.
    Full,
    /// Tiny: shows that it runs.
    Quick,
}

impl Size {
    /// `full`, or `tiny` where nothing is measured.
    pub(crate) fn of(self, full: usize, tiny: usize) -> usize {
        match self {
            Size::Full => full,
            Size::Quick => tiny,
        }
    }
}

/// The metric by which a case is decided, and its unit in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Judge {
    /// Name of the metric in samples.
    pub(crate) metric: &'static str,
    /// Unit, for people.
    pub(crate) unit: &'static str,
    /// What it is, for people: "CPU time", "wall time", "memory".
    pub(crate) what: &'static str,
}

impl Judge {
    /// CPU time of the process per operation: for work on one CPU. It is not hurt by neighbours that take the CPU.
    pub(crate) const CPU: Judge = Judge {
        metric: "cpu_ns",
        unit: "ns",
        what: "CPU time",
    };
    /// Wall time per operation: for work on several CPUs at once, where the sum of their times hides how much went on side
    /// by side.
    pub(crate) const WALL: Judge = Judge {
        metric: "wall_ns",
        unit: "ns",
        what: "wall time",
    };
    /// CPU time of a server process per request.
    pub(crate) const SERVER_CPU: Judge = Judge {
        metric: "server_cpu_us",
        unit: "µs",
        what: "CPU time of the server",
    };

    /// [`Judge::CPU`] for one worker, [`Judge::WALL`] for more.
    pub(crate) fn by_workers(workers: usize) -> Judge {
        if workers == 1 {
            Judge::CPU
        } else {
            Judge::WALL
        }
    }
}

/// What the judged metric of urgo must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Budget {
    /// No more than this, in the judge's unit.
    AtMost(f64),
    /// No more than this multiple of a rival's in the same run, as the median of the ratios round by round.
    TimesOf(&'static str, f64),
    /// Less than that of each of these rivals in the same run.
    AheadOf(&'static [&'static str]),
}

impl Budget {
    /// Whether a median and the ratios to rivals keep it; a ratio that is missing keeps nothing.
    pub(crate) fn is_met(self, median: f64, ratio_to: impl Fn(&str) -> Option<f64>) -> bool {
        match self {
            Budget::AtMost(most) => median <= most,
            Budget::TimesOf(rival, times) => ratio_to(rival).is_some_and(|ratio| ratio <= times),
            Budget::AheadOf(rivals) => rivals
                .iter()
                .all(|rival| ratio_to(rival).is_some_and(|ratio| ratio < 1.0)),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Budget::AtMost(most) => write!(f, "≤ {most}"),
            Budget::TimesOf(rival, times) => write!(f, "≤ {times} × {rival}"),
            Budget::AheadOf(rivals) => write!(f, "< {}", rivals.join(", ")),
        }
    }
}

/// Where the case's median lies in a plot of its workload.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plot {
    /// Heading of the plot; cases with the same heading are one plot.
    pub(crate) title: &'static str,
    /// What the x axis counts.
    pub(crate) axis: &'static str,
    /// Place on it; the axis is logarithmic.
    pub(crate) x: f64,
}

/// One setting: one table of results.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// Unique within the workload.
    pub(crate) name: String,
    /// What the cells are told, `ops` among it: operations to be measured.
    pub(crate) params: BTreeMap<String, String>,
    /// CPUs for the workers or the server.
    pub(crate) workers: usize,
    /// The metric that decides.
    pub(crate) judge: Judge,
    /// What urgo must reach here.
    pub(crate) budget: Option<Budget>,
    /// Contenders that take part; all if `None`.
    pub(crate) only: Option<&'static [&'static str]>,
    /// At most so many rounds, for cases that last long.
    pub(crate) rounds_max: usize,
    /// Its point in a plot.
    pub(crate) plot: Option<Plot>,
    /// A contender that runs some times before the rounds, with `calibrate=1`; the median of what it answers as metric `rate`
    /// becomes the parameter `rate` of all. Without Go, the first contender does it in Go's place.
    pub(crate) calibrated_by: Option<&'static str>,
}

impl Case {
    /// A case with one parameter, judged by CPU time on one worker and by wall time on more.
    pub(crate) fn new(name: impl Into<String>, workers: usize, ops: usize) -> Case {
        Case {
            name: name.into(),
            params: BTreeMap::from([("ops".to_owned(), ops.to_string())]),
            workers,
            judge: Judge::by_workers(workers),
            budget: None,
            only: None,
            rounds_max: usize::MAX,
            plot: None,
            calibrated_by: None,
        }
    }

    /// Adds a parameter.
    pub(crate) fn param(mut self, name: &str, value: impl fmt::Display) -> Case {
        self.params.insert(name.to_owned(), value.to_string());
        self
    }

    /// Sets the metric that decides.
    pub(crate) fn judged_by(mut self, judge: Judge) -> Case {
        self.judge = judge;
        self
    }

    /// Sets the budget.
    pub(crate) fn budget(mut self, budget: Budget) -> Case {
        self.budget = Some(budget);
        self
    }

    /// Names the contenders that take part.
    pub(crate) fn only(mut self, contenders: &'static [&'static str]) -> Case {
        self.only = Some(contenders);
        self
    }

    /// Limits the rounds.
    pub(crate) fn rounds_max(mut self, rounds: usize) -> Case {
        self.rounds_max = rounds;
        self
    }

    /// Puts the case into a plot.
    pub(crate) fn plot(mut self, title: &'static str, axis: &'static str, x: usize) -> Case {
        let x = x as f64;
        self.plot = Some(Plot { title, axis, x });
        self
    }

    /// Names the contender that sets the rate of all.
    pub(crate) fn calibrated_by(mut self, contender: &'static str) -> Case {
        self.calibrated_by = Some(contender);
        self
    }

    /// Whether the contender called `name` takes part.
    pub(crate) fn takes(&self, name: &str) -> bool {
        self.only.is_none_or(|only| only.contains(&name))
    }
}

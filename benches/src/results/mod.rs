//! # Purpose
//!
//! What was measured: series of samples, their medians and ratios, the line they are kept as, the table they are shown in.
//!
//! # Imports
//!
//! `catalogue`, `cell`, `machine`.

mod compare;
mod line;
mod summary;
mod table;

pub(crate) use compare::compare;
pub(crate) use line::{JudgeText, Line, read_lines};
pub(crate) use summary::{Summary, ratios};
pub(crate) use table::{print_case, print_verdict};

use crate::catalogue::{Case, Contender};
use crate::cell::Sample;
use crate::machine::Facts;

/// All samples of one contender in one case, in the order of the rounds.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) contender: &'static str,
    pub(crate) version: String,
    pub(crate) samples: Vec<Sample>,
    /// System calls per operation, from the round that counts them.
    pub(crate) syscalls: Option<f64>,
    /// Why it has no samples, or no more of them.
    pub(crate) error: Option<String>,
}

impl Series {
    /// Without a sample yet.
    pub(crate) fn new(contender: &Contender, version: String) -> Series {
        Series {
            contender: contender.name,
            version,
            samples: Vec::new(),
            syscalls: None,
            error: None,
        }
    }
}

/// A case with its results.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) workload: &'static str,
    pub(crate) case: Case,
    pub(crate) series: Vec<Series>,
    pub(crate) facts: Facts,
    pub(crate) is_quick: bool,
}

impl Finished {
    /// One line per contender.
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.series
            .iter()
            .map(|series| Line::of(self, series))
            .collect()
    }
}

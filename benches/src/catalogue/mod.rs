//! # Purpose
//!
//! What can be measured: the list of workloads, each with its cases, contenders and budgets.
//!
//! # Words
//!
//! - *Workload*: one question. *Case*: one setting of it, and one table of results. *Contender*: urgo or a rival.
//! - *Judge*: the metric by which a case is decided. It is always one that is better when it is less.
//!
//! # Imports
//!
//! `cell`, and `workloads` for the list itself.

mod case;
mod contender;

pub(crate) use case::{Budget, Case, Judge, Size};
pub(crate) use contender::{Contender, Role};

use crate::cell::{Cell, Sample};
use crate::net::Server;

/// One question, and everybody who answers it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    /// Word on the command line, in lower case with `_`.
    pub(crate) name: &'static str,
    /// The question, with its question mark.
    pub(crate) question: &'static str,
    /// What is done, in a few sentences: sizes, what one operation is, what is checked.
    pub(crate) work: &'static str,
    /// What it is not a measure of.
    pub(crate) is_not: &'static str,
    /// Cases, at full or at tiny size.
    pub(crate) cases: fn(Size) -> Vec<Case>,
    /// urgo first.
    pub(crate) contenders: &'static [Contender],
    /// For contenders that are servers: the client, in a process of its own on a CPU of its own, measures them.
    pub(crate) client: Option<fn(&Cell, &Server) -> Sample>,
}

/// All workloads, in the order in which they are shown.
pub(crate) fn all() -> &'static [Workload] {
    crate::workloads::ALL
}

/// The workload called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Workload> {
    all().iter().find(|workload| workload.name == name)
}

impl Workload {
    /// The contender called `name`.
    pub(crate) fn contender(&self, name: &str) -> Option<&'static Contender> {
        self.contenders.iter().find(|c| c.name == name)
    }
}

#[cfg(test)]
mod tests;

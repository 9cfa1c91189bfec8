//! # Purpose
//!
//! One measurement of one contender: what it is told, what it answers, and the clocks in between.
//!
//! # Words
//!
//! - *Cell*: a process that measures one contender once. It is told what to do on its command line, as `name=value`, and
//!   answers with one line of JSON, a [`Sample`]. The Go program speaks the same protocol, so the runner does not know whom
//!   it runs.
//! - *Lap*: the measured part of a cell, after its set-up and its warm-up.
//!
//! # Imports
//!
//! `machine`.

mod lap;
mod sample;

pub(crate) use lap::Lap;
pub(crate) use sample::{Latencies, Sample, decode, encode, latencies};

use std::collections::BTreeMap;
use std::str::FromStr;

/// What a cell is told.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    /// Name of the workload.
    pub(crate) workload: String,
    /// Name of the contender.
    pub(crate) contender: String,
    /// CPUs of the workers or of the server, as many as there are workers. A cell that measures itself is confined to them
    /// before it starts; the cell of a client is confined to the client's CPU.
    pub(crate) cpus: Vec<usize>,
    /// The parameters of the case.
    pub(crate) params: BTreeMap<String, String>,
}

impl Cell {
    /// The parameter `name`.
    ///
    /// # Panics
    /// If the case has no such parameter, or its value is no `T`: a mistake in the catalogue.
    pub(crate) fn get<T: FromStr>(&self, name: &str) -> T {
        self.find(name)
            .unwrap_or_else(|| panic!("{}: the case has no parameter {name}", self.workload))
    }

    /// The parameter `name`, if the case has it.
    ///
    /// # Panics
    /// If its value is no `T`.
    pub(crate) fn find<T: FromStr>(&self, name: &str) -> Option<T> {
        let text = self.params.get(name)?;
        let value = text.parse().ok();
        Some(value.unwrap_or_else(|| panic!("{}: {name}={text} makes no sense", self.workload)))
    }

    /// Operations to be measured: the parameter `ops`.
    pub(crate) fn ops(&self) -> usize {
        self.get("ops")
    }

    /// Number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.cpus.len()
    }

    /// Whether sizes are tiny and nothing is measured.
    pub(crate) fn is_quick(&self) -> bool {
        self.find::<u8>("quick") == Some(1)
    }
}

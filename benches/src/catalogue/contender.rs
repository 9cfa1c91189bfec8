//! Somebody who takes part in a workload.

use crate::cell::{Cell, Sample};
use std::net::TcpListener;

/// How a contender does its work.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role {
    /// In this program: does the work and measures itself.
    Alone(fn(&Cell) -> Sample),
    /// In this program: serves until its process is killed. It is confined to the server's CPUs already.
    Serves(fn(&Cell, TcpListener)),
    /// The Go program, which has the same workloads under the same names and takes the same parameters.
    Go,
}

/// urgo or a rival.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contender {
    /// Name in tables, on the command line and in plots: the same for one rival in all workloads.
    pub(crate) name: &'static str,
    /// Its crate, whose version is written down; `None` for what is part of urgo, of std or of this program.
    pub(crate) package: Option<&'static str>,
    /// It does `ops / divisor` operations: for rivals that would take much longer than the rest.
    pub(crate) divisor: usize,
    /// How it works.
    pub(crate) role: Role,
}

impl Contender {
    /// Measures itself.
    pub(crate) const fn alone(name: &'static str, run: fn(&Cell) -> Sample) -> Contender {
        Contender {
            name,
            package: None,
            divisor: 1,
            role: Role::Alone(run),
        }
    }

    /// Is a server.
    pub(crate) const fn server(name: &'static str, serve: fn(&Cell, TcpListener)) -> Contender {
        Contender {
            name,
            package: None,
            divisor: 1,
            role: Role::Serves(serve),
        }
    }

    /// The Go program.
    pub(crate) const GO: Contender = Contender {
        name: "go",
        package: None,
        divisor: 1,
        role: Role::Go,
    };

    /// Comes from this crate.
    pub(crate) const fn of_crate(mut self, package: &'static str) -> Contender {
        self.package = Some(package);
        self
    }

    /// Does fewer operations.
    pub(crate) const fn fewer(mut self, divisor: usize) -> Contender {
        self.divisor = divisor;
        self
    }
}

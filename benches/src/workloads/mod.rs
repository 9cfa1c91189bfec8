//! # Purpose
//!
//! One file for each question: what is asked, the cases, and the work as each contender does it.
//!
//! # Imports
//!
//! `catalogue`, `cell`, `hosts`, `machine`, `net`.

mod echo;
mod fib;
mod http;
mod http_idle;
mod nqueens;
mod ping_pong;
mod skynet;
mod switch;

use crate::catalogue::Workload;

/// All of them, in the order in which they are shown.
pub(crate) const ALL: &[Workload] = &[
    switch::WORKLOAD,
    ping_pong::WORKLOAD,
    echo::WORKLOAD,
    http::WORKLOAD,
    http_idle::WORKLOAD,
    skynet::WORKLOAD,
    fib::WORKLOAD,
    nqueens::WORKLOAD,
];

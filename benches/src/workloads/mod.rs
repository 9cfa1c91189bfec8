//! # Purpose
//!
//! One file for each question: what is asked, the cases, and the work as each contender does it.
//!
//! # Imports
//!
//! `catalogue`, `cell`, `hosts`, `machine`, `net`.

mod echo;
mod fan;
mod fib;
mod http;
mod http_idle;
mod mpmc;
mod mutex;
mod nqueens;
mod ping_pong;
mod select;
mod skynet;
mod stream;
mod switch;
mod wake;

use crate::catalogue::Workload;

/// All of them, in the order in which they are shown.
pub(crate) const ALL: &[Workload] = &[
    switch::WORKLOAD,
    ping_pong::WORKLOAD,
    stream::WORKLOAD,
    mpmc::WORKLOAD,
    fan::WORKLOAD,
    select::WORKLOAD,
    mutex::WORKLOAD,
    wake::WORKLOAD,
    echo::WORKLOAD,
    http::WORKLOAD,
    http_idle::WORKLOAD,
    skynet::WORKLOAD,
    fib::WORKLOAD,
    nqueens::WORKLOAD,
];

//! # Purpose
//!
//! One file for each question: what is asked, the cases, and the work as each contender does it.
//!
//! # Imports
//!
//! `catalogue`, `cell`, `hosts`, `machine`, `net`.

mod connect;
mod context;
mod echo;
mod fan;
mod fib;
mod flow;
mod hog;
mod http;
mod http_idle;
mod idle;
mod imbalance;
mod latency;
mod mpmc;
mod mutex;
mod nqueens;
mod parked;
mod ping_pong;
mod ring_nop;
mod scale;
mod select;
mod skynet;
mod sleep;
mod spawn_join;
mod stream;
mod switch;
mod timers;
mod wake;
mod yield_now;

use crate::catalogue::Workload;

/// All of them, in the order in which they are shown.
pub(crate) const ALL: &[Workload] = &[
    switch::WORKLOAD,
    yield_now::WORKLOAD,
    spawn_join::WORKLOAD,
    ring_nop::WORKLOAD,
    sleep::WORKLOAD,
    timers::WORKLOAD,
    context::WORKLOAD,
    parked::WORKLOAD,
    scale::WORKLOAD,
    ping_pong::WORKLOAD,
    stream::WORKLOAD,
    mpmc::WORKLOAD,
    fan::WORKLOAD,
    select::WORKLOAD,
    mutex::WORKLOAD,
    wake::WORKLOAD,
    echo::WORKLOAD,
    latency::WORKLOAD,
    hog::WORKLOAD,
    idle::WORKLOAD,
    flow::WORKLOAD,
    connect::WORKLOAD,
    imbalance::WORKLOAD,
    http::WORKLOAD,
    http_idle::WORKLOAD,
    skynet::WORKLOAD,
    fib::WORKLOAD,
    nqueens::WORKLOAD,
];

//! Pinned benchmarks of urgo, side by side with its rivals.
//!
//! ```text
//! cargo run --release -p urgo-bench -- list
//! cargo run --release -p urgo-bench -- run ping_pong echo --json results.json --html report.html
//! cargo run --release -p urgo-bench -- compare before.json after.json
//! ```
//!
//! # Layout
//!
//! | room | what is in it |
//! |---|---|
//! | `machine` | CPUs, clocks, counters, facts |
//! | `cell` | one measurement of one contender: what it is told, what it answers |
//! | `catalogue` | what a workload, a case, a contender and a budget are |
//! | `hosts` | the same jobs on goroutines, threads, may and tokio |
//! | `net` | servers, and the clients that measure them |
//! | `workloads` | one file for each question |
//! | `results` | medians, ratios, tables, JSON lines, comparisons |
//! | `run` | runs contenders in turn, each in a process of its own |
//! | `html` | the report with its plots |
//! | `cli` | the command line |
//!
//! The way of a number: `run` starts this program again as a cell; the cell finds its workload and its contender in the
//! `catalogue`, measures and prints a `Sample`; `run` collects the samples of a case; `results` shows and keeps them; `html`
//! draws them.

mod catalogue;
mod cell;
mod cli;
mod hosts;
mod html;
mod machine;
mod net;
mod results;
mod run;
mod workloads;

fn main() -> std::process::ExitCode {
    cli::main()
}

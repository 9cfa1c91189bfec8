//! # Purpose
//!
//! The command line: what can be asked for (here), and how each command goes about it. Results go to standard output; progress,
//! notes and warnings go to standard error.
//!
//! # Imports
//!
//! `catalogue`, `cell`, `html`, `machine`, `net`, `results`, `run`.

mod cells;
mod list;
mod measure;

use crate::results::{LEVEL, SAMPLES_MIN, Wanted, compare, read_lines};
use crate::run::{COMMAND_CELL, COMMAND_SERVE};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Pinned benchmarks of urgo, side by side with its rivals, each measurement in a process of its own.
#[derive(Parser)]
#[command(name = "urgo-bench", after_help = EXAMPLES)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  urgo-bench list                                          what there is
  urgo-bench list echo                                     all about one workload
  urgo-bench run --quick                                   does everything run here?
  urgo-bench run switch ping_pong                          measure two workloads
  urgo-bench run --json results.json --html report.html    measure everything, keep it, draw it
  urgo-bench compare before.json after.json                what has a change done?
  urgo-bench report old.json new.json --html report.html   with the history of both

Through cargo: cargo run --release -p urgo-bench -- COMMAND ...";

const RUN_EXAMPLES: &str = "\
Examples:
  urgo-bench run ping_pong --case '1 worker'         some cases of one workload
  urgo-bench run echo --only urgo,'raw ring'         some contenders
  urgo-bench run switch --rounds 15 --json a.json    more rounds, for `compare`
  urgo-bench run --cpus 2,3                          other CPUs
  urgo-bench run latency --case '80 %' --rate 90000  the same load as in an earlier run

Go's program is built with `go`, or with what the variable GO names; without Go the rest runs.
Ctrl-C ends the cell that is running and then the run: what was measured until then is kept and
drawn. A second one ends everything at once.
Exit code: 0 all ran; 1 something failed, or contenders computed different results; 2 the command
makes no sense; 130 Ctrl-C. A budget that is missed is no failure.

The rate of a case of `latency` is a share of what Go reaches, the median of three short
calibrations, so it is another one in each run. --rate gives all of them one rate instead, and
--case chooses among them; the rate of an earlier run is in its results file.";

fn compare_help() -> String {
    format!(
        "\
The word behind each ratio is that of the exact test of Mann and Whitney on the samples of both
files. Where samples of one source would lie so far apart with a probability of {LEVEL} or less, it
is \"faster\" or \"slower\", else \"same within noise\"; with fewer than {SAMPLES_MIN} rounds on a side there is no
answer. The test sees the noise inside each run, not that the machine was slower that day: what
rivals did in the same two runs (--all) shows that.

Where a case was run with other parameters (the rate of `latency` is found anew in each run, unless
`run --rate` sets it), the line says which and there is no word: the two did not do the same.

Examples:
  urgo-bench compare before.json after.json
  urgo-bench compare before.json after.json --all --case echo
  urgo-bench compare before.json after.json --only go,tokio

Nothing is judged: the exit code is 0 whatever became slower."
    )
}

#[derive(Subcommand)]
enum Command {
    /// Shows what can be measured: workloads, their cases, contenders and budgets
    List {
        /// Only these workloads, with all their cases
        names: Vec<String>,
    },
    /// Measures, and prints a table for each case
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunOptions),
    /// Compares two results files: what became faster, what slower
    #[command(after_help = compare_help())]
    Compare {
        /// Results of the first run
        before: PathBuf,
        /// Results of the second run
        after: PathBuf,
        /// Rivals, too [default: urgo alone]
        #[arg(long)]
        all: bool,
        /// These contenders, separated by commas
        #[arg(
            long,
            value_name = "NAMES",
            value_delimiter = ',',
            conflicts_with = "all"
        )]
        only: Vec<String>,
        /// Only workloads or cases whose name contains this
        #[arg(long, value_name = "PART")]
        case: Option<String>,
    },
    /// Draws the report of one or several results files; of each case the newest results are shown, all are the history
    Report {
        /// Results files, oldest first
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Where to write the report
        #[arg(long, value_name = "FILE", required_unless_present = "markdown")]
        html: Option<PathBuf>,
        /// Where to write the budgets as a table in Markdown
        #[arg(long, value_name = "FILE")]
        markdown: Option<PathBuf>,
        /// Notes in Markdown; a section `## WORKLOAD` is shown beside that workload, the rest on top
        #[arg(long, value_name = "FILE")]
        notes: Option<PathBuf>,
    },
}

#[derive(Args)]
struct RunOptions {
    /// Workloads (see `list`); all if none is named
    names: Vec<String>,
    /// Tiny sizes, one round: shows that everything runs, measures nothing
    #[arg(long)]
    quick: bool,
    /// CPUs to use, the first ones for workers and servers, the last one for the client [default: all allowed ones]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Rounds of each case [default: 7, or 1 with --quick]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Only cases whose name contains this
    #[arg(long, value_name = "PART")]
    case: Option<String>,
    /// Requests per second in cases that would be calibrated (`latency`), so that two runs can be compared
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Only these contenders, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Appends one line of JSON per case and contender, as soon as the case is done
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes a report with plots, also of a run that was stopped
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Starts here: the hidden commands first, since they are measured.
pub(crate) fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some(COMMAND_CELL) => return cells::run_cell(&words[1..]),
        Some(COMMAND_SERVE) => return cells::serve(&words[1..]),
        _ => {}
    }
    match visible(Options::parse().command) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("urgo-bench: {why}");
            ExitCode::from(2)
        }
    }
}

fn visible(command: Command) -> Result<ExitCode, String> {
    match command {
        Command::List { names } => list::list(&names)?,
        Command::Run(options) => return measure::run(&options),
        Command::Compare {
            before,
            after,
            all,
            only,
            case,
        } => {
            let contenders = match (all, only.is_empty()) {
                (true, _) => Vec::new(),
                (false, true) => vec!["urgo".to_owned()],
                (false, false) => only,
            };
            let part = case;
            compare(&before, &after, &Wanted { contenders, part })?;
        }
        Command::Report {
            files,
            html,
            markdown,
            notes,
        } => {
            if let Some(html) = html {
                crate::html::write(&files, notes.as_deref(), &html)?;
                eprintln!("wrote {}", html.display());
            }
            if let Some(path) = markdown {
                let lines: Result<Vec<_>, _> = files.iter().map(|file| read_lines(file)).collect();
                let table = crate::results::markdown(&lines?.concat());
                std::fs::write(&path, table).map_err(|e| format!("{}: {e}", path.display()))?;
                eprintln!("wrote {}", path.display());
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

//! The command line.

use crate::catalogue::{self, Role, Size, Workload};
use crate::cell::Cell;
use crate::machine::{Facts, allowed_cpus, die_with_parent, peak_bytes_of};
use crate::net::Server;
use crate::results::{compare, print_case, print_verdict};
use crate::run::{COMMAND_CELL, COMMAND_SERVE, Go, Plan};
use clap::{Args, Parser, Subcommand};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;

/// Pinned benchmarks of urgo, side by side with its rivals, each measurement in a process of its own.
#[derive(Parser)]
#[command(name = "urgo-bench")]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows what can be measured: workloads, their cases, contenders and budgets
    List {
        /// Only these workloads, with all their cases
        names: Vec<String>,
    },
    /// Measures, and prints a table for each case
    Run(RunOptions),
    /// Compares two results files: what became faster, what slower
    Compare {
        /// Results of the first run
        before: PathBuf,
        /// Results of the second run
        after: PathBuf,
    },
    /// Draws the report of one or several results files; the last one is the run that is shown, all are the history
    Report {
        /// Results files, oldest first
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Where to write the report
        #[arg(long, value_name = "FILE")]
        html: PathBuf,
        /// Notes in Markdown, shown in the report
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
        Some(COMMAND_CELL) => return run_cell(&words[1..]),
        Some(COMMAND_SERVE) => return serve(&words[1..]),
        _ => {}
    }
    let done = match Options::parse().command {
        Command::List { names } => list(&names),
        Command::Run(options) => run(&options),
        Command::Compare { before, after } => compare(&before, &after).map(|()| true),
        Command::Report { files, html, notes } => {
            crate::html::write(&files, notes.as_deref(), &html).map(|()| true)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("urgo-bench: {why}");
            ExitCode::from(2)
        }
    }
}

fn chosen(names: &[String]) -> Result<Vec<&'static Workload>, String> {
    if names.is_empty() {
        return Ok(catalogue::all().iter().collect());
    }
    let find = |name: &String| {
        catalogue::find(name).ok_or_else(|| {
            format!("there is no workload {name:?}; `urgo-bench list` shows which there are")
        })
    };
    names.iter().map(find).collect()
}

fn list(names: &[String]) -> Result<bool, String> {
    let in_full = !names.is_empty();
    for workload in chosen(names)? {
        println!("{:<16} {}", workload.name, workload.question);
        let contenders: Vec<_> = workload.contenders.iter().map(|c| c.name).collect();
        println!("{:<16} {}", "", contenders.join(", "));
        let cases = (workload.cases)(Size::Full);
        if !in_full {
            let budgets = cases.iter().filter(|case| case.budget.is_some()).count();
            println!("{:<16} {} cases, {budgets} with a budget", "", cases.len());
            continue;
        }
        println!("\n{}\n\nIt is not: {}\n", workload.work, workload.is_not);
        for case in cases {
            let budget = case.budget.map_or(String::new(), |b| {
                format!(", budget {b} {}", case.judge.unit)
            });
            println!("  {:<48} {}{budget}", case.name, case.judge.what);
        }
        println!();
    }
    Ok(true)
}

fn run(options: &RunOptions) -> Result<bool, String> {
    let allowed = allowed_cpus();
    let cpus = if options.cpus.is_empty() {
        allowed.clone()
    } else {
        options.cpus.clone()
    };
    if let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(format!(
            "CPU {cpu} is not one that this process may use: {allowed:?}"
        ));
    }
    let plan = Plan {
        workloads: chosen(&options.names)?,
        case: options.case.clone(),
        only: options.only.clone(),
        size: if options.quick {
            Size::Quick
        } else {
            Size::Full
        },
        rounds: options
            .rounds
            .unwrap_or(if options.quick { 1 } else { 7 })
            .max(1),
        cpus,
    };
    let known = |name: &String| {
        plan.workloads
            .iter()
            .any(|workload| workload.contender(name).is_some())
    };
    if let Some(name) = options.only.iter().find(|name| !known(name)) {
        return Err(format!(
            "there is no contender {name:?} in what is to be run; `urgo-bench list` shows who takes part"
        ));
    }
    let open = |path: &PathBuf| {
        let file = File::options().create(true).append(true).open(path);
        file.map(BufWriter::new)
            .map_err(|e| format!("{}: {e}", path.display()))
    };
    let mut json = options.json.as_ref().map(open).transpose()?;
    let facts = Facts::gather(&plan.cpus);
    println!("{facts}");
    let go_is_wanted = plan.only.is_empty() || plan.only.iter().any(|name| name == "go");
    let go = if go_is_wanted {
        Go::build()
    } else {
        Go::none()
    };
    if let (true, Some(why)) = (go_is_wanted, go.missing()) {
        println!("note:    {why}");
    }
    let mut cases = Vec::new();
    let mut write_error = None;
    let ending = crate::run::run(&plan, &facts, &go, |finished| {
        let lines = finished.lines();
        let workload = catalogue::find(finished.workload).expect("it was run");
        print_case(workload, &finished.case, &lines);
        if let Some(file) = &mut json {
            let mut write = || -> std::io::Result<()> {
                for line in &lines {
                    writeln!(file, "{}", serde_json::to_string(line)?)?;
                }
                file.flush()
            };
            write_error = write_error.take().or(write().err());
        }
        let name = format!("{}, {}", finished.workload, finished.case.name);
        cases.push((name, finished.case.budget, lines));
    });
    if plan.size == Size::Full {
        print_verdict(&cases);
    } else {
        println!(
            "\n{} cases ran at tiny size; their numbers mean nothing",
            cases.len()
        );
    }
    ending
        .left_out
        .iter()
        .for_each(|what| println!("left out: {what}"));
    ending
        .failures
        .iter()
        .for_each(|what| println!("FAILED: {what}"));
    if ending.interrupted {
        println!("stopped: what was done until then is above");
    }
    if let Some(path) = &options.html {
        let lines: Vec<_> = cases.into_iter().flat_map(|(_, _, lines)| lines).collect();
        crate::html::write_lines(vec![lines], None, path)?;
    }
    match (write_error, &options.json) {
        (Some(error), Some(path)) => Err(format!("{}: {error}", path.display())),
        _ => Ok(ending.failures.is_empty() && !ending.interrupted),
    }
}

/// `WORKLOAD CONTENDER name=value...`, as [`crate::run::say`] writes it.
fn cell_of(words: &[String]) -> Option<(&'static Workload, Cell)> {
    let [workload, contender, rest @ ..] = words else {
        return None;
    };
    let mut params: BTreeMap<String, String> = rest
        .iter()
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let cpus = params.remove("cpus")?;
    let cell = Cell {
        workload: workload.clone(),
        contender: contender.clone(),
        cpus: cpus.split(',').filter_map(|cpu| cpu.parse().ok()).collect(),
        params,
    };
    Some((catalogue::find(workload)?, cell))
}

fn run_cell(words: &[String]) -> ExitCode {
    let Some((workload, cell)) = cell_of(words) else {
        eprintln!("urgo-bench cell: this is how `run` starts itself; it is not for people");
        return ExitCode::from(2);
    };
    die_with_parent();
    let contender = workload
        .contender(&cell.contender)
        .expect("a contender of the catalogue");
    let mut sample = match (contender.role, workload.client) {
        (Role::Alone(measure), _) => measure(&cell),
        (_, Some(client)) => client(&cell, &Server::start(workload, &cell)),
        (_, None) => panic!("{}: a server without a client", workload.name),
    };
    if !sample.metrics.contains_key("peak_bytes")
        && let Some(bytes) = peak_bytes_of(std::process::id())
    {
        sample.set("peak_bytes", bytes as f64);
    }
    println!(
        "{}",
        serde_json::to_string(&sample).expect("a sample is plain data")
    );
    ExitCode::SUCCESS
}

fn serve(words: &[String]) -> ExitCode {
    let Some((workload, cell)) = cell_of(words) else {
        eprintln!("urgo-bench serve: this is how `run` starts a server; it is not for people");
        return ExitCode::from(2);
    };
    die_with_parent();
    let contender = workload
        .contender(&cell.contender)
        .expect("a contender of the catalogue");
    let Role::Serves(serve) = contender.role else {
        panic!("{} is no server", contender.name)
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
    println!("{}", listener.local_addr().expect("a bound socket").port());
    serve(&cell, listener);
    ExitCode::SUCCESS
}

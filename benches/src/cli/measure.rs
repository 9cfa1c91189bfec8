//! `run`.

use super::RunOptions;
use super::list::{chosen, meant};
use crate::catalogue::{self, Budget, Size};
use crate::machine::{Facts, allowed_cpus};
use crate::results::{Line, print_case, print_verdict, reason};
use crate::run::{Ending, Go, Plan};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

/// Measures what `options` ask for, prints it and writes it.
///
/// # Errors
/// What makes no sense, and what cannot be written.
pub(super) fn run(options: &RunOptions) -> Result<ExitCode, String> {
    let plan = plan(options)?;
    // Both files are opened before the run: hours are not to be lost to a path that is none.
    let mut json = options.json.as_deref().map(open).transpose()?;
    if let Some(path) = &options.html {
        open(path)?;
    }
    let facts = Facts::gather(&plan.cpus);
    println!("{facts}");
    let go = go(&plan)?;
    let mut cases: Vec<(String, Option<Budget>, Vec<Line>)> = Vec::new();
    let mut write_error = None;
    let ending = crate::run::run(&plan, &facts, &go, |finished| {
        let lines = finished.lines();
        let workload = catalogue::find(finished.workload).expect("it was run");
        print_case(workload, &finished.case, &lines);
        if let Some(file) = &mut json {
            write_error = write_error.take().or(append(file, &lines).err());
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
    print_ending(&ending);
    if let Some(path) = &options.html {
        let lines = cases.into_iter().flat_map(|(_, _, lines)| lines).collect();
        crate::html::write_lines(lines, None, path)?;
        eprintln!("wrote {}", path.display());
    }
    match (write_error, &options.json) {
        (Some(error), Some(path)) => return Err(format!("{}: {error}", path.display())),
        (None, Some(path)) => eprintln!("wrote {}", path.display()),
        _ => {}
    }
    Ok(ExitCode::from(ending.status()))
}

fn plan(options: &RunOptions) -> Result<Plan, String> {
    let workloads = chosen(&options.names)?;
    let quick = options.quick;
    let size = if quick { Size::Quick } else { Size::Full };
    let names = || workloads.iter().flat_map(|workload| workload.contenders);
    let unknown = |name: &&String| !names().any(|contender| contender.name == **name);
    if let Some(name) = options.only.iter().find(unknown) {
        let all = names().map(|contender| contender.name);
        return Err(format!(
            "nobody called {name:?} takes part in what is to be run{}",
            meant(name, all)
        ));
    }
    let mut cases = workloads.iter().flat_map(|workload| (workload.cases)(size));
    if let Some(part) = &options.case
        && !cases.any(|case| case.name.contains(part))
    {
        return Err(format!(
            "no case of what is to be run has {part:?} in its name; `urgo-bench list WORKLOAD` shows them{}",
            if quick {
                ", with --quick they may be others"
            } else {
                ""
            }
        ));
    }
    if options.rounds == Some(0) {
        return Err("--rounds 0 would measure nothing".to_owned());
    }
    if let Some(rate) = options.rate {
        let part = options.case.as_deref().unwrap_or("");
        let mut cases = workloads.iter().flat_map(|workload| (workload.cases)(size));
        if !cases.any(|case| case.name.contains(part) && case.calibrated_by.is_some()) {
            return Err("--rate: no case of what is to be run has a rate to be set".to_owned());
        }
        if !(rate.is_finite() && rate >= 1.0) {
            return Err(format!(
                "--rate {rate}: it takes one request per second, or more"
            ));
        }
    }
    Ok(Plan {
        rate: options.rate,
        workloads,
        case: options.case.clone(),
        only: options.only.clone(),
        size,
        rounds: options.rounds.unwrap_or(if quick { 1 } else { 7 }),
        cpus: cpus(&options.cpus)?,
    })
}

fn cpus(asked: &[usize]) -> Result<Vec<usize>, String> {
    let allowed = allowed_cpus();
    if asked.is_empty() {
        return Ok(allowed);
    }
    if let Some(cpu) = asked.iter().find(|cpu| !allowed.contains(cpu)) {
        let allowed: Vec<_> = allowed.iter().map(usize::to_string).collect();
        return Err(format!(
            "--cpus: CPU {cpu} is not one that this process may use; these are: {}",
            allowed.join(", ")
        ));
    }
    if let Some(at) = (1..asked.len()).find(|&at| asked[..at].contains(&asked[at])) {
        return Err(format!("--cpus: CPU {} is there twice", asked[at]));
    }
    Ok(asked.to_vec())
}

fn open(path: &Path) -> Result<BufWriter<File>, String> {
    let file = File::options().create(true).append(true).open(path);
    file.map(BufWriter::new)
        .map_err(|e| format!("{} cannot be written: {e}", path.display()))
}

/// # Errors
/// If Go is there but the sources do not build: that is our fault, not a missing rival.
fn go(plan: &Plan) -> Result<Go, String> {
    let is_wanted = plan.only.is_empty() || plan.only.iter().any(|name| name == "go");
    if !is_wanted {
        return Ok(Go::none());
    }
    let go = Go::build();
    if let Some(why) = go.broken() {
        return Err(why);
    }
    if let Some(why) = go.missing() {
        eprintln!("note: {why}");
    }
    Ok(go)
}

fn append(file: &mut BufWriter<File>, lines: &[Line]) -> std::io::Result<()> {
    for line in lines {
        writeln!(file, "{}", serde_json::to_string(line)?)?;
    }
    file.flush()
}

fn print_ending(ending: &Ending) {
    for what in &ending.left_out {
        eprintln!("left out: {what}");
    }
    for what in &ending.failures {
        eprintln!("FAILED: {}", reason(what));
    }
    if ending.interrupted {
        eprintln!("stopped: what was done until then is above");
    }
}

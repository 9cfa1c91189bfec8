//! `list`, and the names that people type.

use crate::catalogue::{self, Size, Workload};

/// Columns of a line of text.
const WIDTH: usize = 100;
const INDENT: usize = 2;

/// Prints all workloads in short, or those named in full.
///
/// # Errors
/// A name that is none.
pub(super) fn list(names: &[String]) -> Result<(), String> {
    if !names.is_empty() {
        chosen(names)?.into_iter().for_each(in_full);
        return Ok(());
    }
    for workload in catalogue::all() {
        let cases = (workload.cases)(Size::Full);
        let budgets = cases.iter().filter(|case| case.budget.is_some()).count();
        let cases = match cases.len() {
            1 => "1 case".to_owned(),
            some => format!("{some} cases"),
        };
        println!("{} ({cases}, {budgets} with a budget)", workload.name);
        println!("{}", wrapped(workload.question, INDENT));
        println!("{}\n", wrapped(&contenders(workload), INDENT));
    }
    println!("`urgo-bench list WORKLOAD` shows cases and budgets, and what exactly is measured.");
    Ok(())
}

fn in_full(workload: &Workload) {
    println!("{}: {}\n", workload.name, workload.question);
    println!("{}\n", wrapped(workload.work, 0));
    println!(
        "{}\n",
        wrapped(&format!("It is not {}", workload.is_not), 0)
    );
    println!(
        "{}\n",
        wrapped(&format!("Contenders: {}", contenders(workload)), 0)
    );
    let cases = (workload.cases)(Size::Full);
    let widest = cases.iter().map(|case| case.name.chars().count()).max();
    let width = widest.unwrap_or(0);
    for case in cases {
        let workers = match case.workers {
            1 => "1 CPU ".to_owned(),
            some => format!("{some} CPUs"),
        };
        let budget = match case.budget {
            Some(budget) => format!(", budget {budget} {}", unit_of(budget, case.judge.unit)),
            None => String::new(),
        };
        println!(
            "  {:<width$}  {workers}  {}{}",
            case.name,
            case.judge.what,
            budget.trim_end()
        );
    }
    println!();
}

/// A bound in the unit of the judge has it; one by a rival has none.
fn unit_of(budget: catalogue::Budget, unit: &'static str) -> &'static str {
    match budget {
        catalogue::Budget::AtMost(_) => unit,
        _ => "",
    }
}

fn contenders(workload: &Workload) -> String {
    let names: Vec<_> = workload.contenders.iter().map(|c| c.name).collect();
    names.join(", ")
}

/// The workloads of these names; all if there are none.
///
/// # Errors
/// A name that is none, and the one that was meant, perhaps.
pub(super) fn chosen(names: &[String]) -> Result<Vec<&'static Workload>, String> {
    if names.is_empty() {
        return Ok(catalogue::all().iter().collect());
    }
    let find = |name: &String| {
        catalogue::find(name).ok_or_else(|| {
            let all = catalogue::all().iter().map(|workload| workload.name);
            format!("there is no workload {name:?}{}", meant(name, all))
        })
    };
    names.iter().map(find).collect()
}

/// "; did you mean ...?", or where all names are.
pub(super) fn meant<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> String {
    let nearest = all
        .map(|other| (distance(name, other), other))
        .min_by_key(|(distance, _)| *distance);
    match nearest {
        // Half of the letters may be wrong; beyond that it is a guess.
        Some((distance, other)) if 2 * distance <= name.chars().count() => {
            format!("; did you mean {other:?}?")
        }
        _ => "; `urgo-bench list` shows which there are".to_owned(),
    }
}

/// Letters to put in, take out or replace to make one of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Text in lines of [`WIDTH`], each indented.
fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("it starts with one");
        if line.is_empty() {
            line.push_str(word);
        } else if indent + line.chars().count() + 1 + word.chars().count() <= WIDTH {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    let indent = " ".repeat(indent);
    let lines: Vec<_> = lines.iter().map(|line| format!("{indent}{line}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_understood() {
        assert_eq!(distance("ping_pong", "pign_pong"), 2);
        assert_eq!(distance("", "echo"), 4);
        let all = || ["echo", "ping_pong"].into_iter();
        assert!(meant("ehco", all()).contains("\"echo\""));
        assert!(meant("pingpong", all()).contains("\"ping_pong\""));
        assert!(meant("throughput", all()).contains("list"));
    }

    #[test]
    fn no_line_is_too_long_and_no_word_gets_lost() {
        let text = "word and other ".repeat(40);
        let lines = wrapped(&text, 4);
        assert!(lines.lines().all(|line| line.chars().count() <= WIDTH));
        assert!(
            lines
                .lines()
                .all(|line| line.starts_with("    w") || line.starts_with("    "))
        );
        assert!(text.split_whitespace().eq(lines.split_whitespace()));
    }
}

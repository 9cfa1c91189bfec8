//! One cell in a process of its own.
//!
//! # Safety
//! Between fork and exec only system calls are made, on plain integers and a set of CPUs on the stack. A group of processes is
//! ended by number, before its leader has been waited for.

use super::go::Go;
use super::{Interrupt, Plan};
use crate::catalogue::{Case, Contender, Role, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::machine::{SYSCALLS_FD, SyscallCount, die_with, pin_to};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Hidden first argument: measure one cell.
pub(crate) const COMMAND_CELL: &str = "cell";
/// Hidden first argument: serve until killed.
pub(crate) const COMMAND_SERVE: &str = "serve";
/// Environment variable by which a client's cell finds the Go program.
pub(crate) const GO_PROGRAM: &str = "URGO_BENCH_GO";

/// A cell that takes longer is taken for stuck.
const CELL_TIME_MAX: Duration = Duration::from_secs(180);

/// A command for this cell: of this program, or of the Go program.
pub(crate) fn say(verb: &str, cell: &Cell, go: Option<&str>) -> Command {
    let cpus: Vec<String> = cell.cpus.iter().map(usize::to_string).collect();
    let mut command = match go {
        Some(program) => {
            let mut command = Command::new(program);
            command.args([verb, &cell.workload]);
            command
        }
        None => {
            let mut command = Command::new("/proc/self/exe");
            command.args([verb, &cell.workload, &cell.contender]);
            command
        }
    };
    command.arg(format!("cpus={}", cpus.join(",")));
    command.args(
        cell.params
            .iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    command
}

/// Why a cell gave no sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The user wants the run to end; nothing is wrong with the cell.
    Interrupted,
    /// What the cell said, or what is wrong with its answer.
    Failed(String),
}

/// Confines what `command` starts to `cpus`, lets it read `count`, and ends it when the calling thread ends.
pub(crate) fn confined(command: &mut Command, cpus: &[usize], count: Option<&SyscallCount>) {
    let cpus = cpus.to_vec();
    let fd = count.map(SyscallCount::raw_fd);
    let starter = std::process::id();
    match fd {
        Some(fd) => command.env(SYSCALLS_FD, fd.to_string()),
        None => command.env_remove(SYSCALLS_FD),
    };
    // SAFETY: between fork and exec only what is async-signal-safe may be done. The closure makes system calls and allocates
    // nothing, by the promises of `die_with` and `pin_to`; its errors are numbers.
    unsafe {
        command.pre_exec(move || {
            die_with(starter)?;
            pin_to(&cpus)?;
            match fd {
                // All flags off: the descriptor stays open over exec.
                Some(fd) if libc::fcntl(fd, libc::F_SETFD, 0) < 0 => {
                    Err(std::io::Error::last_os_error())
                }
                _ => Ok(()),
            }
        })
    };
}

/// Runs one cell to its end.
///
/// # Errors
/// What the cell said when it failed, or that the user wants the run to end.
pub(super) fn cell(
    plan: &Plan,
    workload: &Workload,
    case: &Case,
    contender: &Contender,
    go: &Go,
    count: Option<&SyscallCount>,
    interrupt: &Interrupt,
) -> Result<Sample, Fault> {
    if interrupt.is_set() {
        return Err(Fault::Interrupted);
    }
    let mut cell = Cell {
        workload: workload.name.to_owned(),
        contender: contender.name.to_owned(),
        cpus: plan.cpus[..case.workers].to_vec(),
        params: case.params.clone(),
    };
    let ops = (cell.ops() / contender.divisor).max(1);
    cell.params.insert("ops".to_owned(), ops.to_string());
    if count.is_some()
        && let Some(window_ms) = cell.find::<u64>("window_ms")
    {
        // Calls per request do not depend on how long one looks.
        let short = (window_ms / 4).max(1);
        cell.params
            .insert("window_ms".to_owned(), short.to_string());
    }
    if plan.size == Size::Quick {
        cell.params.insert("quick".to_owned(), "1".to_owned());
    }
    let is_client = workload.client.is_some();
    let go_alone = match contender.role {
        Role::Go if !is_client => Some(go.program().map_err(Fault::Failed)?),
        _ => None,
    };
    let mut command = say(COMMAND_CELL, &cell, go_alone);
    let client_cpu = plan.cpus.last().copied().unwrap_or(0);
    // The counter of a server is opened by its client, which is told to by this variable alone.
    let cpus = if is_client {
        &[client_cpu][..]
    } else {
        &cell.cpus[..]
    };
    confined(&mut command, cpus, count);
    if let Ok(program) = go.program() {
        command.env(GO_PROGRAM, program);
    }
    finish(command, interrupt)
}

/// Kills a process and all that it has started. They may have ended by themselves in this moment, which is as good.
fn end_group(leader: u32) {
    // SAFETY: the call takes plain integers. The leader has not been waited for, so its number is still its own.
    unsafe { libc::kill(-(leader as libc::pid_t), libc::SIGKILL) };
}

fn finish(mut command: Command, interrupt: &Interrupt) -> Result<Sample, Fault> {
    command
        // Out of the terminal's reach: Ctrl-C is for the runner, who ends the cell and knows why it ended.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|e| Fault::Failed(format!("does not start: {e}")))?;
    let (mut out, mut err) = (
        child.stdout.take().expect("piped"),
        child.stderr.take().expect("piped"),
    );
    let (tell, told) = channel();
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        // An error of reading a pipe leaves what was read so far, which is all there is to show.
        let _ = err.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = out.read_to_string(&mut text);
        // The other end is gone only if the cell has been given up.
        let _ = tell.send(text);
    });
    let deadline = Instant::now() + CELL_TIME_MAX;
    let text = loop {
        match told.recv_timeout(Duration::from_millis(200)) {
            Ok(text) => break Ok(text),
            Err(RecvTimeoutError::Timeout) if interrupt.is_set() => break Err(Fault::Interrupted),
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            Err(_) => break Err(Fault::Failed(format!("stopped after {CELL_TIME_MAX:?}"))),
        }
    };
    if text.is_err() {
        // With the server that it may have started: both are in the cell's group.
        end_group(child.id());
    }
    let status = child
        .wait()
        .map_err(|e| Fault::Failed(format!("cannot be waited for: {e}")))?;
    let errors = errors.join().unwrap_or_default();
    let said = |what: String| Fault::Failed(format!("{what}\n{}", errors.trim_end()));
    let text = text.map_err(|fault| match fault {
        Fault::Failed(why) => said(why),
        Fault::Interrupted => fault,
    })?;
    if !status.success() {
        return Err(said(status.to_string()));
    }
    // What a cell has to say besides its answer is for whoever looks.
    let _ = std::io::stderr().write_all(errors.as_bytes());
    Sample::read(&text).map_err(Fault::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn failure(script: &str) -> String {
        match finish(shell(script), &Interrupt::none()) {
            Err(Fault::Failed(why)) => why,
            other => panic!("{script}: {other:?}"),
        }
    }

    #[test]
    fn an_answer_is_read() {
        let answer = r#"echo '{"ops":8,"checksum":"0000000000000001","metrics":{}}'"#;
        let read = finish(shell(answer), &Interrupt::none());
        assert_eq!(read, Ok(Sample::new(8, 1)));
    }

    #[test]
    fn a_cell_that_answers_nonsense_or_ends_badly_has_failed() {
        assert!(failure("echo garbage").contains("garbage"));
        assert!(failure("true").contains("answers \"\""));
        let no_latencies = r#"echo '{"ops":8,"checksum":"1","metrics":{},"latencies":"AAAA"}'"#;
        assert!(failure(no_latencies).contains("latencies that are none"));
        let no_number = r#"echo '{"ops":8,"checksum":"1","metrics":{"cpu_ns":null}}'"#;
        assert!(failure(no_number).contains("null"));
        // The answer of who fails afterwards does not count.
        let late = r#"echo '{"ops":8,"checksum":"1","metrics":{}}'; echo planted >&2; exit 1"#;
        let why = failure(late);
        assert!(
            why.contains("exit status: 1") && why.contains("planted"),
            "{why}"
        );
        assert!(failure("kill -SEGV $$").contains("signal: 11"));
    }

    #[test]
    fn a_cell_that_the_user_ends_has_not_failed() {
        let ended = finish(shell("sleep 1000"), &Interrupt::raised());
        assert_eq!(ended, Err(Fault::Interrupted));
    }

    #[test]
    fn nothing_starts_whose_starter_is_gone() {
        let cpus = crate::machine::allowed_cpus();
        let mut orphan = shell("true");
        // SAFETY: `die_with` makes two system calls and allocates nothing.
        unsafe { orphan.pre_exec(|| die_with(u32::MAX)) };
        let error = orphan.spawn().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
        let mut child = shell("true");
        confined(&mut child, &cpus, None);
        assert!(child.status().unwrap().success());
    }
}

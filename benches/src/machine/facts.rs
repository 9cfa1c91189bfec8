//! The machine and the versions that a number belongs to.

use serde::{Deserialize, Serialize};
use std::process::Command;

/// Printed above every result and written into every JSON line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// CPU model.
    pub(crate) cpu: String,
    /// CPUs that the run used; the first ones for workers and servers, the last one for the client.
    pub(crate) cpus: Vec<usize>,
    /// Kernel release.
    pub(crate) kernel: String,
    /// Frequency governor of the first CPU; "none" where the CPU's clock is not ours to govern, as in most virtual machines.
    pub(crate) governor: String,
    /// Commit of the working tree, with `-dirty` where files differ; "unknown" outside a repository.
    pub(crate) commit: String,
    /// Compiler that is on the path now; normally the one that built this binary.
    pub(crate) rustc: String,
    /// Load averages at the start: says whether somebody else was using the machine.
    pub(crate) load: String,
    /// Seconds since 1970 at the start of the run.
    pub(crate) started: u64,
}

impl Facts {
    /// Reads `/proc` and `/sys` and asks `git` and `rustc`; whatever is missing is "unknown".
    pub(crate) fn gather(cpus: &[usize]) -> Facts {
        let model = std::fs::read_to_string("/proc/cpuinfo")
            .ok()
            .and_then(|text| {
                let line = text
                    .lines()
                    .find(|line| line.starts_with("model name") || line.starts_with("CPU part"))?;
                Some(line.split_once(':')?.1.trim().to_owned())
            });
        let governor = format!(
            "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor",
            cpus.first().copied().unwrap_or(0)
        );
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Facts {
            cpu: model.unwrap_or_else(unknown),
            cpus: cpus.to_vec(),
            kernel: first_line("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            governor: first_line(&governor).unwrap_or_else(|| "none".to_owned()),
            commit: output(
                "git",
                &[
                    "-C",
                    env!("CARGO_MANIFEST_DIR"),
                    "describe",
                    "--always",
                    "--dirty",
                    "--abbrev=12",
                ],
            ),
            rustc: output("rustc", &["--version"]),
            load: first_line("/proc/loadavg").unwrap_or_else(unknown),
            started: since_1970.map_or(0, |duration| duration.as_secs()),
        }
    }
}

impl std::fmt::Display for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "machine: {}, CPUs {:?}, governor {}",
            self.cpu, self.cpus, self.governor
        )?;
        writeln!(f, "kernel:  {}; load {}", self.kernel, self.load)?;
        let build = if cfg!(debug_assertions) {
            "DEBUG BUILD, numbers mean nothing"
        } else {
            "optimised"
        };
        write!(
            f,
            "code:    commit {}; {}; {build}",
            self.commit, self.rustc
        )
    }
}

/// Version of `package` in the lock file that this binary was built with.
pub(crate) fn locked_version(package: &str) -> String {
    let lock = include_str!("../../../Cargo.lock");
    let mut lines = lock
        .lines()
        .skip_while(|line| *line != format!("name = \"{package}\""));
    let version = lines
        .nth(1)
        .and_then(|line| line.strip_prefix("version = "));
    version.map_or_else(unknown, |version| version.trim_matches('"').to_owned())
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.to_owned())
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success());
    output.map_or_else(unknown, |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}

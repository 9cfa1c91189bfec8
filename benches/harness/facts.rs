//! The machine and the versions that a number belongs to.

use std::process::Command;

/// Printed above every result and written into every JSON line.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// CPU model and the CPUs that the process may use.
    pub(crate) cpu: String,
    /// Kernel release.
    pub(crate) kernel: String,
    /// Commit of the working tree, with `-dirty` where files differ; "unknown" outside a repository.
    pub(crate) commit: String,
    /// Compiler that is on the path now; normally the one that built this binary.
    pub(crate) rustc: String,
    /// Load averages: says whether somebody else was using the machine.
    pub(crate) load: String,
}

impl Facts {
    /// Reads `/proc` and asks `git` and `rustc`; whatever is missing is "unknown".
    pub(crate) fn gather(cpus: &[usize]) -> Facts {
        let model = std::fs::read_to_string("/proc/cpuinfo")
            .ok()
            .and_then(|text| {
                let line = text
                    .lines()
                    .find(|line| line.starts_with("model name") || line.starts_with("CPU part"))?;
                Some(line.split_once(':')?.1.trim().to_owned())
            });
        Facts {
            cpu: format!("{}, allowed CPUs {cpus:?}", model.unwrap_or_else(unknown)),
            kernel: first_line("/proc/sys/kernel/osrelease"),
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
            load: first_line("/proc/loadavg"),
        }
    }
}

impl std::fmt::Display for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "machine: {}", self.cpu)?;
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

/// Version of `package` in the lock file, for the name of a rival.
pub(crate) fn locked_version(package: &str) -> String {
    let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock"))
        .unwrap_or_default();
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

fn first_line(path: &str) -> String {
    std::fs::read_to_string(path)
        .ok()
        .and_then(|text| Some(text.lines().next()?.to_owned()))
        .unwrap_or_else(unknown)
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

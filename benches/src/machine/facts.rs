//! The machine and the versions that a number belongs to.

use serde::{Deserialize, Serialize};

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
    /// Commit that this program was built of, with `-dirty` where its sources differed; "unknown" outside a repository.
    pub(crate) commit: String,
    /// Compiler that built this program.
    pub(crate) rustc: String,
    /// How it did.
    #[serde(default)]
    pub(crate) build: Build,
    /// Load averages at the start: says whether somebody else was using the machine.
    pub(crate) load: String,
    /// Seconds since 1970 at the start of the run.
    pub(crate) started: u64,
}

/// Settings that this program was built with, as its build script has found them; "unknown" in older files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Build {
    /// Profile of cargo.
    pub(crate) profile: String,
    /// Level of optimisation.
    pub(crate) opt_level: String,
    /// Optimisation at link time, and where that was set.
    pub(crate) lto: String,
    /// Codegen units of a crate, and where that was set.
    pub(crate) codegen_units: String,
    /// Further flags of the compiler.
    pub(crate) flags: String,
}

impl Build {
    fn of_this_program() -> Build {
        Build {
            profile: env!("URGO_BENCH_BUILD_PROFILE").to_owned(),
            opt_level: env!("URGO_BENCH_BUILD_OPT_LEVEL").to_owned(),
            lto: env!("URGO_BENCH_BUILD_LTO").to_owned(),
            codegen_units: env!("URGO_BENCH_BUILD_CODEGEN_UNITS").to_owned(),
            flags: env!("URGO_BENCH_BUILD_RUSTFLAGS").to_owned(),
        }
    }
}

impl Default for Build {
    fn default() -> Build {
        Build {
            profile: unknown(),
            opt_level: unknown(),
            lto: unknown(),
            codegen_units: unknown(),
            flags: unknown(),
        }
    }
}

impl std::fmt::Display for Build {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == Build::default() {
            return f.write_str("unknown");
        }
        let Build {
            profile,
            opt_level,
            lto,
            codegen_units,
            flags,
        } = self;
        write!(
            f,
            "profile {profile}, opt-level {opt_level}, LTO {lto}, codegen units {codegen_units}"
        )?;
        match flags.as_str() {
            "" => Ok(()),
            flags => write!(f, ", flags {flags}"),
        }
    }
}

impl Facts {
    /// Reads `/proc` and `/sys`, and what the build has written down; whatever is missing is "unknown".
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
            commit: env!("URGO_BENCH_BUILD_COMMIT").to_owned(),
            rustc: env!("URGO_BENCH_BUILD_RUSTC").to_owned(),
            build: Build::of_this_program(),
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
        writeln!(f, "code:    commit {}; {}", self.commit, self.rustc)?;
        write!(f, "build:   {}", self.build)?;
        if cfg!(debug_assertions) {
            f.write_str("; DEBUG BUILD, numbers mean nothing")?;
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_is_written_down() {
        let facts = Facts::gather(&[0]);
        assert!(facts.rustc.starts_with("rustc "), "{}", facts.rustc);
        let build = &facts.build;
        assert!(
            !build.profile.is_empty() && !build.lto.is_empty(),
            "{build}"
        );
        assert!(facts.to_string().contains(&build.to_string()));
        assert_eq!(Build::default().to_string(), "unknown");
    }
}

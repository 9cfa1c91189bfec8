//! Running one test of this binary again in a child process, for tests that must die.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

const CHILD: &str = "URGO_SYS_TEST_CHILD";

/// In the parent: runs the named test in a child with `argument`, and returns how the child ended. In the child: `None`.
pub(crate) fn child(test: &str, argument: &str) -> Option<Output> {
    child_with(test, argument, &[])
}

/// As [`child`], with more of an environment.
pub(crate) fn child_with(
    test: &str,
    argument: &str,
    environment: &[(&str, &str)],
) -> Option<Output> {
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, argument)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("running 1 test"), "no such test: {stdout}");
    Some(output)
}

/// In the child: what the parent passed.
pub(crate) fn argument() -> String {
    std::env::var(CHILD).unwrap()
}

/// The signal that ended the child.
pub(crate) fn death(output: &Output) -> Option<i32> {
    output.status.signal()
}

/// `setrlimit(RLIMIT_CORE, 0)`: a child that means to die leaves no file behind.
pub(crate) fn no_core_file() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none).unwrap();
}

/// A directory tree of a test's own, removed when dropped.
pub(crate) struct Tree {
    root: std::path::PathBuf,
}

impl Tree {
    pub(crate) fn new() -> Tree {
        use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "urgo-sys-test-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Relaxed)
        );
        let root = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&root).unwrap();
        Tree { root }
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.root
    }

    /// Writes a file, and the directories above it.
    pub(crate) fn file(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

//! What the test binaries of the runtime share: waiting for conditions, seeds, processes of their own, quiet panics.

#![allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "each test binary is its own crate and uses its own part"
)]

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

/// How long a promised condition may take before the test has failed. Not a measure of anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a condition that is promised to come, on a goroutine or on a plain thread.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "did not come: {what}");
        urgo::sleep(Duration::from_micros(500));
    }
}

/// A runtime with `workers` workers.
pub(crate) fn runtime(workers: usize) -> urgo::Runtime {
    urgo::Runtime::builder().workers(workers).build().unwrap()
}

/// A small generator (xorshift), so that a run can be repeated from its printed seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Less than `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }

    pub(crate) fn shuffle<T>(&mut self, values: &mut [T]) {
        for i in (1..values.len()).rev() {
            values.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// The seed of this run: `URGO_TEST_SEED`, or a new one, which is printed.
pub(crate) fn seed() -> u64 {
    let seed = match std::env::var("URGO_TEST_SEED") {
        Ok(text) => text.parse().expect("URGO_TEST_SEED is a number"),
        Err(_) => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.unwrap().as_nanos() as u64
        }
    };
    println!("URGO_TEST_SEED={seed}");
    seed
}

/// Panics whose message contains "planned" print nothing, so that real ones are seen.
pub(crate) fn hush_planned_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_planned = match info.payload_as_str() {
                Some(text) => text.contains("planned"),
                None => true,
            };
            if !is_planned {
                previous(info);
            }
        }));
    });
}

/// Counts how many of it are dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drops(Arc<AtomicUsize>);

impl Drops {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn guard(&self) -> DropGuard {
        DropGuard(self.0.clone())
    }
}

/// Adds one to its [`Drops`] when it goes.
#[derive(Debug)]
pub(crate) struct DropGuard(Arc<AtomicUsize>);

impl Drop for DropGuard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Calls a closure when it goes.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A list that everybody may add to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone> Log<T> {
    pub(crate) fn new() -> Log<T> {
        Log(Arc::new(Mutex::new(Vec::new())))
    }

    pub(crate) fn add(&self, entry: T) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).push(entry);
    }

    pub(crate) fn entries(&self) -> Vec<T> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).len()
    }
}

/// The message of a panic's payload.
pub(crate) fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
}

/// The panic message that `f` ends with.
#[track_caller]
pub(crate) fn panic_of<T>(f: impl FnOnce() -> T) -> String {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(_) => panic!("no panic came"),
        Err(payload) => message(&*payload).to_owned(),
    }
}

const MARK: &str = "URGO_TEST_ALONE";

/// Runs `body` in a fresh process that runs only the test `name`. In that process: `None`, after `body`. In the parent: how
/// the child ended and what it printed. A child that hangs is killed.
pub(crate) fn run_in_child(
    name: &str,
    environment: &[(&str, &str)],
    body: impl FnOnce(),
) -> Option<Output> {
    run_in_child_within(PATIENCE, name, environment, body)
}

/// As [`run_in_child`], for a child that takes its time.
pub(crate) fn run_in_child_within(
    patience: Duration,
    name: &str,
    environment: &[(&str, &str)],
    body: impl FnOnce(),
) -> Option<Output> {
    if std::env::var(MARK).is_ok_and(|mark| mark == name) {
        body();
        return None;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(MARK, name)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id();
    let is_over = Arc::new((Mutex::new(false), std::sync::Condvar::new()));
    let watched = is_over.clone();
    let watchdog = std::thread::spawn(move || {
        let (over, changed) = &*watched;
        let guard = over.lock().unwrap();
        let (over, _) = changed
            .wait_timeout_while(guard, patience, |over| !*over)
            .unwrap();
        if !*over {
            eprintln!("the child process hangs and is killed");
            // SAFETY: the child is not reaped before `is_over` is set under the lock that is held here, so the id is its own.
            unsafe { libc::kill(id as libc::pid_t, libc::SIGKILL) };
        }
    });
    let read = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        })
    };
    let stdout = read(child.stdout.take().map(|p| Box::new(p) as _));
    let stderr = read(child.stderr.take().map(|p| Box::new(p) as _));
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    *is_over.0.lock().unwrap() = true;
    is_over.1.notify_all();
    watchdog.join().unwrap();
    let status = child.wait().unwrap();
    Some(Output {
        status,
        stdout,
        stderr,
    })
}

/// As [`run_in_child`], for a child that must pass its test.
#[track_caller]
pub(crate) fn run_alone(name: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    let Some(output) = run_in_child(name, environment, body) else {
        return;
    };
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{}\n{stdout}\n{stderr}",
        output.status
    );
    assert!(
        stdout.contains("1 passed"),
        "no test is called {name}\n{stdout}"
    );
    for line in stdout.lines().filter(|line| line.starts_with("note:")) {
        println!("{line}");
    }
}

/// The name under which the test harness knows the test function that this stands in.
macro_rules! test_name {
    () => {{
        fn here() {}
        let path = std::any::type_name_of_val(&here);
        let path = path.strip_suffix("::here").unwrap_or(path);
        path.split_once("::").map_or(path, |(_, name)| name)
    }};
}

/// Runs a test's body in a process of its own, which must pass.
macro_rules! alone {
    ($body:expr) => {
        $crate::support::run_alone($crate::support::test_name!(), &[], $body)
    };
    ($environment:expr, $body:expr) => {
        $crate::support::run_alone($crate::support::test_name!(), $environment, $body)
    };
}

/// Runs a test's body in a process of its own; in the parent: how it ended.
macro_rules! in_child {
    ($body:expr) => {
        $crate::support::run_in_child($crate::support::test_name!(), &[], $body)
    };
    ($environment:expr, $body:expr) => {
        $crate::support::run_in_child($crate::support::test_name!(), $environment, $body)
    };
}

pub(crate) use {alone, in_child, test_name};

//! A goroutine that keeps its worker is named, and said what it does: the std lock that is held across a wait above all. Every
//! stuck program here is a process of its own, which its parent lets go on, or kills, when it has read the report.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use urgo::go::Builder;

use crate::support::{PATIENCE, runtime, test_name, wait_until};

const MARK: &str = "URGO_TEST_WATCHED";
const VARIABLE: &str = "URGO_REPORT_STUCK";
/// How a stuck goroutine makes itself known to the parent.
const ME: &str = "it is me: ";

/// A child process that runs one test's body.
struct Watched {
    child: Child,
    stderr: Receiver<String>,
    heard: Vec<String>,
}

/// In the child, `None`, after `body`; in the parent, the child, in which goroutines may keep their worker for `limit`
/// milliseconds.
fn start(name: &str, limit: Option<&str>, body: impl FnOnce()) -> Option<Watched> {
    if std::env::var(MARK).is_ok_and(|mark| mark == name) {
        body();
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(MARK, name)
        .env_remove(VARIABLE)
        .envs(limit.map(|limit| (VARIABLE, limit)))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (lines, stderr) = channel();
    let pipe = BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || {
        for line in pipe.lines() {
            let _ = lines.send(line.unwrap());
        }
    });
    Some(Watched {
        child,
        stderr,
        heard: Vec::new(),
    })
}

macro_rules! watched {
    ($limit:expr, $body:expr) => {
        start(test_name!(), $limit, $body)
    };
}

impl Watched {
    /// The child's next line, or `None` at its end.
    fn next_line(&mut self) -> Option<String> {
        use std::sync::mpsc::RecvTimeoutError::Timeout;
        match self.stderr.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.heard.push(line.clone());
                Some(line)
            }
            Err(Timeout) => panic!("the child says no more:\n{}", self.heard.join("\n")),
            Err(_) => None,
        }
    }

    /// Reads on to a line that contains `part`.
    fn line_with(&mut self, part: &str) -> String {
        loop {
            match self.next_line() {
                Some(line) if line.contains(part) => return line,
                Some(_) => {}
                None => panic!("no line with \"{part}\":\n{}", self.heard.join("\n")),
            }
        }
    }

    /// The goroutine that made itself known, and then the report on it.
    fn culprit_and_report(&mut self) -> (String, String) {
        let culprit = self.line_with(ME);
        let culprit = culprit.split_once(ME).unwrap().1.to_owned();
        let report = self.line_with("is stuck: ");
        assert!(
            report.contains(&format!(" is stuck: {culprit} has kept it for ")),
            "{culprit}\n{report}"
        );
        (culprit, report)
    }

    /// Closes the child's standard input, which its goroutine waits for.
    fn let_go(&mut self) {
        drop(self.child.stdin.take().unwrap());
    }

    /// How the child ended, and all that it said.
    fn end(mut self) -> (ExitStatus, String) {
        while self.next_line().is_some() {}
        (self.child.wait().unwrap(), self.heard.join("\n"))
    }

    fn end_well(self) -> String {
        let (status, heard) = self.end();
        assert!(status.success(), "{status}\n{heard}");
        heard
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // One that has ended by itself is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn make_known() {
    eprintln!("{ME}{}", urgo::current());
}

fn wait_for_the_parent() {
    assert_eq!(std::io::stdin().read(&mut [0]).unwrap(), 0);
}

trait Lock: Send + Sync + 'static {
    fn with(&self, f: impl FnOnce());
}

impl Lock for Mutex<()> {
    fn with(&self, f: impl FnOnce()) {
        let _guard = self.lock().unwrap();
        f();
    }
}

impl Lock for urgo::sync::Mutex<()> {
    fn with(&self, f: impl FnOnce()) {
        let _guard = self.lock();
        f();
    }
}

/// One goroutine yields with the lock in hand until the other, on the same worker, is about to lock it.
fn held_over_a_yield(lock: impl Lock) {
    let (lock, is_wanted) = (Arc::new(lock), Arc::new(AtomicBool::new(false)));
    runtime(1).run(move || {
        let (its_lock, its_wanted) = (lock.clone(), is_wanted.clone());
        let (tell, told) = urgo::chan::oneshot();
        let holder = urgo::spawn(move || {
            its_lock.with(|| {
                tell.send(()).unwrap();
                while !its_wanted.load(Ordering::Relaxed) {
                    urgo::yield_now();
                }
            });
        });
        told.recv().unwrap();
        let waiter = Builder::new().name("waiter");
        let waiter = waiter.spawn(move || {
            make_known();
            is_wanted.store(true, Ordering::Relaxed);
            lock.with(|| ());
        });
        holder.join().unwrap();
        waiter.unwrap().join().unwrap();
    });
}

/// Scenario 63.
#[test]
fn a_std_mutex_held_over_a_yield_is_reported_with_the_goroutine_that_waits_for_it() {
    let body = || held_over_a_yield(Mutex::new(()));
    let Some(mut child) = watched!(Some("50"), body) else {
        return;
    };
    let (culprit, report) = child.culprit_and_report();
    assert!(culprit.contains(" 'waiter' spawned at "), "{culprit}");
    assert!(culprit.contains("held_across.rs:"), "{culprit}");
    assert!(report.contains("urgo: worker 0 (thread "), "{report}");
    assert!(report.contains(" in futex(2) on 0x"), "{report}");
    assert!(report.contains("urgo::sync::Mutex"), "{report}");
}

/// Scenario 63, the cure.
#[test]
fn the_same_program_with_urgos_mutex_comes_to_its_end() {
    let body = || held_over_a_yield(urgo::sync::Mutex::new(()));
    if let Some(child) = watched!(Some("50"), body) {
        let heard = child.end_well();
        assert!(heard.contains(ME), "{heard}");
    }
}

#[test]
fn a_sleep_of_std_is_reported_as_a_system_call() {
    let body = || {
        runtime(1).run(|| {
            make_known();
            std::thread::sleep(PATIENCE * 10);
        });
    };
    let Some(mut child) = watched!(Some("50"), body) else {
        return;
    };
    let (culprit, report) = child.culprit_and_report();
    assert!(
        culprit.contains("goroutine 0 'main' spawned at "),
        "{culprit}"
    );
    assert!(report.contains("nanosleep"), "{report}");
    assert!(report.contains("urgo::blocking"), "{report}");
}

/// Also: a goroutine that starts on the stack of one that has just ended is known as itself.
#[test]
fn a_blocking_read_is_reported_and_so_is_its_end() {
    let body = || {
        runtime(1).run(|| {
            for _ in 0..4 {
                drop(urgo::spawn(|| ()));
            }
            let reader = urgo::spawn(|| {
                make_known();
                wait_for_the_parent();
            });
            reader.join().unwrap();
        });
    };
    let Some(mut child) = watched!(Some("50"), body) else {
        return;
    };
    let (culprit, report) = child.culprit_and_report();
    assert!(report.contains(" (read): "), "{report}");
    child.let_go();
    let end = child.line_with("urgo: worker 0 goes on: ");
    assert!(
        end.contains(&format!(" goes on: {culprit} let go of it after ")),
        "{end}"
    );
    let heard = child.end_well();
    assert_eq!(
        heard.matches(&format!("{culprit} has kept it")).count(),
        1,
        "{heard}"
    );
}

/// Two goroutines of one worker let each other run, for the most part by switches from stack to stack; of these two tests, one
/// has a culprit that was never dispatched from the host stack after the first time.
fn one_of_two(is_culprit_first: bool) {
    runtime(1).run(move || {
        let (turns, is_over) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (its_turns, its_over) = (turns.clone(), is_over.clone());
        let culprit = move || {
            while its_turns.load(Ordering::Relaxed) < 100 {
                urgo::yield_now();
            }
            make_known();
            wait_for_the_parent();
            its_over.store(true, Ordering::Relaxed);
        };
        let other = move || {
            while !is_over.load(Ordering::Relaxed) {
                turns.fetch_add(1, Ordering::Relaxed);
                urgo::yield_now();
            }
        };
        let both = if is_culprit_first {
            [urgo::spawn(culprit), urgo::spawn(other)]
        } else {
            [urgo::spawn(other), urgo::spawn(culprit)]
        };
        for goroutine in both {
            goroutine.join().unwrap();
        }
    });
}

#[test]
fn the_first_of_two_that_switch_is_known_as_itself() {
    if let Some(mut child) = watched!(Some("50"), || one_of_two(true)) {
        child.culprit_and_report();
        child.let_go();
        child.end_well();
    }
}

#[test]
fn the_second_of_two_that_switch_is_known_as_itself() {
    if let Some(mut child) = watched!(Some("50"), || one_of_two(false)) {
        child.culprit_and_report();
        child.let_go();
        child.end_well();
    }
}

#[test]
fn a_loop_that_computes_is_reported_and_so_is_its_end() {
    let body = || {
        let is_over = Arc::new(AtomicBool::new(false));
        let its_over = is_over.clone();
        let parent = std::thread::spawn(move || {
            wait_for_the_parent();
            its_over.store(true, Ordering::Relaxed);
        });
        runtime(1).run(move || {
            make_known();
            while !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        parent.join().unwrap();
    };
    let Some(mut child) = watched!(Some("50"), body) else {
        return;
    };
    let (culprit, report) = child.culprit_and_report();
    assert!(report.contains(" ms, computing: "), "{report}");
    assert!(report.contains("urgo::yield_now()"), "{report}");
    child.let_go();
    // Said even if the runtime ends right after.
    let end = child.line_with("urgo: worker 0 goes on: ");
    assert!(end.contains(&culprit), "{end}");
    child.end_well();
}

/// The goroutine holds std's lock on standard error, so that whoever prints through it waits.
#[test]
fn the_report_does_not_need_the_lock_on_standard_error() {
    let body = || {
        runtime(1).run(|| {
            make_known();
            let _stderr = std::io::stderr().lock();
            wait_for_the_parent();
        });
    };
    let Some(mut child) = watched!(Some("50"), body) else {
        return;
    };
    child.culprit_and_report();
    child.let_go();
    child.end_well();
}

/// Goroutines that yield, wait, sleep, spawn and block in the pool, for many times the limit, which is large, since a goroutine
/// may be charged for what a hypervisor takes away.
fn healthy() {
    let until = Instant::now() + Duration::from_millis(1500);
    let (sender, receiver) = urgo::chan::unbounded::<()>();
    runtime(2).run(move || {
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let receiver = receiver.clone();
                urgo::spawn(move || receiver.recv().unwrap_err())
            })
            .collect();
        let busy: Vec<_> = (0..6)
            .map(|number| {
                urgo::spawn(move || {
                    while Instant::now() < until {
                        match number {
                            0 => urgo::spawn(|| ()).join().unwrap(),
                            1 => urgo::sleep(Duration::from_millis(1)),
                            _ => urgo::yield_now(),
                        }
                    }
                })
            })
            .collect();
        urgo::blocking(move || std::thread::sleep(until - Instant::now()));
        for goroutine in busy {
            goroutine.join().unwrap();
        }
        // Nothing runs now: the workers sleep.
        urgo::sleep(Duration::from_millis(700));
        drop(sender);
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

#[test]
fn a_busy_runtime_whose_goroutines_let_each_other_run_is_not_reported() {
    if let Some(child) = watched!(Some("300"), healthy) {
        let heard = child.end_well();
        assert!(!heard.contains("urgo: "), "{heard}");
    }
}

/// How many threads of this process are called `urgo-watch`.
fn watch_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter(|task| {
            let comm = task.as_ref().unwrap().path().join("comm");
            // One that ends meanwhile has no name.
            std::fs::read_to_string(comm).is_ok_and(|name| name.trim() == "urgo-watch")
        })
        .count()
}

/// The limit is an hour, so that one that is not woken shows.
#[test]
fn the_watch_thread_ends_with_its_runtime() {
    let body = || {
        for _ in 0..20 {
            runtime(2).run(|| {
                // A thread names itself.
                wait_until("the watch thread", || watch_threads() == 1);
            });
            // A thread that was joined is listed for an instant longer.
            wait_until("its end", || watch_threads() == 0);
        }
    };
    if let Some(child) = watched!(Some("3600000"), body) {
        child.end_well();
    }
}

#[test]
fn no_watch_thread_is_left_of_a_runtime_that_could_not_start() {
    let body = || {
        // Before the limit, which leaves no descriptor for a ring.
        let tasks = || urgo_sys::memory::thread_count().unwrap();
        let before = tasks();
        let mut old = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: both point to records of this frame.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut old), 0);
            let nothing = libc::rlimit { rlim_cur: 0, ..old };
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &nothing), 0);
        }
        let refused = urgo::Runtime::builder().workers(2).build();
        // SAFETY: as above.
        unsafe { assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &old), 0) };
        assert!(refused.is_err());
        wait_until("the threads to be gone", || tasks() == before);
    };
    if let Some(child) = watched!(Some("3600000"), body) {
        child.end_well();
    }
}

#[test]
fn nobody_watches_unless_asked_to() {
    let body = || runtime(2).run(|| assert_eq!(watch_threads(), 0));
    if let Some(child) = watched!(None, body) {
        assert!(!child.end_well().contains("urgo: "));
    }
}

#[test]
fn a_limit_that_is_no_number_is_said_to_be_ignored() {
    let body = || runtime(1).run(|| assert_eq!(watch_threads(), 0));
    if let Some(mut child) = watched!(Some("soon"), body) {
        child.line_with("urgo: URGO_REPORT_STUCK is ignored: ");
        child.end_well();
    }
}

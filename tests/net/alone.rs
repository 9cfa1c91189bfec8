//! Tests that look at the whole process, each in a process of its own.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::process::Command;

use urgo::net::{Shutdown, TcpStream};

use crate::side::{Side, listen, on_both, on_goroutines, pair};

/// Runs `body` in a fresh process that runs only the test `name`.
fn alone(name: &str, body: impl FnOnce()) {
    const MARK: &str = "URGO_TEST_ALONE";
    if std::env::var_os(MARK).is_some() {
        return body();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(MARK, "1")
        .output()
        .unwrap();
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
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_thousand_connections_leave_no_descriptor() {
    alone("alone::a_thousand_connections_leave_no_descriptor", || {
        on_both(|side| {
            let listener = listen();
            let address = listener.local_addr().unwrap();
            let round = |number: usize| {
                let client = TcpStream::connect(address).unwrap();
                let (server, _) = listener.accept().unwrap();
                let copy = server.try_clone().unwrap();
                match number % 4 {
                    0 => client.close().unwrap(),
                    1 => copy.close().unwrap(),
                    2 => drop(std::net::TcpStream::from(server)),
                    _ => {}
                }
            };
            for number in 0..8 {
                round(number);
            }
            let before = open_descriptors();
            for number in 0..1000 {
                round(number);
            }
            assert_eq!(open_descriptors(), before, "{side:?}");
        });
    });
}

#[test]
fn a_write_to_a_peer_that_is_gone_is_an_error_and_no_signal() {
    alone(
        "alone::a_write_to_a_peer_that_is_gone_is_an_error_and_no_signal",
        || {
            // SAFETY: sets the default disposition; std ignores the signal otherwise.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
            on_both(|side| {
                for is_vectored in [false, true] {
                    let (mut client, server) = pair();
                    drop(server);
                    let mut write = || match is_vectored {
                        false => client.write(b"to nobody"),
                        true => client.write_vectored(&[
                            std::io::IoSlice::new(b"to"),
                            std::io::IoSlice::new(b"nobody"),
                        ]),
                    };
                    let mut error = None;
                    side.wait_until("the error", || {
                        error = write().err();
                        error.is_some()
                    });
                    let error = error.unwrap();
                    assert!(
                        matches!(
                            error.kind(),
                            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                        ),
                        "{error:?} on {side:?}"
                    );
                    assert_eq!(
                        write().unwrap_err().kind(),
                        ErrorKind::BrokenPipe,
                        "{side:?}"
                    );
                }
            });
        },
    );
}

extern "C" fn ignore(_: libc::c_int) {}

#[test]
fn a_signal_never_surfaces_as_interrupted() {
    alone("alone::a_signal_never_surfaces_as_interrupted", || {
        // SAFETY: an empty handler is async-signal-safe; no flags, so system calls are not restarted.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as usize;
            assert_eq!(
                libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()),
                0
            );
        }
        on_goroutines(interrupted_calls);
        interrupted_calls(Side::Threads);
    });
}

/// Every kind of waiting call while all threads of the process but the sender's are signalled.
fn interrupted_calls(side: Side) {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    let is_over = Arc::new(AtomicBool::new(false));
    let sender = {
        let is_over = Arc::clone(&is_over);
        std::thread::spawn(move || {
            // SAFETY: `gettid`, `getpid` take nothing; `tgkill` names a thread of this process, or fails with ESRCH.
            let (own, process) = unsafe { (libc::gettid(), libc::getpid()) };
            let mut sent = 0_u64;
            while !is_over.load(SeqCst) {
                for entry in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
                    let thread: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
                    if thread != own {
                        // SAFETY: as above.
                        let signalled = unsafe {
                            libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1)
                        };
                        sent += u64::from(signalled == 0);
                    }
                }
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
            sent
        })
    };
    let listener = listen();
    let address = listener.local_addr().unwrap();
    let echo = side.spawn(move || {
        for _ in 0..20 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = vec![0; 64 * 1024];
            loop {
                let count = stream.read(&mut buffer).unwrap();
                if count == 0 {
                    break;
                }
                let written = stream.write(&buffer[..count]).unwrap();
                assert_eq!(written, count);
            }
        }
    });
    for _ in 0..20 {
        side.sleep(std::time::Duration::from_millis(2));
        let stream = Arc::new(TcpStream::connect(address).unwrap());
        let writer = {
            let stream = Arc::clone(&stream);
            side.spawn(move || {
                for _ in 0..20 {
                    let mut rest = &[7_u8; 300_000][..];
                    while !rest.is_empty() {
                        rest = &rest[(&*stream).write(rest).unwrap()..];
                    }
                }
                stream.shutdown(Shutdown::Write).unwrap();
            })
        };
        let (mut total, mut buffer) = (0, vec![0; 8192]);
        loop {
            match (&*stream).read(&mut buffer).unwrap() {
                0 => break,
                count => total += count,
            }
        }
        assert_eq!(total, 20 * 300_000);
        writer.join();
        assert!(stream.as_raw_fd() >= 0);
    }
    echo.join();
    is_over.store(true, SeqCst);
    let sent = sender.join().unwrap();
    assert!(sent > 20, "only {sent} signals were sent");
}

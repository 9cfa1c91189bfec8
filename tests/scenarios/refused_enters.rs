//! A kernel that refuses to take what was submitted, again and again.
//!
//! The runtime's threads run under a filter that asks a thread of the test about every `io_uring_enter`; that thread lets
//! it through or answers with an errno in the kernel's stead, as the kernel does before it has taken anything.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::streams::pair;
use crate::support::{Random, alone, seed};

/// `_IOWR('!', 0, struct seccomp_notif)` and `_IOWR('!', 1, struct seccomp_notif_resp)`.
const NOTIF_RECV: libc::c_ulong = 0xc050_2100;
const NOTIF_SEND: libc::c_ulong = 0xc018_2101;

/// Puts this thread, and those that it starts, under the filter. Returns where to listen.
fn listen_to_enters() -> OwnedFd {
    let op = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let enter = libc::SYS_io_uring_enter as u32;
    let mut filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, enter),
        op(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_USER_NOTIF,
        ),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its filter are alive for the call; the kernel copies them, and returns a descriptor of ours.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let fd = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        );
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd as i32)
    }
}

/// Answers for the kernel until `is_over`: while `is_on`, about every third submission is refused.
fn answer(
    listener: &OwnedFd,
    mut random: Random,
    is_on: &AtomicBool,
    is_over: &AtomicBool,
) -> usize {
    let mut refused = 0;
    while !is_over.load(Ordering::SeqCst) {
        let mut interest = libc::pollfd {
            fd: listener.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: three structs of ours, as long as the kernel's; it fills in and reads them.
        unsafe {
            if libc::poll(&mut interest, 1, 20) <= 0 || interest.revents & libc::POLLIN == 0 {
                continue;
            }
            let mut asked: libc::seccomp_notif = std::mem::zeroed();
            if libc::ioctl(listener.as_raw_fd(), NOTIF_RECV, &raw mut asked) != 0 {
                // The asker was interrupted.
                continue;
            }
            let mut answer: libc::seccomp_notif_resp = std::mem::zeroed();
            answer.id = asked.id;
            let submits = asked.data.args[1] > 0;
            if submits && is_on.load(Ordering::SeqCst) && random.below(3) == 0 {
                refused += 1;
                let errno = [libc::EAGAIN, libc::EBUSY][random.below(2) as usize];
                answer.error = -errno;
            } else {
                answer.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
            }
            libc::ioctl(listener.as_raw_fd(), NOTIF_SEND, &raw mut answer);
        }
    }
    refused
}

const POISON: u8 = 0xAA;

/// Reads with deadlines into fresh buffers; what the kernel has let go of is poisoned and kept for a while.
fn read_sequence(mut stream: urgo::net::TcpStream, bytes: usize, mut random: Random) {
    let mut kept: VecDeque<Vec<u8>> = VecDeque::new();
    let mut next = 0;
    while next < bytes {
        let limit = Duration::from_micros(50 + random.below(2000));
        stream.set_read_timeout(Some(limit)).unwrap();
        let mut buffer = vec![POISON; 16];
        match stream.read(&mut buffer) {
            Ok(count) => {
                assert_ne!(count, 0, "the writer is still there");
                for &byte in &buffer[..count] {
                    assert_eq!(usize::from(byte), next % 100);
                    next += 1;
                }
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
        }
        buffer.fill(POISON);
        kept.push_back(buffer);
        if kept.len() > 32 {
            let old = kept.pop_front().unwrap();
            assert!(old.iter().all(|&byte| byte == POISON), "{old:?}");
        }
    }
    assert!(kept.iter().flatten().all(|&byte| byte == POISON));
}

/// Scenario 9.
#[test]
fn refused_submissions_lose_nothing_and_touch_no_buffer_that_was_given_back() {
    const BYTES: usize = 400;
    let seed = seed();
    alone!(&[("URGO_TEST_SEED", &seed.to_string())], || {
        let random = Random::new(crate::support::seed());
        let (is_on, is_over) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (give, get) = std::sync::mpsc::channel::<OwnedFd>();
        let answering = {
            let (random, is_on, is_over) = (random.clone(), is_on.clone(), is_over.clone());
            std::thread::spawn(move || answer(&get.recv().unwrap(), random, &is_on, &is_over))
        };
        let running = std::thread::spawn(move || {
            give.send(listen_to_enters()).unwrap();
            let builder = urgo::Runtime::builder().workers(2).ring_entries(4);
            let runtime = builder.build().unwrap();
            // Set-up is another matter: it fails by a typed error.
            is_on.store(true, Ordering::SeqCst);
            runtime.run(move || {
                let mut random = random;
                let done = Arc::new(AtomicUsize::new(0));
                let handles: Vec<_> = (0..24)
                    .map(|_| {
                        let (stream, other) = pair();
                        let (mut dice, done) = (random.clone(), done.clone());
                        random.next();
                        let reading = dice.clone();
                        drop(urgo::spawn(move || {
                            let mut other = urgo::net::TcpStream::from(OwnedFd::from(other));
                            let mut next = 0;
                            while next < BYTES {
                                let count = (1 + dice.below(24) as usize).min(BYTES - next);
                                let burst: Vec<u8> =
                                    (next..next + count).map(|at| (at % 100) as u8).collect();
                                other.write_all(&burst).unwrap();
                                next += count;
                                urgo::sleep(Duration::from_micros(dice.below(1500)));
                            }
                            // Open until the reader has all.
                            other.read(&mut [0])
                        }));
                        urgo::spawn(move || {
                            read_sequence(stream, BYTES, reading);
                            done.fetch_add(1, Ordering::SeqCst);
                        })
                    })
                    .collect();
                for handle in handles {
                    handle.join().unwrap();
                }
                assert_eq!(done.load(Ordering::SeqCst), 24);
            });
        });
        let result = running.join();
        is_over.store(true, Ordering::SeqCst);
        let refused = answering.join().unwrap();
        println!("note: {refused} submissions were refused");
        result.unwrap();
        assert!(refused > 20, "only {refused} submissions were refused");
    });
}

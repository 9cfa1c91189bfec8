//! A runtime that cannot be had is a typed error that names cause and remedy, and leaves nothing behind.

use std::os::fd::AsRawFd;

use urgo::{BuildError, Runtime};
use urgo_sys::memory::{fd_count, thread_count};

use crate::support::{alone, wait_until};

/// Makes `io_uring_setup` fail with `errno` in this process from now on.
fn deny_io_uring(errno: u16) {
    let op = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let mut filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_io_uring_setup as u32,
        ),
        op(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | u32::from(errno),
        ),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its filter are alive for the call; the kernel copies them. The flag makes all threads obey.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let result = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        );
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }
}

/// Limits `resource` to `soft`, for good.
fn limit(resource: libc::__rlimit_resource_t, soft: u64) {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: soft,
    };
    // SAFETY: the struct is alive for the call.
    let result = unsafe { libc::setrlimit(resource, &limit) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[track_caller]
fn assert_nothing_left(before: (usize, usize)) {
    wait_until("threads to be gone", || thread_count().unwrap() <= before.1);
    assert_eq!((fd_count().unwrap(), thread_count().unwrap()), before);
}

fn refused_by_seccomp(errno: i32, says: &[&str]) {
    let before = (fd_count().unwrap(), thread_count().unwrap());
    deny_io_uring(errno as u16);
    for _ in 0..3 {
        let error = Runtime::builder().workers(2).build().unwrap_err();
        assert!(matches!(error, BuildError::Ring(_)), "{error:?}");
        let text = error.to_string();
        for part in says {
            assert!(text.contains(part), "{part:?} is not in: {text}");
        }
    }
    assert_nothing_left(before);
    // The short road says the same in its panic.
    crate::support::hush_planned_panics();
    let said = crate::support::panic_of(|| urgo::run(|| ()));
    assert!(said.contains("io_uring"), "{said}");
}

#[test]
fn seccomp_that_forbids_io_uring_is_named() {
    alone!(|| refused_by_seccomp(libc::EPERM, &["io_uring", "seccomp"]));
}

#[test]
fn seccomp_that_hides_io_uring_is_named() {
    alone!(|| refused_by_seccomp(libc::ENOSYS, &["io_uring"]));
}

#[test]
fn with_little_lockable_memory_it_runs_or_says_so() {
    alone!(|| {
        limit(libc::RLIMIT_MEMLOCK, 64 * 1024);
        match Runtime::builder().workers(2).build() {
            Ok(runtime) => assert_eq!(runtime.run(|| urgo::spawn(|| 5).join().unwrap()), 5),
            Err(error) => {
                let text = error.to_string();
                assert!(matches!(error, BuildError::Ring(_)), "{text}");
                assert!(
                    text.contains("memlock") || text.contains("MEMLOCK"),
                    "{text}"
                );
            }
        }
    });
}

#[test]
fn without_descriptors_the_error_is_typed_and_nothing_is_left() {
    alone!(|| {
        let before = (fd_count().unwrap(), thread_count().unwrap());
        // Room for `n` more descriptors: with fewer than two workers need, the first failure undoes the rest. The limit is
        // one on numbers, of which the lowest free one comes next.
        let free = std::fs::File::open("/dev/null").unwrap().as_raw_fd() as u64;
        for n in [0, 1] {
            let limit = libc::rlimit {
                rlim_cur: free + n,
                rlim_max: 4096,
            };
            // SAFETY: the struct is alive for the call.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
            let error = Runtime::builder().workers(2).build().unwrap_err();
            let text = error.to_string();
            assert!(
                matches!(error, BuildError::Ring(_) | BuildError::EventFd(_)),
                "{error:?}"
            );
            assert!(
                text.contains("ulimit -n") || text.contains("NOFILE"),
                "{text}"
            );
        }
        let limit = libc::rlimit {
            rlim_cur: 4096,
            rlim_max: 4096,
        };
        // SAFETY: the struct is alive for the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
        assert_nothing_left(before);
        assert_eq!(Runtime::builder().workers(2).build().unwrap().run(|| 5), 5);
    });
}

#[test]
fn without_threads_the_error_is_typed_and_nothing_is_left() {
    alone!(|| {
        // Root is not bound by the limit, so the process becomes somebody else, in a child made for it.
        // SAFETY: plain calls; this process only runs this test.
        let is_other = unsafe { libc::getuid() != 0 || libc::setuid(65_534) == 0 };
        limit(libc::RLIMIT_NPROC, 1);
        if !is_other || std::thread::Builder::new().spawn(|| ()).is_ok() {
            println!("note: skipped, this user is not bound by RLIMIT_NPROC");
            return;
        }
        let before = (fd_count().unwrap(), thread_count().unwrap());
        let error = Runtime::builder().workers(2).build().unwrap_err();
        assert!(matches!(error, BuildError::Thread(_)), "{error:?}");
        assert!(error.to_string().contains("ulimit -u"), "{error}");
        assert_nothing_left(before);
    });
}

/// A blocking call for which no thread can be had is made all the same.
#[test]
fn a_blocking_call_without_a_thread_to_be_had_is_made_on_the_worker() {
    alone!(|| {
        // SAFETY: as in the test above.
        let is_other = unsafe { libc::getuid() != 0 || libc::setuid(65_534) == 0 };
        let runtime = Runtime::builder().workers(1).build().unwrap();
        limit(libc::RLIMIT_NPROC, 1);
        if !is_other || std::thread::Builder::new().spawn(|| ()).is_ok() {
            println!("note: skipped, this user is not bound by RLIMIT_NPROC");
            return;
        }
        assert_eq!(runtime.run(|| urgo::blocking(|| 5)), 5);
    });
}

#[test]
fn options_out_of_range_are_typed() {
    let option = |builder: urgo::Builder, name: &str| {
        let error = builder.build().unwrap_err();
        assert!(
            matches!(error, BuildError::InvalidOption { option, .. } if option == name),
            "{error:?}"
        );
        assert!(error.to_string().contains(name), "{error}");
    };
    option(Runtime::builder().workers(0), "workers");
    option(Runtime::builder().stack_size(0), "stack_size");
    option(Runtime::builder().stack_size((1 << 30) + 1), "stack_size");
    option(Runtime::builder().ring_entries(0), "ring_entries");
    option(Runtime::builder().ring_entries(32_769), "ring_entries");
    option(Runtime::builder().blocking_threads(0), "blocking_threads");
    assert!(matches!(
        Runtime::builder().cpus(&[]).build(),
        Err(BuildError::NoCpus)
    ));
}

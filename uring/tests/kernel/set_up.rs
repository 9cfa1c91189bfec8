//! Hosts that say no, and hosts that can do less.

use urgo_uring::{Capabilities, Config, Ring, SetupError, opcode};

use crate::harness::*;

/// Makes the kernel answer `errno` to system call `number`, in the whole process, for good.
fn filter(number: libc::c_long, errno: i32) {
    const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let op = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        op(LOAD_WORD, 0, 0, 0),
        op(JUMP_IF_EQUAL, number as u32, 0, 1),
        op(RETURN, libc::SECCOMP_RET_ERRNO | errno as u32, 0, 0),
        op(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: because the program is a valid local array that the kernel copies during the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let installed = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        );
        assert_eq!(installed, 0);
    }
}

fn refusal() -> SetupError {
    Ring::new(&Config::default()).expect_err("the filter refuses")
}

#[test]
fn a_seccomp_filter_is_named_as_the_cause() {
    in_child(
        "set_up::a_seccomp_filter_is_named_as_the_cause",
        &[],
        || {
            filter(libc::SYS_io_uring_setup, libc::EPERM);
            let error = refusal();
            assert_eq!(
                error,
                SetupError::NotPermitted {
                    is_filtered: Some(true)
                }
            );
            assert!(error.to_string().contains("not permitted"), "{error}");
        },
    );
}

#[test]
fn a_filter_on_enter_alone_is_found_at_set_up() {
    in_child(
        "set_up::a_filter_on_enter_alone_is_found_at_set_up",
        &[],
        || {
            filter(libc::SYS_io_uring_enter, libc::EPERM);
            assert_eq!(
                refusal(),
                SetupError::NotPermitted {
                    is_filtered: Some(true)
                }
            );
        },
    );
}

#[test]
fn a_host_that_hides_io_uring_is_told_apart() {
    in_child(
        "set_up::a_host_that_hides_io_uring_is_told_apart",
        &[],
        || {
            filter(libc::SYS_io_uring_setup, libc::ENOSYS);
            assert_eq!(refusal(), SetupError::NotImplemented);
        },
    );
}

fn lower(resource: libc::__rlimit_resource_t, to: u64) {
    let limit = libc::rlimit {
        rlim_cur: to,
        rlim_max: to,
    };
    // SAFETY: because the pointer is to a local.
    assert_eq!(unsafe { libc::setrlimit(resource, &limit) }, 0);
}

#[test]
fn running_out_of_descriptors_is_named() {
    in_child("set_up::running_out_of_descriptors_is_named", &[], || {
        lower(libc::RLIMIT_NOFILE, 16);
        let mut rings = Vec::new();
        let error = loop {
            match Ring::new(&Config::default()) {
                Ok(ring) => rings.push(ring),
                Err(error) => break error,
            }
        };
        assert_eq!(
            error,
            SetupError::OutOfDescriptors {
                limit: Some(16),
                system_wide: false
            }
        );
        assert!(!rings.is_empty());
    });
}

#[test]
fn a_tight_locked_memory_limit_makes_a_smaller_ring_or_is_named() {
    in_child(
        "set_up::a_tight_locked_memory_limit_makes_a_smaller_ring_or_is_named",
        &[],
        || {
            // Enough for some ring, too little for this one.
            lower(libc::RLIMIT_MEMLOCK, 128 << 10);
            // SAFETY: because it only gives up privileges, root's exemption from the limit among them.
            unsafe { libc::setuid(65534) };
            let config = Config {
                entries: 4096,
                ..Config::default()
            };
            let mut ring = Ring::new(&config).expect("a smaller ring fits");
            let token = start(&mut ring, urgo_uring::Kind::OneShot, -1, 0, nop());
            assert_eq!(finish(&mut ring, token), 0);
            lower(libc::RLIMIT_MEMLOCK, 0);
            match Ring::new(&config) {
                // A kernel that does not count ring memory.
                Ok(other) => assert_eq!((ring.sq_entries(), other.sq_entries()), (4096, 4096)),
                Err(error) => {
                    let named = SetupError::MemoryLimit {
                        memlock_bytes: 0,
                        entries: 32,
                    };
                    assert_eq!(error, named);
                    assert!((32..4096).contains(&ring.sq_entries()), "{ring:?}");
                }
            }
        },
    );
}

#[test]
fn every_capability_can_be_masked_by_configuration() {
    let all = ring(8, 0).capabilities();
    for disable in all
        .iter()
        .filter(|&c| c != Capabilities::NODROP && c != Capabilities::SINGLE_MMAP)
    {
        let ring = Ring::new(&Config {
            disable,
            ..Config::default()
        })
        .unwrap();
        assert_eq!(ring.capabilities(), all - disable);
    }
}

#[test]
fn capabilities_can_be_masked_by_environment() {
    let names = "no_sqarray,msg_ring, futex_op,no_iowait,abs_timer";
    in_child(
        "set_up::capabilities_can_be_masked_by_environment",
        &[("URGO_DISABLE", names)],
        || {
            let masked = Capabilities::NO_SQARRAY
                | Capabilities::MSG_RING
                | Capabilities::FUTEX_WAIT
                | Capabilities::NO_IOWAIT
                | Capabilities::ABS_TIMER;
            let mut ring = ring(8, 0);
            assert!(!ring.capabilities().intersects(masked));
            let token = start(&mut ring, urgo_uring::Kind::OneShot, -1, 0, nop());
            assert_eq!(finish(&mut ring, token), 0);
        },
    );
}

#[test]
fn opcodes_are_probed() {
    let ring = ring(8, 0);
    assert!(ring.supports(opcode::Nop::CODE) && ring.supports(opcode::Recv::CODE));
    assert!(!ring.supports(255));
    assert!(
        ring.supports(opcode::SendZc::CODE) || !ring.capabilities().contains(Capabilities::SEND_ZC)
    );
}

#[test]
fn sizes_are_clamped_and_rounded_by_the_kernel() {
    for (entries, sq, cq) in [
        (0, 1, 4),
        (1, 1, 4),
        (100, 128, 512),
        (1 << 20, 32768, 65536),
    ] {
        let ring = ring(entries, 0);
        assert_eq!(ring.sq_entries(), sq);
        assert!(
            ring.cq_entries() >= cq,
            "{} for {entries}",
            ring.cq_entries()
        );
    }
}

#[test]
fn helper_threads_can_be_capped() {
    const REGISTER_IOWQ_MAX_WORKERS: libc::c_long = 19;
    let config = Config {
        bounded_helpers: 2,
        unbounded_helpers: 3,
        ..Config::default()
    };
    let ring = Ring::new(&config).unwrap();
    // Zeros change nothing and are overwritten with what holds.
    let mut limits = [0u32; 2];
    // SAFETY: because the kernel reads and writes two numbers, which is what the array has.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            ring.fd(),
            REGISTER_IOWQ_MAX_WORKERS,
            limits.as_mut_ptr(),
            2,
        )
    };
    assert_eq!((answer, limits), (0, [2, 3]));
}

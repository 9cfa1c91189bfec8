//! Tests of chaining: what the earlier handler gets, and how the process ends when there is none.

use super::*;
use crate::alt_stack::AltStack;
use crate::mapping::{Mapping, touch};
use crate::testing;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering::Relaxed};

static PREVIOUS: AtomicPtr<Previous> = AtomicPtr::new(ptr::null_mut());
static CALLS: AtomicUsize = AtomicUsize::new(0);
static EARLIER_SIGNAL: AtomicI32 = AtomicI32::new(0);
static EARLIER_ADDRESS: AtomicUsize = AtomicUsize::new(0);
static EARLIER_USR2_BLOCKED: AtomicBool = AtomicBool::new(false);
static OURS_USR2_BLOCKED: AtomicBool = AtomicBool::new(true);
static STOOD_ON: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn ours(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let here = 0_u8;
    STOOD_ON.store(&raw const here as usize, Relaxed);
    CALLS.fetch_add(1, Relaxed);
    // SAFETY: because the test stored a leaked record before the signal; until the process ends.
    let previous = unsafe { &*PREVIOUS.load(Relaxed) };
    // SAFETY: because these are the arguments of this handler.
    unsafe { chain(previous, signal, info, context) };
    OURS_USR2_BLOCKED.store(is_usr2_blocked(), Relaxed);
}

/// The mask of this thread now.
fn is_usr2_blocked() -> bool {
    let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: because the set is ours; sigismember reads it.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr());
        libc::sigismember(mask.as_ptr(), libc::SIGUSR2) == 1
    }
}

unsafe extern "C" fn earlier_with_info(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    EARLIER_SIGNAL.store(signal, Relaxed);
    // SAFETY: because the kernel's record is valid in the handler.
    EARLIER_ADDRESS.store(unsafe { (*info).si_addr() } as usize, Relaxed);
    if signal == libc::SIGSEGV {
        crate::raw_stderr::Line::new()
            .str("the earlier handler saw it")
            .end();
        // SAFETY: because _exit is async-signal-safe.
        unsafe { libc::_exit(42) };
    }
}

unsafe extern "C" fn earlier_plain(signal: c_int) {
    EARLIER_SIGNAL.store(signal, Relaxed);
    EARLIER_USR2_BLOCKED.store(is_usr2_blocked(), Relaxed);
}

/// Sets an earlier disposition, then ours over it.
fn over(signal: c_int, earlier: usize, flags: c_int) {
    // SAFETY: because all-zero is a valid `sigaction`, and the handlers of this file are async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = earlier;
        action.sa_flags = flags;
        libc::sigaddset(&mut action.sa_mask, libc::SIGUSR2);
        replace(signal, &action).unwrap();
        let previous = install(signal, ours, true).unwrap();
        PREVIOUS.store(Box::into_raw(Box::new(previous)), Relaxed);
    }
}

fn raise(signal: c_int) {
    // SAFETY: because raise takes a number.
    unsafe { libc::raise(signal) };
}

/// Touches a guard: a fault of the CPU.
fn fault() -> usize {
    let page = crate::mapping::page_bytes();
    let mapping = Mapping::reserve(page).unwrap();
    crate::guard::tests_door::install_protect(
        &mapping,
        0,
        page,
        crate::guard::VmaBudget::process(),
    );
    touch(&mapping, 64);
    unreachable!("the guard let a write pass")
}

/// Every case runs in a child of its own: dispositions are process-wide, and some cases end the process.
fn in_child(case: &str) -> Option<std::process::Output> {
    testing::child("signal::tests::the_earlier_disposition_is_obeyed", case)
}

#[test]
fn the_earlier_disposition_is_obeyed() {
    if std::env::var_os("URGO_SYS_TEST_CHILD").is_some() {
        testing::no_core_file();
        return run_case(&testing::argument());
    }
    for (case, end) in [
        ("plain handler", Ok(0)),
        ("handler with info", Ok(0)),
        ("one-shot handler", Err(libc::SIGUSR1)),
        ("ignored", Ok(0)),
        ("default that does nothing", Ok(0)),
        ("default of a sent signal", Err(libc::SIGUSR1)),
        ("default of a fault", Err(libc::SIGSEGV)),
        ("ignored fault", Err(libc::SIGSEGV)),
        ("sent fault signal", Err(libc::SIGSEGV)),
        ("handler of a fault", Ok(42)),
        ("restored", Ok(0)),
    ] {
        let child = in_child(case).unwrap();
        let got = match testing::death(&child) {
            Some(signal) => Err(signal),
            None => Ok(child.status.code().unwrap()),
        };
        assert_eq!(got, end, "{case}: {child:?}");
    }
}

fn run_case(case: &str) {
    let plain = earlier_plain as *const () as usize;
    let with_info = earlier_with_info as *const () as usize;
    match case {
        "plain handler" => {
            over(libc::SIGUSR1, plain, 0);
            raise(libc::SIGUSR1);
            raise(libc::SIGUSR1);
            assert_eq!(CALLS.load(Relaxed), 2);
            assert_eq!(EARLIER_SIGNAL.load(Relaxed), libc::SIGUSR1);
            assert!(EARLIER_USR2_BLOCKED.load(Relaxed), "its own mask");
            assert!(!OURS_USR2_BLOCKED.load(Relaxed), "ours again after it");
            EARLIER_SIGNAL.store(0, Relaxed);
            assert!(!is_usr2_blocked());
            over(libc::SIGUSR2, plain, 0);
            raise(libc::SIGUSR2);
            assert_eq!(EARLIER_SIGNAL.load(Relaxed), libc::SIGUSR2);
        }
        "handler with info" => {
            over(libc::SIGUSR1, with_info, libc::SA_SIGINFO);
            raise(libc::SIGUSR1);
            assert_eq!(EARLIER_SIGNAL.load(Relaxed), libc::SIGUSR1);
        }
        "one-shot handler" => {
            over(libc::SIGUSR1, plain, libc::SA_RESETHAND);
            raise(libc::SIGUSR1);
            assert_eq!(EARLIER_SIGNAL.load(Relaxed), libc::SIGUSR1);
            raise(libc::SIGUSR1);
        }
        "ignored" => {
            over(libc::SIGUSR1, libc::SIG_IGN, 0);
            raise(libc::SIGUSR1);
            assert_eq!(CALLS.load(Relaxed), 1);
        }
        "default that does nothing" => {
            over(libc::SIGURG, libc::SIG_DFL, 0);
            raise(libc::SIGURG);
            raise(libc::SIGURG);
            assert_eq!(CALLS.load(Relaxed), 2, "our handler stays installed");
        }
        "default of a sent signal" => {
            over(libc::SIGUSR1, libc::SIG_DFL, 0);
            raise(libc::SIGUSR1);
        }
        "default of a fault" => {
            over(libc::SIGSEGV, libc::SIG_DFL, 0);
            fault();
        }
        "ignored fault" => {
            over(libc::SIGSEGV, libc::SIG_IGN, 0);
            fault();
        }
        "sent fault signal" => {
            over(libc::SIGSEGV, libc::SIG_DFL, 0);
            raise(libc::SIGSEGV);
        }
        "handler of a fault" => {
            over(libc::SIGSEGV, with_info, libc::SA_SIGINFO);
            fault();
        }
        "restored" => {
            over(libc::SIGUSR1, plain, 0);
            // SAFETY: because the record was stored by `over` and its handler is in this file.
            unsafe { restore(libc::SIGUSR1, &*PREVIOUS.load(Relaxed)) }.unwrap();
            raise(libc::SIGUSR1);
            assert_eq!(CALLS.load(Relaxed), 0);
            assert_eq!(EARLIER_SIGNAL.load(Relaxed), libc::SIGUSR1);
        }
        other => panic!("{other}"),
    }
    println!("case ended: {case}");
}

#[test]
fn a_handler_stands_on_the_alternate_stack() {
    const NAME: &str = "signal::tests::a_handler_stands_on_the_alternate_stack";
    if let Some(child) = testing::child(NAME, "") {
        assert!(child.status.success(), "{child:?}");
        return;
    }
    over(libc::SIGUSR1, libc::SIG_IGN, 0);
    let stack = AltStack::install().unwrap();
    raise(libc::SIGUSR1);
    assert_eq!(CALLS.load(Relaxed), 1);
    assert!(stack.contains(STOOD_ON.load(Relaxed)));
}

#[test]
fn what_cannot_be_caught_is_refused() {
    // SAFETY: because the call fails and installs nothing.
    let error = unsafe { install(libc::SIGKILL, ours, false) }.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    assert!(current(libc::SIGKILL).unwrap().is_default());
    assert!(!current(libc::SIGKILL).unwrap().is_ignored());
    assert!(current(9_999).is_err());
}

//! How a signal handler is installed, and how what it does not understand goes to the handler that was there before.
//!
//! # Safety
//! `unsafe` for `sigaction` and for calling a foreign handler. A handler runs at any instruction of the program: everything
//! that [`install`] is given must keep to async-signal-safe calls.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use std::io;

pub use libc::siginfo_t;

/// A handler with `SA_SIGINFO`: signal number, its description, and the interrupted context (`ucontext_t`).
pub type Handler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
type PlainHandler = unsafe extern "C" fn(c_int);

/// The disposition a signal had before [`install`].
#[derive(Clone, Copy)]
pub struct Previous {
    action: libc::sigaction,
}

impl core::fmt::Debug for Previous {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Previous")
            .field("handler", &(self.action.sa_sigaction as *const ()))
            .field("flags", &self.action.sa_flags)
            .finish_non_exhaustive()
    }
}

impl Previous {
    /// Whether the signal had its default action.
    pub fn is_default(&self) -> bool {
        self.action.sa_sigaction == libc::SIG_DFL
    }

    /// Whether the signal was ignored.
    pub fn is_ignored(&self) -> bool {
        self.action.sa_sigaction == libc::SIG_IGN
    }
}

/// `sigaction(signal, {handler, SA_SIGINFO | SA_ONSTACK | (restart ? SA_RESTART : 0)})`: process-wide. Returns what was there
/// before, for [`chain`] and [`restore`].
///
/// The handler runs on the thread's alternate stack where it has one ([`crate::alt_stack`]), with no other signal blocked
/// than its own.
///
/// # Safety
/// `handler` must be async-signal-safe, must leave errno as it found it, and must stay valid until the disposition is replaced.
///
/// # Errors
/// `EINVAL`: no such signal, or SIGKILL or SIGSTOP.
pub unsafe fn install(signal: c_int, handler: Handler, restart: bool) -> io::Result<Previous> {
    let mut flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    if restart {
        flags |= libc::SA_RESTART;
    }
    // SAFETY: because all-zero is a valid `sigaction` (SIG_DFL, no flags, empty mask); until overwritten below.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = flags;
    // SAFETY: because the handler keeps the contract of a handler; established by the caller; until it is replaced.
    let action = unsafe { replace(signal, &action) }?;
    Ok(Previous { action })
}

/// `sigaction(signal, NULL)`: what a signal's disposition is now.
///
/// # Errors
/// `EINVAL`: no such signal.
pub fn current(signal: c_int) -> io::Result<Previous> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: because the kernel's answer goes into a record of ours; until the call returns.
    let result = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: because zeroed memory is a valid `sigaction` and the call has filled it; established above; holds without end.
    let action = unsafe { action.assume_init() };
    Ok(Previous { action })
}

/// `sigaction(signal, previous)`: puts the earlier disposition back.
///
/// # Safety
/// The previous handler must still be valid: its library is not unloaded.
///
/// # Errors
/// `EINVAL`: no such signal.
pub unsafe fn restore(signal: c_int, previous: &Previous) -> io::Result<()> {
    // SAFETY: because the earlier handler is valid; established by the caller; until it is replaced.
    unsafe { replace(signal, &previous.action) }.map(drop)
}

unsafe fn replace(signal: c_int, action: &libc::sigaction) -> io::Result<libc::sigaction> {
    let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: because both records are ours and the handler in `action` is valid; established by the caller; until replaced.
    let result = unsafe { libc::sigaction(signal, action, previous.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: because zeroed memory is a valid `sigaction` and the call has filled it; established above; holds without end.
    Ok(unsafe { previous.assume_init() })
}

/// Inside a handler: passes the signal on to the handler that was there before, as if ours were not. Async-signal-safe.
///
/// * A handler is called with the arguments of its kind (`SA_SIGINFO` or plain), with its own mask blocked meanwhile.
///   `SA_RESETHAND` of it is obeyed: next time the default action follows.
/// * Ignored: returns; but a fault of the CPU cannot be ignored and takes the default action, as in the kernel.
/// * Default: signals whose default is to do nothing return. For the others the default action is restored for the process
///   and the signal comes again: a fault by itself when the handler returns to the faulting instruction, a sent signal
///   because it is raised anew. So the process ends with the right signal and core file. (A stop signal stops it, and
///   our handler is gone afterwards.)
///
/// # Safety
/// Only inside the handler that [`install`] put in, with its own three arguments and the [`Previous`] it returned; nothing
/// the caller holds may be touched by the earlier handler.
pub unsafe fn chain(
    previous: &Previous,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: because the kernel passed a valid record; established by the caller; until the handler returns.
    let is_fault = !info.is_null() && unsafe { (*info).si_code } > 0 && is_cpu_fault(signal);
    match previous.action.sa_sigaction {
        libc::SIG_IGN if !is_fault => {}
        libc::SIG_DFL if default_does_nothing(signal) => {}
        libc::SIG_DFL | libc::SIG_IGN => take_default_action(signal, is_fault),
        _ => {
            // SAFETY: because this is a handler of the program's; established by sigaction; until the handler returns.
            unsafe { call(&previous.action, signal, info, context) }
        }
    }
}

/// Calls an earlier handler the way the kernel would have.
///
/// # Safety
/// As [`chain`]; the action holds a handler.
unsafe fn call(
    action: &libc::sigaction,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        set_default(signal);
    }
    let mut outer = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: because both sets are valid and the call is async-signal-safe; until it returns.
    let blocked =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &action.sa_mask, outer.as_mut_ptr()) };
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: because with SA_SIGINFO the word is a pointer to a function of this type; established by whoever installed
        // it; until its library is unloaded.
        let handler: Handler = unsafe { core::mem::transmute(action.sa_sigaction) };
        // SAFETY: because the arguments are the ones the kernel gave; established by the caller of `chain`.
        unsafe { handler(signal, info, context) };
    } else {
        // SAFETY: because without SA_SIGINFO the word is a pointer to a function of this type; established by whoever
        // installed it; until its library is unloaded.
        let handler: PlainHandler = unsafe { core::mem::transmute(action.sa_sigaction) };
        // SAFETY: as above.
        unsafe { handler(signal) };
    }
    if blocked == 0 {
        // SAFETY: because the set was filled by the call that succeeded; until this call returns.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, outer.as_ptr(), ptr::null_mut()) };
    }
}

fn take_default_action(signal: c_int, is_fault: bool) {
    set_default(signal);
    if !is_fault {
        // Blocked while the handler runs; it is taken when the handler returns.
        // SAFETY: because raise is async-signal-safe and takes a number.
        unsafe { libc::raise(signal) };
    }
}

fn set_default(signal: c_int) {
    // SAFETY: because all-zero is a valid `sigaction`: SIG_DFL, no flags, empty mask; until the call returns.
    let action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: because the record is ours and SIG_DFL needs no handler; until the call returns.
    unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
}

/// Whether the CPU raises this signal at an instruction, which then is tried again.
fn is_cpu_fault(signal: c_int) -> bool {
    matches!(
        signal,
        libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP
    )
}

fn default_does_nothing(signal: c_int) -> bool {
    matches!(
        signal,
        libc::SIGURG | libc::SIGCHLD | libc::SIGWINCH | libc::SIGCONT
    )
}

/// A handler reads its [`Previous`] from a static, on any thread.
const _: fn() = || {
    fn shared<T: Send + Sync + Copy>() {}
    shared::<Previous>();
};

#[cfg(test)]
#[path = "signal_tests.rs"]
mod tests;

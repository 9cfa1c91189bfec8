//! The stack overflow report: a fault on a goroutine's guard names the goroutine and aborts; any other fault goes to
//! whoever handled it before.
//!
//! # Safety
//!
//! A signal handler: it allocates nothing, takes no lock, and reads only this thread's worker and its current goroutine,
//! which do not change while the thread is in the handler.

#![allow(unsafe_code)]

use super::worker::current;
use core::ffi::{c_int, c_void};
use std::sync::OnceLock;
use urgo_sys::raw_stderr::Line;
use urgo_sys::signal::{self, Previous, siginfo_t};

static PREVIOUS: [OnceLock<Previous>; 2] = [const { OnceLock::new() }; 2];
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Installs the handler, once per process; it stays. Threads that run goroutines have an alternate stack.
pub(crate) fn install() -> std::io::Result<()> {
    static DONE: OnceLock<Result<(), c_int>> = OnceLock::new();
    DONE.get_or_init(|| {
        for (slot, number) in PREVIOUS.iter().zip(SIGNALS) {
            // The old action first, so that it is there when the first fault comes.
            let previous =
                signal::current(number).map_err(|e| e.raw_os_error().unwrap_or(libc::EINVAL))?;
            slot.get_or_init(|| previous);
            // SAFETY: `on_fault` keeps to the rules of the module's Safety heading and lives for ever.
            unsafe { signal::install(number, on_fault, false) }
                .map_err(|e| e.raw_os_error().unwrap_or(libc::EINVAL))?;
        }
        Ok(())
    })
    .map_err(std::io::Error::from_raw_os_error)
}

unsafe extern "C" fn on_fault(number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid record, and both signals carry an address.
    let address = unsafe { (*info).si_addr() } as usize;
    // SAFETY: as above.
    let is_fault = unsafe { (*info).si_code } > 0;
    if is_fault
        && let Some(g) = current()
        && let Some(stack) = g.stack.get()
        && stack.guard_contains(address)
    {
        let site = g.site();
        let mut line = Line::new();
        line.str("\ngoroutine ").dec(g.id());
        if let Some(name) = g.name() {
            line.str(" '").str(name).str("'");
        }
        line.str(" spawned at ")
            .str(site.file())
            .str(":")
            .dec(u64::from(site.line()));
        line.str(": stack overflow (")
            .dec(stack.bytes() as u64 / 1024)
            .str(" KiB)\n");
        line.str("give it more with go::Builder::stack_size or Runtime::builder().stack_size");
        line.end();
        std::process::abort();
    }
    let slot = usize::from(number != SIGNALS[0]);
    if let Some(previous) = PREVIOUS[slot].get() {
        // SAFETY: inside the handler that `install` put in, with its own arguments.
        unsafe { signal::chain(previous, number, info, context) };
    }
}

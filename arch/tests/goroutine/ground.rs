//! The smallest ground that carries a goroutine: a guarded stack, one host slot, one context.
//!
//! A goroutine here lives on the thread that made it, as the raw pointers inside enforce.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

use urgo_arch::{STACK_ALIGN, init, switch_across, switch_in, switch_out};

/// Bytes of a stack on which debug builds may panic and print.
pub(crate) const ROOMY_BYTES: usize = 256 << 10;

/// A mapped stack with one inaccessible page below it.
pub(crate) struct Stack {
    base: *mut u8,
    bytes: usize,
}

const GUARD_BYTES: usize = 64 << 10;

impl Stack {
    pub(crate) fn map(bytes: usize) -> Self {
        let whole = bytes + GUARD_BYTES;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                null_mut(),
                whole,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED, "mmap of a test stack");
        let base = base.cast::<u8>();
        // SAFETY: the part above the guard belongs to the mapping made above.
        let opened = unsafe {
            libc::mprotect(
                base.add(GUARD_BYTES).cast(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        assert_eq!(opened, 0, "mprotect of a test stack");
        Self { base, bytes }
    }

    /// Lowest usable address.
    pub(crate) fn low(&self) -> usize {
        self.base.addr() + GUARD_BYTES
    }

    /// The top.
    pub(crate) fn high(&self) -> usize {
        self.low() + self.bytes
    }

    pub(crate) fn top(&self) -> *mut u8 {
        // SAFETY: one past the end of the mapping.
        unsafe { self.base.add(GUARD_BYTES + self.bytes) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: unmaps what `map` mapped; goroutines on it have ended, asserted by their own drop.
        unsafe { libc::munmap(self.base.cast(), GUARD_BYTES + self.bytes) };
    }
}

type Body = Box<dyn FnOnce(&Inside)>;

/// What both sides share. Boxed, so that its address does not change.
pub(crate) struct Inside {
    host: Cell<*mut u8>,
    own: Cell<*mut u8>,
    body: RefCell<Option<Body>>,
    ended: Cell<bool>,
    panic: RefCell<Option<Box<dyn Any + Send>>>,
    pub(crate) low: usize,
    pub(crate) high: usize,
}

impl Inside {
    /// Inlined into the goroutine's own function, so that the switch sits in a frame that a panic may unwind.
    #[inline(always)]
    pub(crate) fn wait(&self) {
        // SAFETY: the host is inside `resume`, which saved its context; this goroutine is continued by the next
        // `resume` only.
        unsafe { switch_out(self.own.as_ptr(), self.host.as_ptr()) };
    }

    /// Continues `next` directly and hands it this goroutine's host.
    #[inline(always)]
    pub(crate) fn wait_across(&self, next: &Inside) {
        next.host.set(self.host.get());
        // SAFETY: `next` is suspended on this thread; each context is continued once, by whoever picks it up.
        unsafe { switch_across(self.own.as_ptr(), next.own.get()) };
    }

    /// The saved context, for readers of suspended stacks.
    pub(crate) fn context(&self) -> *mut u8 {
        self.own.get()
    }
}

pub(crate) struct Goroutine {
    inside: Box<Inside>,
    _stack: Stack,
}

impl Goroutine {
    pub(crate) fn fresh(stack_bytes: usize, body: impl FnOnce(&Inside) + 'static) -> Self {
        let stack = Stack::map(stack_bytes);
        let inside = Box::new(Inside {
            host: Cell::new(null_mut()),
            own: Cell::new(null_mut()),
            body: RefCell::new(Some(Box::new(body))),
            ended: Cell::new(false),
            panic: RefCell::new(None),
            low: stack.low(),
            high: stack.high(),
        });
        assert!(stack.high().is_multiple_of(STACK_ALIGN));
        // SAFETY: the stack is mapped, unused and lives as long as the goroutine, like the argument.
        let sp = unsafe {
            init(
                stack.top(),
                run_body,
                (&raw const *inside).cast_mut().cast(),
            )
        };
        inside.own.set(sp);
        Self {
            inside,
            _stack: stack,
        }
    }

    /// Runs it until it waits or ends; true while it has not ended.
    #[inline(always)]
    pub(crate) fn resume(&self) -> bool {
        assert!(
            !self.inside.ended.get(),
            "resumed a goroutine that has ended"
        );
        // SAFETY: the context is fresh or was suspended by this thread (the type is not Send) and continued by nobody.
        unsafe { switch_in(self.inside.host.as_ptr(), self.inside.own.get()) };
        !self.inside.ended.get()
    }

    pub(crate) fn inside(&self) -> &Inside {
        &self.inside
    }

    /// What it panicked with.
    pub(crate) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.inside.panic.borrow_mut().take()
    }
}

impl Drop for Goroutine {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(
                self.inside.ended.get(),
                "a test goroutine was dropped before its end"
            );
        }
    }
}

/// The `entry` of test goroutines.
unsafe extern "C" fn run_body(inside: *mut ()) -> ! {
    // SAFETY: `fresh` passed the address of a box that outlives the goroutine.
    let inside = unsafe { &*inside.cast::<Inside>() };
    let body = inside
        .body
        .borrow_mut()
        .take()
        .expect("a fresh goroutine has a body");
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| body(inside))) {
        *inside.panic.borrow_mut() = Some(payload);
    }
    inside.ended.set(true);
    inside.wait();
    unreachable!("continued a goroutine that has ended");
}

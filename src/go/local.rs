//! Goroutine-locals, the public side: keys, and the values of plain threads.
//!
//! # Safety
//!
//! Values are reached through raw pointers, because a value's `Drop` or initialiser may reach for other locals.

#![allow(unsafe_code)]

use crate::goroutine::{Locals, discard, drop_locals};
use core::any::Any;
use core::cell::Cell;
use core::fmt;

/// A key declared by [`goroutine_local!`](crate::goroutine_local).
///
/// Each goroutine has its own value, made on first use and dropped when the goroutine ends. A plain thread that is no
/// goroutine has its own value too, dropped when the thread ends.
pub struct LocalKey<T: 'static> {
    init: fn() -> T,
}

/// The value is gone already: the goroutine (or thread) is ending and has dropped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessError;

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("goroutine-local used during or after its destruction")
    }
}

impl std::error::Error for AccessError {}

thread_local! {
    static OF_THREAD: ThreadLocals = const { ThreadLocals(Cell::new(std::ptr::null_mut())) };
}

struct ThreadLocals(Cell<*mut Locals>);

impl Drop for ThreadLocals {
    fn drop(&mut self) {
        let locals = self.0.get();
        if !locals.is_null() {
            // SAFETY: made by `Box::into_raw` below, owned by this thread.
            unsafe {
                if let Some(payload) = drop_locals(locals) {
                    discard(payload);
                }
                drop(Box::from_raw(locals));
            }
        }
    }
}

fn current() -> Result<*mut Locals, AccessError> {
    if let Some(g) = crate::sched::current() {
        return Ok(g.locals());
    }
    let slot = OF_THREAD.try_with(|locals| {
        if locals.0.get().is_null() {
            locals.0.set(Box::into_raw(Box::default()));
        }
        locals.0.get()
    });
    slot.map_err(|_| AccessError)
}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    pub const fn new(init: fn() -> T) -> Self {
        LocalKey { init }
    }

    /// Calls `f` with the running goroutine's value, which is made now if this is the first use.
    ///
    /// Blocks nothing by itself; `f` may wait, the value stays the same goroutine's.
    ///
    /// # Panics
    ///
    /// If the value is gone already because the goroutine is ending.
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.try_with(f)
            .expect("cannot access a goroutine-local during or after its destruction")
    }

    /// As [`with`](Self::with).
    ///
    /// # Errors
    ///
    /// [`AccessError`] if the value is gone already because the goroutine is ending.
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        let locals = current()?;
        let key = std::ptr::from_ref(self) as usize;
        // SAFETY: `locals` belongs to the running goroutine or thread; the borrow ends before user code runs.
        let found = unsafe { &(*locals).entries }
            .iter()
            .find(|entry| entry.0 == key);
        let value: *const T = match found {
            Some((_, Some(value))) => value.downcast_ref::<T>().expect("one key, one type"),
            Some((_, None)) => return Err(AccessError),
            None => {
                let value: Box<dyn Any> = Box::new((self.init)());
                // SAFETY: as above; the initialiser has returned.
                let entries = unsafe { &mut (*locals).entries };
                // The initialiser may have used the key itself; then the first value stays, as with thread-locals.
                entries.push((key, Some(value)));
                let value = entries.last().and_then(|entry| entry.1.as_ref());
                value
                    .and_then(|value| value.downcast_ref::<T>())
                    .expect("just pushed")
            }
        };
        // SAFETY: boxed, so it does not move when the list grows; it is dropped only at the goroutine's (thread's) end,
        // which cannot come before `f` has returned.
        Ok(f(unsafe { &*value }))
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

/// Declares goroutine-locals, as `std::thread_local!` declares thread-locals.
///
/// ```
/// use std::cell::Cell;
///
/// urgo::goroutine_local! {
///     static REQUESTS: Cell<u32> = Cell::new(0);
/// }
///
/// urgo::run(|| {
///     REQUESTS.with(|n| n.set(5));
///     let other = urgo::spawn(|| REQUESTS.with(|n| n.get())).join().unwrap();
///     assert_eq!((other, REQUESTS.with(|n| n.get())), (0, 5));
/// });
/// ```
#[macro_export]
macro_rules! goroutine_local {
    ($($(#[$attr:meta])* $vis:vis static $name:ident : $ty:ty = $init:expr);+ $(;)?) => {
        $($(#[$attr])* $vis static $name: $crate::go::LocalKey<$ty> = {
            fn init() -> $ty { $init }
            $crate::go::LocalKey::new(init)
        };)+
    };
}

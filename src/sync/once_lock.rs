//! A value that is set once: a `Once` and room for the value.
//!
//! # Safety
//!
//! The value is initialised if and only if the `Once` is completed: only the closure that completes it writes the value, and
//! what resets it has the lock exclusively.

#![allow(unsafe_code)]

use super::Once;
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{self, MaybeUninit};
use std::panic::{RefUnwindSafe, UnwindSafe};

/// A cell that is written once and read by all from then on. std's API.
///
/// A wait blocks the calling goroutine (or plain thread), not its worker; both may be mixed. It may stand in a static.
/// Reading a value that is there is one load. What came before the value was set happens before whatever comes after it was
/// read.
///
/// ```
/// use urgo::sync::OnceLock;
///
/// static NAME: OnceLock<String> = OnceLock::new();
///
/// urgo::run(|| {
///     let handles: Vec<_> = (0..3)
///         .map(|n| urgo::spawn(move || NAME.get_or_init(|| format!("goroutine {n}")).as_str()))
///         .collect();
///     let names: Vec<&str> = handles.into_iter().map(|h| h.join().unwrap()).collect();
///     assert!(names.iter().all(|name| *name == names[0]));
///     assert_eq!(NAME.set(String::from("too late")), Err(String::from("too late")));
/// });
/// ```
pub struct OnceLock<T> {
    once: Once,
    value: UnsafeCell<MaybeUninit<T>>,
    _owns: PhantomData<T>,
}

// SAFETY: a reference gives out `&T` (so `T: Sync`), and lets another thread set or drop the value (so `T: Send`); the `Once`
// lets one write, before any reads.
unsafe impl<T: Sync + Send> Sync for OnceLock<T> {}
// SAFETY: it owns its value.
unsafe impl<T: Send> Send for OnceLock<T> {}

impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceLock<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// An empty cell.
    #[must_use]
    pub const fn new() -> OnceLock<T> {
        OnceLock {
            once: Once::new(),
            value: UnsafeCell::new(MaybeUninit::uninit()),
            _owns: PhantomData,
        }
    }

    /// The value, if it is set. Blocks nothing.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: completed, so the value is initialised, and nobody writes it while it is borrowed.
        self.once
            .is_completed()
            .then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// The value, if it is set. Blocks nothing.
    #[must_use]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        if self.once.is_completed() {
            // SAFETY: completed, so the value is initialised.
            Some(unsafe { self.value.get_mut().assume_init_mut() })
        } else {
            None
        }
    }

    /// Waits until the value is set.
    ///
    /// Blocks the calling goroutine or thread.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use urgo::sync::OnceLock;
    ///
    /// urgo::run(|| {
    ///     let cell = Arc::new(OnceLock::new());
    ///     let other = cell.clone();
    ///     let reader = urgo::spawn(move || *other.wait());
    ///     cell.set(7).unwrap();
    ///     assert_eq!(reader.join().unwrap(), 7);
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// If it is called from inside the initialiser.
    #[track_caller]
    pub fn wait(&self) -> &T {
        self.once.wait_force();
        self.get().expect("waited for")
    }

    /// Sets the value.
    ///
    /// Blocks the calling goroutine or thread while another initialises it.
    ///
    /// # Errors
    ///
    /// With `value`, if one is set already.
    ///
    /// # Panics
    ///
    /// If it is called from inside the initialiser.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("taken once only"));
        value.map_or(Ok(()), Err)
    }

    /// The value; if none is set, it is set to what `f` returns.
    ///
    /// Blocks the calling goroutine or thread while another initialises it. If `f` unwinds, by a panic or because its
    /// goroutine was cancelled, nothing is set, and whoever waited tries with its own `f`.
    ///
    /// # Panics
    ///
    /// With `f`'s own panic; if it is called from inside `f`.
    #[inline]
    #[track_caller]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        self.once.call_once_force(|_| {
            let value = f();
            // SAFETY: one closure runs at a time, and none has completed, so nobody reads the value.
            unsafe { (*self.value.get()).write(value) };
        });
        self.get().expect("initialised")
    }

    /// The value, if it is set.
    #[must_use]
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }

    /// Takes the value out, if it is set, and leaves an empty cell.
    pub fn take(&mut self) -> Option<T> {
        if self.once.is_completed() {
            self.once = Once::new();
            // SAFETY: it was completed, so the value was initialised; as it is no more, this is the only copy.
            Some(unsafe { mem::replace(self.value.get_mut(), MaybeUninit::uninit()).assume_init() })
        } else {
            None
        }
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock::new()
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> Self {
        self.get()
            .cloned()
            .map_or_else(OnceLock::new, OnceLock::from)
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        let cell = OnceLock::new();
        cell.get_or_init(|| value);
        cell
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("OnceLock");
        match self.get() {
            Some(value) => tuple.field(value),
            None => tuple.field(&format_args!("<uninit>")),
        };
        tuple.finish()
    }
}

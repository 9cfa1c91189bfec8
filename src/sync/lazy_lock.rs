//! A value that is made when it is first wanted: a `OnceLock` and the function for it.
//!
//! # Safety
//!
//! The function is in a plain cell, which is touched only inside the `OnceLock`'s initialiser, of which one runs at a time,
//! or with exclusive access.

#![allow(unsafe_code)]

use super::OnceLock;
use core::cell::Cell;
use core::fmt;
use core::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// A value that is made on the first access, by whoever comes first; the others wait. std's API.
///
/// If the function unwinds, by a panic or because its goroutine was cancelled, the value is *poisoned*: every access panics from
/// then on.
///
/// A wait blocks the calling goroutine (or plain thread), not its worker; both may be mixed. It may stand in a static.
///
/// ```
/// use std::collections::HashMap;
/// use urgo::sync::LazyLock;
///
/// static PORTS: LazyLock<HashMap<&str, u16>> = LazyLock::new(|| HashMap::from([("http", 80), ("https", 443)]));
///
/// urgo::run(|| {
///     let port = urgo::spawn(|| PORTS["https"]);
///     assert_eq!(port.join().unwrap(), 443);
/// });
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    make: Cell<Option<F>>,
}

// SAFETY: of `make`, a reference lets one thread take the function out and call it, inside the initialiser (so `F: Send`);
// nobody gets a reference to it.
unsafe impl<T: Sync + Send, F: Send> Sync for LazyLock<T, F> {}

impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// A value that `f` will make.
    #[must_use]
    pub const fn new(f: F) -> LazyLock<T, F> {
        LazyLock {
            value: OnceLock::new(),
            make: Cell::new(Some(f)),
        }
    }

    /// The value, which is made if it is not there. `*lazy` does the same.
    ///
    /// Blocks the calling goroutine or thread while another makes it.
    ///
    /// # Panics
    ///
    /// With the function's own panic; if it has unwound before; if it asks for the value itself.
    ///
    /// ```
    /// use urgo::sync::LazyLock;
    ///
    /// let lazy = LazyLock::new(|| 6 * 7);
    /// assert_eq!(LazyLock::force(&lazy), &42);
    /// assert_eq!(*lazy, 42);
    /// ```
    #[inline]
    #[track_caller]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        this.value.get_or_init(|| match this.make.take() {
            Some(make) => make(),
            None => poisoned(),
        })
    }

    /// As [`force`](Self::force).
    ///
    /// # Panics
    ///
    /// As [`force`](Self::force).
    #[track_caller]
    pub fn force_mut(this: &mut LazyLock<T, F>) -> &mut T {
        LazyLock::force(this);
        this.value.get_mut().expect("made")
    }
}

impl<T, F> LazyLock<T, F> {
    /// The value, if it was made. Blocks nothing.
    #[must_use]
    pub fn get(this: &LazyLock<T, F>) -> Option<&T> {
        this.value.get()
    }

    /// The value, if it was made. Blocks nothing.
    #[must_use]
    pub fn get_mut(this: &mut LazyLock<T, F>) -> Option<&mut T> {
        this.value.get_mut()
    }
}

#[cold]
#[track_caller]
fn poisoned() -> ! {
    panic!("the lazy value's function has unwound before: it is poisoned")
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    #[track_caller]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> Self {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("LazyLock");
        match LazyLock::get(self) {
            Some(value) => tuple.field(value),
            None => tuple.field(&format_args!("<uninit>")),
        };
        tuple.finish()
    }
}

//! A counted reference whose only holder drops it without a locked instruction: most timers have one holder.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | CO1 | a holder's count goes down, release | the last one's load, acquire, or fence, acquire | what the others did with the value |
//!
//! # Safety
//!
//! The allocation lives until the count is 0. A holder that reads 1 is the only one: nobody else is there to clone.

#![allow(unsafe_code)]

use crate::atomic::{AtomicUsize, Ordering, fence};
use core::ops::Deref;
use core::ptr::NonNull;
use std::process;

/// More holders than there can be, unless somebody forgets them in a loop.
const HOLDERS_MAX: usize = isize::MAX as usize;

struct Inner<T> {
    holders: AtomicUsize,
    value: T,
}

/// See the module.
pub(super) struct Counted<T> {
    inner: NonNull<Inner<T>>,
}

impl<T> Counted<T> {
    #[inline]
    pub(super) fn new(value: T) -> Counted<T> {
        let inner = Box::new(Inner {
            holders: AtomicUsize::new(1),
            value,
        });
        Counted {
            inner: NonNull::from(Box::leak(inner)),
        }
    }

    #[inline]
    fn inner(&self) -> &Inner<T> {
        // SAFETY: this holder is counted.
        unsafe { self.inner.as_ref() }
    }

    pub(super) fn is_same(&self, other: &Counted<T>) -> bool {
        self.inner == other.inner
    }

    /// What tells this value from all others.
    pub(super) fn address(&self) -> *const () {
        self.inner.as_ptr().cast_const().cast()
    }
}

impl<T> Clone for Counted<T> {
    fn clone(&self) -> Counted<T> {
        if self.inner().holders.fetch_add(1, Ordering::Relaxed) > HOLDERS_MAX {
            process::abort();
        }
        Counted { inner: self.inner }
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T> Drop for Counted<T> {
    #[inline]
    fn drop(&mut self) {
        let holders = &self.inner().holders;
        // CO1, pairs with the release below.
        if holders.load(Ordering::Acquire) != 1 {
            // CO1, pairs with the load above and the fence below.
            if holders.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            // CO1, pairs with the release above.
            fence(Ordering::Acquire);
        }
        // SAFETY: made by `Box::leak`; nobody else holds it any more.
        drop(unsafe { Box::from_raw(self.inner.as_ptr()) });
    }
}

#[cfg(all(test, not(urgo_loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    // SAFETY: `Arc<()>` may be shared and sent; the count is atomic.
    unsafe impl Send for Counted<Arc<()>> {}

    #[test]
    fn the_value_goes_with_its_last_holder_whoever_that_is() {
        let value = Arc::new(());
        for _ in 0..1000 {
            let first = Counted::new(value.clone());
            let second = first.clone();
            assert!(first.is_same(&second));
            let thread = std::thread::spawn(move || drop(second));
            drop(first);
            thread.join().unwrap();
            assert_eq!(Arc::strong_count(&value), 1);
        }
    }
}

#[cfg(all(test, urgo_loom))]
mod models {
    use super::*;
    use loom::sync::Arc;

    // SAFETY: the count is atomic, and so is the value.
    unsafe impl Send for Counted<Value> {}

    struct Value {
        looks: AtomicUsize,
        drops: Arc<AtomicUsize>,
    }

    impl Drop for Value {
        fn drop(&mut self) {
            assert_eq!(self.looks.load(Ordering::Relaxed), 2, "dropped too early");
            self.drops.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Two holders look and let go: the value goes once, after both.
    #[test]
    fn loom_counted_value_goes_once_after_all_holders() {
        loom::model(|| {
            let drops = Arc::new(AtomicUsize::new(0));
            let first = Counted::new(Value {
                looks: AtomicUsize::new(0),
                drops: drops.clone(),
            });
            let second = first.clone();
            let thread = loom::thread::spawn(move || {
                second.looks.fetch_add(1, Ordering::Relaxed);
                drop(second);
            });
            first.looks.fetch_add(1, Ordering::Relaxed);
            drop(first);
            thread.join().unwrap();
            assert_eq!(drops.load(Ordering::Relaxed), 1);
        });
    }
}

//! On which workers a node is in use.

use crate::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A set of numbers other than zero that only grows. Most have one member.
#[derive(Debug, Default)]
pub(super) struct Homes {
    /// The first member; zero: there is none. Relaxed throughout: what goes with it is ordered by AM2.
    first: AtomicU64,
    more: Mutex<Vec<u64>>,
}

impl Homes {
    /// Adds `home`; `false` if it was in already.
    #[inline]
    pub(super) fn add(&self, home: u64) -> bool {
        debug_assert_ne!(home, 0);
        match self.first.load(Ordering::Relaxed) {
            first if first == home => false,
            _ => self.add_slow(home),
        }
    }

    fn add_slow(&self, home: u64) -> bool {
        match self
            .first
            .compare_exchange(0, home, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => true,
            Err(first) if first == home => false,
            Err(_) => {
                let mut more = self.more.lock().unwrap_or_else(PoisonError::into_inner);
                let is_new = !more.contains(&home);
                if is_new {
                    more.push(home);
                }
                is_new
            }
        }
    }

    pub(super) fn all(&self) -> Vec<u64> {
        let mut all = Vec::new();
        match self.first.load(Ordering::Relaxed) {
            0 => {}
            first => {
                all.push(first);
                all.extend_from_slice(&self.more.lock().unwrap_or_else(PoisonError::into_inner));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_listed_once_each() {
        let homes = Homes::default();
        assert!(homes.all().is_empty());
        for home in [7, 3, 7, 9, 3, 9] {
            homes.add(home);
        }
        assert_eq!(homes.all(), [7, 3, 9]);
        assert!(!homes.add(9) && !homes.add(7) && homes.add(1));
    }
}

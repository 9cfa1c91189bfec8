//! On which workers a node is in use.

use crate::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Members beyond the first that are found without a lock.
const PLACES: usize = 63;

/// A set of numbers other than zero that only grows. Most have one member. Orderings are relaxed throughout: what goes with a
/// member is ordered by AM2.
#[derive(Debug, Default)]
pub(super) struct Homes {
    /// The first member; zero: there is none.
    first: AtomicU64,
    /// Filled from the front.
    more: OnceLock<Box<[AtomicU64; PLACES]>>,
    rest: Mutex<Vec<u64>>,
}

impl Homes {
    /// Adds `home`; `false` if it was in already.
    #[inline]
    pub(super) fn add(&self, home: u64) -> bool {
        debug_assert_ne!(home, 0);
        self.first.load(Ordering::Relaxed) != home && self.add_further(home)
    }

    fn add_further(&self, home: u64) -> bool {
        if let Some(is_new) = put(&self.first, home) {
            return is_new;
        }
        let more = self
            .more
            .get_or_init(|| Box::new([const { AtomicU64::new(0) }; PLACES]));
        if let Some(is_new) = more.iter().find_map(|place| put(place, home)) {
            return is_new;
        }
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !rest.contains(&home);
        if is_new {
            rest.push(home);
        }
        is_new
    }

    pub(super) fn all(&self) -> Vec<u64> {
        let more = self.more.get().into_iter().flat_map(|more| more.iter());
        let mut all: Vec<u64> = std::iter::once(&self.first)
            .chain(more)
            .map(|place| place.load(Ordering::Relaxed))
            .filter(|home| *home != 0)
            .collect();
        if all.len() > PLACES {
            all.extend_from_slice(&self.rest.lock().unwrap_or_else(PoisonError::into_inner));
        }
        all
    }
}

/// `Some(true)`: put there; `Some(false)`: it was there; `None`: another is there.
fn put(place: &AtomicU64, home: u64) -> Option<bool> {
    let seen = match place.load(Ordering::Relaxed) {
        0 => match place.compare_exchange(0, home, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Some(true),
            Err(other) => other,
        },
        other => other,
    };
    (seen == home).then_some(false)
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

    #[test]
    fn very_many_homes_are_listed_once_each_whoever_adds_them() {
        let homes = Homes::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for home in 1..=200 {
                        homes.add(home);
                    }
                });
            }
        });
        let mut all = homes.all();
        all.sort_unstable();
        assert_eq!(all, (1..=200).collect::<Vec<u64>>());
    }
}

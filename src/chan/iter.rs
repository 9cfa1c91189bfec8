//! Receivers as iterators.

use super::receiver::Receiver;
use std::fmt;
use std::iter::FusedIterator;

/// What [`Receiver::iter`] returns: one message after the other, until the channel is empty and disconnected.
///
/// `next` blocks as [`Receiver::recv`] does.
///
/// ```
/// let (s, r) = urgo::chan::unbounded();
/// for n in 1..=3 {
///     s.send(n).unwrap();
/// }
/// drop(s);
/// assert_eq!(r.iter().sum::<i32>(), 6);
/// ```
pub struct Iter<'a, T> {
    pub(super) receiver: &'a Receiver<T>,
}

/// What [`Receiver::try_iter`] returns: one message after the other, until there is none at the moment.
///
/// `next` blocks nothing.
///
/// ```
/// let (s, r) = urgo::chan::unbounded();
/// s.send(1).unwrap();
/// assert_eq!(r.try_iter().collect::<Vec<i32>>(), [1]); // though `s` may send more
/// ```
pub struct TryIter<'a, T> {
    pub(super) receiver: &'a Receiver<T>,
}

/// What a [`Receiver`] becomes in a `for` loop: as [`Iter`], and owns the receiver.
///
/// ```
/// let (s, r) = urgo::chan::unbounded();
/// s.send(1).unwrap();
/// drop(s);
/// for message in r {
///     assert_eq!(message, 1);
/// }
/// ```
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> FusedIterator for Iter<'_, T> {}
impl<T> FusedIterator for IntoIter<T> {}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}

impl<T> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Iter { .. }")
    }
}

impl<T> fmt::Debug for TryIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("TryIter { .. }")
    }
}

impl<T> fmt::Debug for IntoIter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("IntoIter { .. }")
    }
}

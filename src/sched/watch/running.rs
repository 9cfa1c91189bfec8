//! What a watched worker says of the goroutine it runs, for the watch thread to read at any time.
//!
//! The worker alone writes, at every dispatch. The sequence is odd while it does. A reader that finds the same even sequence
//! before and after has read what belongs together; otherwise the worker has just changed goroutines, so it is not stuck. The
//! sequence never repeats, so it names the dispatch.
//!
//! The reader never goes near a control block, which may be another goroutine's by then: id and name are copied into words of
//! this record, and a spawn site lives for ever.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | RN1 | `write`, the even sequence, Release | `look`, the first load, Acquire | what was written before it |
//! | RN2 | `write`, fence after the odd sequence, Release | `look`, fence before the second load, Acquire | the odd sequence, to whoever has read a word that was written after it |
//!
//! # Safety
//!
//! A spawn site is read through a pointer, which is null or comes from a `&'static` reference.

#![allow(unsafe_code)]

use crate::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
use core::panic::Location;
use core::ptr;

/// Words for a name; what does not fit is cut off.
const NAME_WORDS: usize = 4;
const NAME_BYTES: usize = NAME_WORDS * 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct Running {
    /// The worker's thread as the kernel knows it; 0 before it has said so.
    thread: AtomicU32,
    /// Odd: being written.
    sequence: AtomicU64,
    /// Null: no goroutine runs, the worker is on its host stack.
    site: AtomicPtr<Location<'static>>,
    id: AtomicU64,
    /// UTF-8, ended by a NUL unless full. Empty: the goroutine has no name.
    name: [AtomicU64; NAME_WORDS],
}

/// A goroutine in the middle of a dispatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Which dispatch: differs from all others of the worker.
    pub(crate) dispatch: u64,
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) site: &'static Location<'static>,
}

impl Running {
    pub(crate) fn new() -> Running {
        Running {
            thread: AtomicU32::new(0),
            sequence: AtomicU64::new(0),
            site: AtomicPtr::new(ptr::null_mut()),
            id: AtomicU64::new(0),
            name: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Owner worker, when its thread has started.
    pub(crate) fn set_thread(&self, thread: u32) {
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// Any thread. The worker's thread, if it has started.
    pub(crate) fn thread(&self) -> Option<u32> {
        Some(self.thread.load(Ordering::Relaxed)).filter(|&thread| thread != 0)
    }

    /// Owner worker: a dispatch of this goroutine begins.
    pub(crate) fn enter(&self, id: u64, name: Option<&str>, site: &'static Location<'static>) {
        self.write(|| {
            self.id.store(id, Ordering::Relaxed);
            self.write_name(name.unwrap_or(""));
            self.site
                .store(ptr::from_ref(site).cast_mut(), Ordering::Relaxed);
        });
    }

    /// Owner worker: back on the host stack.
    pub(crate) fn leave(&self) {
        self.write(|| self.site.store(ptr::null_mut(), Ordering::Relaxed));
    }

    fn write(&self, words: impl FnOnce()) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence
            .store(sequence.wrapping_add(1), Ordering::Relaxed);
        // RN2, pairs with the fence in `look`.
        fence(Ordering::Release);
        words();
        // RN1, pairs with the first load in `look`.
        self.sequence
            .store(sequence.wrapping_add(2), Ordering::Release);
    }

    fn write_name(&self, name: &str) {
        let name = &name.as_bytes()[..name.floor_char_boundary(NAME_BYTES)];
        if name.is_empty() {
            return self.name[0].store(0, Ordering::Relaxed);
        }
        let mut bytes = [0; NAME_BYTES];
        bytes[..name.len()].copy_from_slice(name);
        for (word, part) in self.name.iter().zip(bytes.as_chunks().0) {
            word.store(u64::from_ne_bytes(*part), Ordering::Relaxed);
        }
    }

    /// Any thread. What the worker runs; `None` if it is on its host stack, or changes goroutines right now.
    pub(crate) fn look(&self) -> Option<Seen> {
        // Pairs with RN1.
        let dispatch = self.sequence.load(Ordering::Acquire);
        let site = self.site.load(Ordering::Relaxed);
        let id = self.id.load(Ordering::Relaxed);
        let name: [u64; NAME_WORDS] =
            core::array::from_fn(|at| self.name[at].load(Ordering::Relaxed));
        // Pairs with RN2.
        fence(Ordering::Acquire);
        if dispatch % 2 == 1 || self.sequence.load(Ordering::Relaxed) != dispatch {
            return None;
        }
        // SAFETY: null or from the `&'static` reference that `enter` was given.
        let site = unsafe { site.as_ref() }?;
        Some(Seen {
            dispatch,
            id,
            name: read_name(name),
            site,
        })
    }
}

fn read_name(words: [u64; NAME_WORDS]) -> String {
    let bytes = words.map(u64::to_ne_bytes);
    let bytes = bytes.as_flattened();
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(NAME_BYTES)]).into_owned()
}

#[cfg(all(test, not(urgo_loom)))]
mod tests {
    use super::*;

    fn name_seen(name: Option<&str>) -> String {
        let running = Running::new();
        running.enter(
            1,
            Some("a longer one that was there before"),
            Location::caller(),
        );
        running.enter(2, name, Location::caller());
        running.look().unwrap().name
    }

    #[test]
    fn names_come_out_as_they_went_in_or_cut_at_a_character() {
        assert_eq!(name_seen(None), "");
        assert_eq!(name_seen(Some("reader")), "reader");
        let full = "x".repeat(NAME_BYTES);
        assert_eq!(name_seen(Some(&full)), full);
        let cut = format!("{}é", "x".repeat(NAME_BYTES - 1));
        assert_eq!(name_seen(Some(&cut)), &cut[..NAME_BYTES - 1]);
    }

    #[test]
    fn nobody_is_seen_on_the_host_stack_and_each_dispatch_is_another() {
        let running = Running::new();
        assert_eq!(running.look(), None);
        running.enter(7, None, Location::caller());
        let first = running.look().unwrap();
        assert_eq!(running.look().unwrap(), first);
        running.leave();
        assert_eq!(running.look(), None);
        running.enter(7, None, Location::caller());
        assert_ne!(running.look().unwrap().dispatch, first.dispatch);
    }
}

#[cfg(all(test, urgo_loom))]
mod models {
    use super::*;
    use loom::sync::Arc;

    fn here() -> &'static Location<'static> {
        Location::caller()
    }

    fn there() -> &'static Location<'static> {
        Location::caller()
    }

    /// Whatever the reader sees, id and site are of one goroutine.
    #[test]
    fn loom_running_id_and_site_belong_together() {
        loom::model(|| {
            let running = Arc::new(Running::new());
            let worker = {
                let running = running.clone();
                loom::thread::spawn(move || {
                    running.enter(1, None, here());
                    running.enter(2, Some("second"), there());
                    running.leave();
                })
            };
            if let Some(seen) = running.look() {
                let (site, name) = match seen.id {
                    1 => (here(), ""),
                    2 => (there(), "second"),
                    other => panic!("no goroutine has the id {other}"),
                };
                assert_eq!((seen.site, seen.name.as_str()), (site, name));
            }
            worker.join().unwrap();
            assert_eq!(running.look(), None);
        });
    }
}

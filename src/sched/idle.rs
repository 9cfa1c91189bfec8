//! The idle protocol: how workers fall asleep, and how whoever makes work wakes one without losing a wake-up.
//!
//! A wake of a worker on another CPU costs tens of microseconds whatever the mechanism, so the aim is to wake nobody
//! needlessly: no wake while a worker is searching anyway, one wake at a time otherwise, and a woken worker that finds
//! work wakes the next.
//!
//! # Words
//!
//! *Poster*: whoever makes work visible (a worker that spawns, a thread that readies a goroutine). *Searching*: awake
//! without work, looking at others' deques. *Sleep word*: one atomic per worker.
//!
//! # State
//!
//! Sleep word of a worker:
//!
//! | value | meaning | who stores it |
//! |---|---|---|
//! | `RUNNING` 0 | the worker will look at all its sources before it sleeps | the worker |
//! | `SLEEPING` 1 | the worker sleeps in the kernel, or is about to | the worker, from `RUNNING` |
//! | `NOTIFIED` 2 | somebody with work for this worker has won the right to rouse it, and does | one waker, from `SLEEPING` |
//! | `DRAFTED` 3 | the same, with work for anyone: the worker is counted in `searching` already | one waker, from `SLEEPING` |
//!
//! Shared: `searching`, the number of workers that search; `sleepers`, the number of workers whose sleep word is not
//! `RUNNING` (a worker takes itself off when it is awake again).
//!
//! # Algorithm
//!
//! To post work *for one worker* W (its inbox, its command box):
//!
//! 1. Make the work visible.
//! 2. `fence(SeqCst)` (ID1).
//! 3. If W's word is `SLEEPING`, exchange it for `NOTIFIED`; whoever succeeds rouses W through the kernel.
//!
//! To post work *for anyone* (fresh deque, injector): 1 and 2 as above, then 3: if `searching` is 0 and `sleepers` is
//! not, add one to `searching` on behalf of a sleeper and draft a sleeper (exchange `SLEEPING` for `DRAFTED`, rouse it).
//! If no word is `SLEEPING` any more, take the one off again, `fence(SeqCst)`, and if there is (still) work for anyone
//! begin again: another poster may have relied on our count.
//!
//! To end a search with work in hand, a worker takes itself off `searching`, `fence(SeqCst)`, and if there is more work
//! for anyone it acts as a poster: others may have relied on its search.
//!
//! To sleep, a worker W without work:
//!
//! 1. If it is counted in `searching`, take itself off (SeqCst read-modify-write).
//! 2. Store `SLEEPING`, add one to `sleepers`.
//! 3. `fence(SeqCst)` (ID2).
//! 4. Look once more at *every* source: inbox, command box, injector, all fresh deques, its ring.
//! 5. If there is something: exchange the word for `RUNNING`, take itself off `sleepers`, go and work (if it had been
//!    drafted meanwhile, it is a searching worker now).
//!    Otherwise sleep in the kernel on this word; after that as in 5.
//!
//! # Why no wake-up is lost
//!
//! *Work for W.* Either ID1 is before ID2 in the order of fences: then step 4 of the sleeper sees the work. Or ID2 is
//! before ID1: then step 3 of the poster sees `SLEEPING` (or a later value: `NOTIFIED` or `DRAFTED`, so another waker rouses W, and
//! W looks at all sources after it is roused; or `RUNNING`, W is awake and will run the sleep steps from the start).
//!
//! *Work for anyone.* Consider the last worker to pass ID2. If the poster's ID1 is before that fence, that worker sees
//! the work in step 4. Otherwise all workers have passed ID2 before ID1, and the poster looks at `searching`. If that is
//! 0, it drafts a sleeper, or finds that all have been notified: each of those looks at every source when it is awake, or
//! before it sleeps again, after ID1. If it is not 0, whoever holds the count (a worker or a poster) will take it off, and
//! look for work behind a fence after that: either that look finds our work, or the fence is before ID1 and we have seen
//! the count taken off.
//!
//! Rejected: a wake per posted piece (a syscall of 13 µs on the poster's side each); timed sleeps that look around
//! (an idle process would not be idle); SeqCst accesses instead of fences (the model checker weakens them).
//!
//! # Ordering
//!
//! | tag | side | pairs with |
//! |---|---|---|
//! | ID1 | poster's fence | ID2 |
//! | ID2 | sleeper's fence | ID1 |
//! | ID3 | waker's exchange to `NOTIFIED` or `DRAFTED`, AcqRel | the worker's exchange to `RUNNING`, AcqRel |

use crate::atomic::{AtomicU32, AtomicUsize, Ordering, fence};

const RUNNING: u32 = 0;
pub(crate) const SLEEPING: u32 = 1;
const NOTIFIED: u32 = 2;
const DRAFTED: u32 = 3;

/// What had happened to a worker's sleep word when it was awake again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Roused {
    /// Nobody roused it: a completion, a deadline or a signal did, or it changed its mind.
    ByItself,
    /// There is work for it.
    Notified,
    /// There is work for anyone, and this worker counts as searching: it owes an `end_search`.
    Drafted,
}

/// One worker's sleep word.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct SleepWord(AtomicU32);

impl SleepWord {
    pub(crate) fn new() -> Self {
        SleepWord(AtomicU32::new(RUNNING))
    }

    /// Any thread, after it made work for this worker visible. `true`: the caller must rouse the worker.
    #[must_use]
    #[inline]
    pub(crate) fn notify_after_post(&self) -> bool {
        // ID1, pairs with ID2.
        fence(Ordering::SeqCst);
        self.notify()
    }

    #[inline]
    fn notify(&self) -> bool {
        self.leave_sleep(NOTIFIED)
    }

    /// Whether the worker sleeps (or is about to) and nobody has notified it.
    #[inline]
    pub(crate) fn is_sleeping(&self) -> bool {
        self.0.load(Ordering::Relaxed) == SLEEPING
    }

    /// Inside [`Idle::after_post`] only. `true`: the caller must rouse the worker.
    #[must_use]
    pub(crate) fn draft(&self) -> bool {
        self.leave_sleep(DRAFTED)
    }

    #[inline]
    fn leave_sleep(&self, to: u32) -> bool {
        self.0.load(Ordering::Relaxed) == SLEEPING
            // ID3, pairs with `wake_up`.
            && self.0.compare_exchange(SLEEPING, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The word itself, for the kernel.
    #[cfg(not(urgo_loom))]
    pub(crate) fn raw(&self) -> &AtomicU32 {
        &self.0
    }
}

/// The shared counters.
#[derive(Debug)]
pub(crate) struct Idle {
    searching: AtomicUsize,
    sleepers: AtomicUsize,
}

impl Idle {
    pub(crate) fn new() -> Self {
        Idle {
            searching: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
        }
    }

    /// Any thread, after it made work for anyone visible: rouses a sleeper if that is called for.
    ///
    /// `draft` drafts one sleeper and rouses it, if it finds one; `someone_sleeps` says whether there is one to find;
    /// `has_work` whether there is (still) work for anyone.
    #[inline]
    pub(crate) fn after_post(
        &self,
        someone_sleeps: impl Fn() -> bool,
        has_work: impl Fn() -> bool,
        mut draft: impl FnMut() -> bool,
    ) {
        // ID1, pairs with ID2.
        fence(Ordering::SeqCst);
        while self.sleepers.load(Ordering::Relaxed) != 0 && someone_sleeps() && self.start_search()
        {
            // A drafted sleeper takes the count over. If all were notified by others meanwhile, whoever posted while we
            // held the count has relied on it: look again on their behalf.
            if draft() || !self.end_search() || !self.still(&has_work) {
                return;
            }
        }
    }

    /// Worker: ends its search without falling asleep next, having found work of some kind. Whoever posted during the
    /// search has relied on it, so if there is more, another worker is roused. The parameters are as in `after_post`.
    pub(crate) fn leave_search(
        &self,
        someone_sleeps: impl Fn() -> bool,
        has_work: impl Fn() -> bool,
        draft: impl FnMut() -> bool,
    ) {
        if self.end_search() && self.still(&has_work) {
            self.after_post(someone_sleeps, has_work, draft);
        }
    }

    /// Whether there is work, behind a fence that orders the end of a search before the look.
    fn still(&self, has_work: &impl Fn() -> bool) -> bool {
        // ID2, pairs with ID1: either the poster sees that the search is over, or we see its work.
        fence(Ordering::SeqCst);
        has_work()
    }

    /// Worker: starts to search. `false`: enough others search (at most one at a time), so go to sleep instead.
    pub(crate) fn start_search(&self) -> bool {
        self.searching.load(Ordering::Relaxed) == 0
            // AcqRel: total order of `searching`; pairs with itself.
            && self.searching.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Whether a worker searches. A hint: what it says may be over.
    pub(crate) fn is_searched(&self) -> bool {
        self.searching.load(Ordering::Relaxed) != 0
    }

    /// Ends a search. `true`: it was the last one. Followed by a look at all work: step 1 of sleeping, or `leave_search`.
    pub(crate) fn end_search(&self) -> bool {
        // SeqCst: step 1 of sleeping, ordered before ID2; pairs with the loads behind ID1.
        self.searching.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// Worker: steps 2 and 3. The caller must look at every source next.
    pub(crate) fn announce_sleep(&self, word: &SleepWord) {
        word.0.store(SLEEPING, Ordering::Relaxed);
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        // ID2, pairs with ID1.
        fence(Ordering::SeqCst);
    }

    /// Worker: awake again.
    #[must_use]
    pub(crate) fn wake_up(&self, word: &SleepWord) -> Roused {
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        // Pairs with ID3.
        match word.0.swap(RUNNING, Ordering::AcqRel) {
            NOTIFIED => Roused::Notified,
            DRAFTED => Roused::Drafted,
            _ => Roused::ByItself,
        }
    }
}

#[cfg(all(test, urgo_loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;

    /// A poster puts one piece of work into W's box while W falls asleep: W sees it, or is roused.
    #[test]
    fn loom_idle_targeted_post_is_never_lost() {
        loom::model(|| {
            let state = Arc::new((Idle::new(), SleepWord::new(), AtomicUsize::new(0)));
            let poster = {
                let state = state.clone();
                loom::thread::spawn(move || {
                    state.2.store(1, Ordering::Relaxed);
                    state.1.notify_after_post()
                })
            };
            let (idle, word, work) = &*state;
            idle.announce_sleep(word);
            let seen = work.load(Ordering::Relaxed) == 1;
            let roused = poster.join().unwrap();
            assert!(
                seen || roused,
                "the work is invisible and nobody rouses the worker"
            );
        });
    }

    /// A poster publishes work for anyone while two workers fall asleep, one of which was searching: at least one sees
    /// it or is notified.
    #[test]
    fn loom_idle_post_for_anyone_is_never_lost() {
        loom::model(|| {
            let state = Arc::new((
                Idle::new(),
                [SleepWord::new(), SleepWord::new()],
                AtomicUsize::new(0),
            ));
            assert!(state.0.start_search());
            let sleeper = |me: usize, searching: bool| {
                let state = state.clone();
                loom::thread::spawn(move || {
                    if searching {
                        state.0.end_search();
                    }
                    state.0.announce_sleep(&state.1[me]);
                    state.2.load(Ordering::Relaxed) == 1
                })
            };
            let workers = [sleeper(0, true), sleeper(1, false)];
            let (idle, words, work) = &*state;
            work.store(1, Ordering::Relaxed);
            let mut roused = false;
            idle.after_post(
                || words.iter().any(SleepWord::is_sleeping),
                || work.load(Ordering::Relaxed) == 1,
                || {
                    roused = words.iter().any(SleepWord::draft);
                    roused
                },
            );
            let seen = workers
                .into_iter()
                .map(|w| w.join().unwrap())
                .fold(false, |a, b| a | b);
            assert!(
                seen || roused,
                "the work is invisible and nobody is notified"
            );
        });
    }

    struct Post {
        idle: Idle,
        word: SleepWord,
        work: AtomicUsize,
    }

    impl Post {
        fn new() -> Arc<Post> {
            Arc::new(Post {
                idle: Idle::new(),
                word: SleepWord::new(),
                work: AtomicUsize::new(0),
            })
        }

        fn has_work(&self) -> bool {
            self.work.load(Ordering::Relaxed) != 0
        }

        fn post(&self, piece: usize) {
            self.work.fetch_or(piece, Ordering::Relaxed);
            self.idle.after_post(
                || self.word.is_sleeping(),
                || self.has_work(),
                || self.word.draft(),
            );
        }

        /// Work is there and the sleeper sleeps on.
        fn is_stranded(&self) -> bool {
            self.has_work() && self.word.is_sleeping()
        }
    }

    /// Two posters, and a worker that was notified by somebody just before: the first poster takes the count and finds
    /// nobody to draft, the second relies on it.
    #[test]
    fn loom_idle_two_posters_do_not_rely_on_each_other_in_vain() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let state = Post::new();
            state.idle.announce_sleep(&state.word);
            assert!(state.word.notify_after_post());
            let posters = [1, 2].map(|piece| {
                let state = state.clone();
                loom::thread::spawn(move || state.post(piece))
            });
            let mut roused = state.idle.wake_up(&state.word);
            for _ in 0..3 {
                if roused == Roused::Drafted {
                    state.idle.end_search();
                }
                state.work.swap(0, Ordering::Relaxed);
                state.idle.announce_sleep(&state.word);
                if !state.has_work() {
                    break;
                }
                roused = state.idle.wake_up(&state.word);
            }
            posters
                .into_iter()
                .for_each(|poster| poster.join().unwrap());
            assert!(!state.is_stranded(), "lost");
        });
    }

    /// One worker searches and ends its search because of work of its own, another sleeps, and somebody posts meanwhile.
    #[test]
    fn loom_idle_search_that_ends_early_strands_nothing() {
        loom::model(|| {
            let state = Post::new();
            state.idle.announce_sleep(&state.word);
            assert!(state.idle.start_search());
            let poster = {
                let state = state.clone();
                loom::thread::spawn(move || state.post(1))
            };
            state.idle.leave_search(
                || state.word.is_sleeping(),
                || state.has_work(),
                || state.word.draft(),
            );
            poster.join().unwrap();
            assert!(!state.is_stranded(), "lost");
        });
    }

    /// The same without the fences must fail: the model is able to see a lost wake-up.
    #[test]
    #[should_panic(expected = "lost")]
    fn loom_idle_canary_without_fences_loses_a_wake() {
        loom::model(|| {
            let state = Arc::new((AtomicU32::new(RUNNING), AtomicUsize::new(0)));
            let poster = {
                let state = state.clone();
                loom::thread::spawn(move || {
                    state.1.store(1, Ordering::Release);
                    state.0.load(Ordering::Acquire) == SLEEPING
                })
            };
            state.0.store(SLEEPING, Ordering::Release);
            let seen = state.1.load(Ordering::Acquire) == 1;
            assert!(poster.join().unwrap() || seen, "lost");
        });
    }
}

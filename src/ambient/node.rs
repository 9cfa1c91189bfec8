//! One context and its place in the tree.
//!
//! # Safety
//!
//! Waiters are reached through pointers that `add_waiter`'s contract keeps good.

#![allow(unsafe_code)]

use super::error::ContextError;
use super::homes::Homes;
use crate::atomic::{AtomicU32, Ordering, fence};
use crate::park::{Outcome, Waiter, Wake};
use core::ptr::NonNull;
use std::any::Any;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Why a context was cancelled, as its canceller says.
pub(crate) type Cause = Arc<dyn Error + Send + Sync>;

type Hook = Box<dyn FnOnce() + Send>;

const LIVE: u32 = 0;
const CANCELLED: u32 = 1;
const EXPIRED: u32 = 2;

/// See the module.
pub(crate) struct Node {
    /// `LIVE` until the cancellation comes; a deadline that passes leaves it alone.
    state: AtomicU32,
    /// Nanoseconds of the monotonic clock, the parent's included; `u64::MAX` is never.
    deadline: u64,
    parent: Option<Arc<Node>>,
    /// Its number among the parent's children.
    number: u64,
    value: Option<Box<dyn Any + Send + Sync>>,
    /// Set before `state` is (AM1).
    cause: OnceLock<Cause>,
    homes: Homes,
    /// What an upper room keeps with the node.
    attachment: OnceLock<Box<dyn Any + Send + Sync>>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Children and hooks are numbered alike.
    next: u64,
    children: BTreeMap<u64, Weak<Node>>,
    hooks: BTreeMap<u64, Hook>,
    waiters: BTreeMap<u64, Waiting>,
}

/// A waiter that stays until it was taken away, under the lock.
struct Waiting(NonNull<Waiter>);

// SAFETY: whoever added it keeps it alive; any thread may end a wait.
unsafe impl Send for Waiting {}

/// Names a hook, or a waiter, of one node.
#[derive(Debug)]
pub(crate) struct HookId(u64);

/// What is owed after a node was marked, outside every lock.
#[must_use]
pub(crate) struct Effects {
    /// Workers that must look at those who wait under the node.
    pub(crate) homes: Vec<u64>,
    hooks: BTreeMap<u64, Hook>,
    /// Of waiters whose wait was ended.
    pub(crate) wakes: Vec<Wake>,
}

impl Effects {
    /// Runs the node's hooks in the order in which they were added.
    pub(crate) fn run_hooks(self) {
        self.hooks.into_values().for_each(|hook| hook());
    }
}

impl Node {
    fn with(
        parent: Option<Arc<Node>>,
        number: u64,
        deadline: u64,
        value: Option<Box<dyn Any + Send + Sync>>,
    ) -> Node {
        Node {
            state: AtomicU32::new(LIVE),
            deadline,
            parent,
            number,
            value,
            cause: OnceLock::new(),
            homes: Homes::default(),
            attachment: OnceLock::new(),
            inner: Mutex::default(),
        }
    }

    /// A child with this deadline or the parent's; without a parent, a root. A child of a node that is over is over.
    pub(crate) fn child(
        parent: Option<Arc<Node>>,
        deadline: u64,
        value: Option<Box<dyn Any + Send + Sync>>,
    ) -> Arc<Node> {
        let Some(parent) = parent else {
            return Arc::new(Node::with(None, 0, deadline, value));
        };
        let deadline = deadline.min(parent.deadline);
        let mut inner = parent.lock();
        let number = inner.next;
        inner.next += 1;
        // Under the lock under which `cancel` marks and takes the children.
        let state = parent.state.load(Ordering::Relaxed);
        if state == LIVE {
            let above = parent.clone();
            let child = Arc::new(Node::with(Some(above), number, deadline, value));
            inner.children.insert(number, Arc::downgrade(&child));
            return child;
        }
        drop(inner);
        let cause = parent.cause.get().cloned();
        let child = Node::with(Some(parent), number, deadline, value);
        child.state.store(state, Ordering::Relaxed);
        if let Some(cause) = cause {
            let _ = child.cause.set(cause);
        }
        Arc::new(child)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.deadline
    }

    /// Why the node is over, as far as that does not depend on the clock.
    #[inline]
    pub(crate) fn ended(&self) -> Option<ContextError> {
        // AM1, pairs with the exchange in `end`.
        match self.state.load(Ordering::Acquire) {
            LIVE => None,
            state => Some(ended_by(state)),
        }
    }

    /// Why the node is over. Asks for the time only if there is a deadline. Whoever is told that it has passed has made that the
    /// reason for good.
    pub(crate) fn ended_at(&self, now: impl FnOnce() -> u64) -> Option<ContextError> {
        let ended = self.ended();
        if ended.is_some() || self.deadline == u64::MAX || now() < self.deadline {
            return ended;
        }
        Some(self.end(EXPIRED).map_or_else(ended_by, ended_by))
    }

    /// Ends the node for the reason `state`. `Ok`: it is that now; `Err`: it was over, for this reason.
    fn end(&self, state: u32) -> Result<u32, u32> {
        // AM1, pairs with the load in `ended`.
        self.state
            .compare_exchange(LIVE, state, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| state)
    }

    /// What its canceller said, if it did; a child's is its parent's.
    pub(crate) fn cause(&self) -> Option<Cause> {
        // AM1: the cause is there before the mark, and only then does it mean anything.
        let is_cancelled = self.ended() == Some(ContextError::Cancelled);
        self.cause.get().filter(|_| is_cancelled).cloned()
    }

    /// The nearest value of this type, from here upwards.
    pub(crate) fn value<T: Any>(&self) -> Option<&T> {
        let mut next = Some(self);
        while let Some(node) = next {
            let value = node.value.as_ref().and_then(|v| v.downcast_ref::<T>());
            if value.is_some() {
                return value;
            }
            next = node.parent.as_deref();
        }
        None
    }

    /// What an upper room keeps here; made at the first call.
    pub(crate) fn attachment<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> &T {
        self.attachment
            .get_or_init(|| Box::new(make()))
            .downcast_ref()
            .expect("one room uses it")
    }

    /// Notes that goroutines of worker `home` run under the node. Whoever waits there next asks [`ended`](Self::ended) first.
    #[inline]
    pub(crate) fn use_at(&self, home: u64) {
        if self.homes.add(home) {
            // AM2, pairs with the fence in `mark`.
            fence(Ordering::SeqCst);
        }
    }

    /// Adds something that is to happen at the cancellation, outside the node's lock, on the canceller's thread. `None`: the node is
    /// cancelled already, and the hook was dropped.
    pub(crate) fn add_hook(&self, hook: impl FnOnce() + Send + 'static) -> Option<HookId> {
        let mut inner = self.lock();
        if self.state.load(Ordering::Relaxed) != LIVE {
            return None;
        }
        let number = inner.next;
        inner.next += 1;
        inner.hooks.insert(number, Box::new(hook));
        Some(HookId(number))
    }

    /// Adds a wait that ends as if its deadline had passed when the node is cancelled. `None`: it is already, and the wait goes on.
    ///
    /// # Safety
    ///
    /// The waiter stays where it is until [`remove_waiter`](Self::remove_waiter) has returned.
    pub(crate) unsafe fn add_waiter(&self, waiter: &Waiter) -> Option<HookId> {
        let mut inner = self.lock();
        if self.state.load(Ordering::Relaxed) != LIVE {
            return None;
        }
        let number = inner.next;
        inner.next += 1;
        inner.waiters.insert(number, Waiting(NonNull::from(waiter)));
        Some(HookId(number))
    }

    /// Takes a waiter away, whatever has become of its wait.
    pub(crate) fn remove_waiter(&self, id: &HookId) {
        self.lock().waiters.remove(&id.0);
    }

    /// Takes a hook away. `false`: it has run, or runs at this moment.
    pub(crate) fn remove_hook(&self, id: &HookId) -> bool {
        let hook = self.lock().hooks.remove(&id.0);
        hook.is_some()
    }

    /// Cancels the node and all below it, unless it was before; `told` gets what is owed for each, in order. Any thread.
    pub(crate) fn cancel(
        self: &Arc<Node>,
        now: impl Fn() -> u64,
        cause: Option<Cause>,
        mut told: impl FnMut(&Arc<Node>, Effects),
    ) -> bool {
        let Some((effects, children)) = self.mark(now(), cause.as_ref()) else {
            return false;
        };
        told(self, effects);
        // Not by recursion: trees may be deep.
        let mut rest = reversed(children);
        // Let go at the end: one may be the last to hold a node, and what its value does when it is dropped must not come between.
        let mut seen = Vec::new();
        while let Some(node) = rest.pop() {
            let Some(node) = node.upgrade() else { continue };
            if let Some((effects, children)) = node.mark(now(), cause.as_ref()) {
                told(&node, effects);
                rest.append(&mut reversed(children));
            }
            seen.push(node);
        }
        true
    }

    /// `None` if it was marked before.
    fn mark(
        &self,
        now: u64,
        cause: Option<&Cause>,
    ) -> Option<(Effects, BTreeMap<u64, Weak<Node>>)> {
        let mut inner = self.lock();
        if self.state.load(Ordering::Relaxed) != LIVE {
            return None;
        }
        let state = if self.deadline <= now {
            EXPIRED
        } else {
            if let Some(cause) = cause {
                let _ = self.cause.set(cause.clone());
            }
            CANCELLED
        };
        // Below one whose deadline has passed everything is past it, too, and waits for nobody to say so.
        self.end(state).ok()?;
        let children = mem::take(&mut inner.children);
        let hooks = mem::take(&mut inner.hooks);
        // Under the lock, under which they are taken away before they go.
        let waiters = mem::take(&mut inner.waiters).into_values();
        let wakes = waiters
            // SAFETY: by `add_waiter`'s contract.
            .filter_map(|waiter| unsafe { waiter.0.as_ref() }.finish(Outcome::TimedOut))
            .collect();
        drop(inner);
        // AM2, pairs with the fence in `use_at`.
        fence(Ordering::SeqCst);
        let homes = self.homes.all();
        let effects = Effects {
            homes,
            hooks,
            wakes,
        };
        Some((effects, children))
    }

    /// Leaves the parent, which is returned.
    fn leave(&mut self) -> Option<Arc<Node>> {
        let parent = self.parent.take()?;
        parent.lock().children.remove(&self.number);
        Some(parent)
    }
}

/// The last child first.
fn reversed(children: BTreeMap<u64, Weak<Node>>) -> Vec<Weak<Node>> {
    children.into_values().rev().collect()
}

fn ended_by(state: u32) -> ContextError {
    if state == EXPIRED {
        ContextError::DeadlineExceeded
    } else {
        ContextError::Cancelled
    }
}

impl Drop for Node {
    /// Not by recursion: chains may be long.
    fn drop(&mut self) {
        let mut next = self.leave();
        while let Some(mut node) = next.and_then(Arc::into_inner) {
            next = node.leave();
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("ended", &self.ended())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    const NEVER: u64 = u64::MAX;

    fn root() -> Arc<Node> {
        Node::child(None, NEVER, None)
    }

    fn cancel(node: &Arc<Node>, now: u64) -> bool {
        node.cancel(|| now, None, |_, effects| effects.run_hooks())
    }

    #[test]
    fn a_cancellation_goes_down_and_not_up_in_the_order_of_birth() {
        let root = root();
        let order = Arc::new(Mutex::new(Vec::new()));
        let names = ["a", "a1", "a2", "b", "b1"];
        let a = Node::child(Some(root.clone()), NEVER, None);
        let b = Node::child(Some(root.clone()), NEVER, None);
        let b1 = Node::child(Some(b.clone()), NEVER, None);
        let a1 = Node::child(Some(a.clone()), NEVER, None);
        let a2 = Node::child(Some(a.clone()), NEVER, None);
        for (node, name) in [&a, &a1, &a2, &b, &b1].into_iter().zip(names) {
            let order = order.clone();
            node.add_hook(move || order.lock().unwrap().push(name))
                .unwrap();
        }
        assert!(cancel(&a1, 0));
        assert_eq!(root.ended(), None);
        assert_eq!(a.ended(), None);
        assert!(cancel(&root, 0));
        assert!(!cancel(&root, 0), "once");
        assert_eq!(*order.lock().unwrap(), ["a1", "a", "a2", "b", "b1"]);
        let late = Node::child(Some(b1.clone()), NEVER, None);
        assert_eq!(late.ended(), Some(ContextError::Cancelled));
        assert!(late.add_hook(|| ()).is_none());
    }

    #[test]
    fn the_earliest_deadline_is_inherited_and_stands_before_a_later_cancellation() {
        let root = root();
        let early = Node::child(Some(root.clone()), 10, None);
        let late = Node::child(Some(early.clone()), 20, None);
        assert_eq!(late.deadline(), 10);
        assert_eq!(late.ended_at(|| 9), None);
        assert_eq!(late.ended_at(|| 10), Some(ContextError::DeadlineExceeded));
        cancel(&root, 15);
        assert_eq!(root.ended(), Some(ContextError::Cancelled));
        assert_eq!(early.ended(), Some(ContextError::DeadlineExceeded));
        assert_eq!(late.ended(), Some(ContextError::DeadlineExceeded));
    }

    #[test]
    fn a_cause_goes_to_all_below_and_the_first_stands() {
        let root = root();
        let below = Node::child(
            Some(Node::child(Some(root.clone()), NEVER, None)),
            NEVER,
            None,
        );
        assert!(below.cause().is_none());
        let first: Cause = Arc::new(std::io::Error::other("first"));
        assert!(root.cancel(|| 0, Some(first), |_, _| ()));
        let second: Cause = Arc::new(std::io::Error::other("second"));
        assert!(!below.cancel(|| 0, Some(second), |_, _| ()));
        assert_eq!(below.cause().unwrap().to_string(), "first");
        let born_after = Node::child(Some(below), NEVER, None);
        assert_eq!(born_after.cause().unwrap().to_string(), "first");
    }

    #[test]
    fn the_nearest_value_of_a_type_is_found() {
        let root = root();
        let one = Node::child(Some(root), NEVER, Some(Box::new(1u32)));
        let name = Node::child(Some(one), NEVER, Some(Box::new("name")));
        let two = Node::child(Some(name.clone()), NEVER, Some(Box::new(2u32)));
        assert_eq!(two.value::<u32>(), Some(&2));
        assert_eq!(name.value::<u32>(), Some(&1));
        assert_eq!(two.value::<&str>(), Some(&"name"));
        assert_eq!(two.value::<u64>(), None);
    }

    #[test]
    fn nodes_that_go_leave_nothing_with_their_parent_however_long_the_chain() {
        let root = root();
        for _ in 0..1000 {
            drop(Node::child(Some(root.clone()), NEVER, None));
        }
        assert!(root.lock().children.is_empty());
        let mut chain = Node::child(Some(root.clone()), NEVER, None);
        for _ in 0..200_000 {
            chain = Node::child(Some(chain), NEVER, None);
        }
        let weak = Arc::downgrade(&chain);
        assert!(cancel(&root, 0));
        assert_eq!(chain.ended(), Some(ContextError::Cancelled));
        drop(chain);
        assert!(weak.upgrade().is_none());
        assert_eq!(Arc::strong_count(&root), 1);
    }

    #[test]
    fn a_hook_that_was_taken_away_does_not_run() {
        let root = root();
        let id = root.add_hook(|| panic!("taken away")).unwrap();
        assert!(root.remove_hook(&id));
        assert!(!root.remove_hook(&id));
        assert!(cancel(&root, 0));
    }

    /// Whoever enters while another cancels is told, or sees it.
    #[test]
    fn entering_and_cancelling_at_once_miss_each_other_never() {
        for round in 0..2_000 {
            let node = root();
            let told = std::thread::scope(|scope| {
                let canceller = scope.spawn(|| {
                    let mut told = false;
                    node.cancel(|| 0, None, |_, effects| told = effects.homes.contains(&5));
                    told
                });
                node.use_at(5);
                let seen = node.ended().is_some();
                canceller.join().unwrap() || seen
            });
            assert!(told, "round {round}");
        }
    }
}

//! Under which context a goroutine (or plain thread) runs, and how a cancellation gets to those who wait under it.
//!
//! # Algorithm
//!
//! 1. To run under a node is to have a [`Frame`] for it on one's own stack; the innermost frame counts. A goroutine that is spawned
//!    takes its spawner's node along in its control block, and has a frame when it starts.
//! 2. Each worker lists the frames of its own goroutines by their node, oldest first. Nobody else touches these lists, so entering
//!    and leaving take no lock, and a call under a context enters nothing anywhere. A frame borrows its node from its owner, so a stay
//!    counts nothing either.
//! 3. A node knows which workers have frames for it ([`Node::use_at`]). Who cancels a node marks it and leaves each of these workers a
//!    command; the worker goes through the list and ends the waits of those whose innermost frame it is. Waits are begun on the
//!    worker's thread too, each after a look at the mark ([`has_ended`], and `ended_before` in `operation`): so one that began before
//!    is seen in the list, and one that begins after sees the mark (AM2 in `ambient`). A frame that was told is out of the list.
//! 4. A worker tells so many at a time; then others have a turn.
//! 5. Only some waits are cut short: operations of the kernel, and those with a deadline of callers who heed their context.
//!
//! # Safety
//!
//! Frames are reached through raw pointers. A frame stays where it is until it is out of its list, which its owner sees to
//! before it goes; a goroutine with a frame is alive.

#![allow(unsafe_code)]

use super::remote::Command;
use super::shared::{Shared, runtime};
use super::wait::{now_ns, settle};
use super::worker::{Worker, current, worker};
use crate::ambient::{Cause, ContextError, Node};
use crate::goroutine::{Ambient, Goroutine, Short, Waiting};
use crate::limits::CONTEXT_TOLD_AT_ONCE;
use crate::park::{Outcome, Wake};
use core::cell::Cell;
use core::ptr::{self, NonNull};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

thread_local! {
    /// The innermost frame of a plain thread.
    static OF_THREAD: Cell<*const Frame<'static>> = const { Cell::new(ptr::null()) };
    /// A plain thread's waits for words heed its context.
    static THREAD_HEEDS: Cell<bool> = const { Cell::new(false) };
}

/// One stay under a node, on the stack of whoever stays.
#[derive(Debug)]
struct Frame<'a> {
    /// `None`: the background, which is never over.
    node: Option<&'a Arc<Node>>,
    /// `None` on a plain thread.
    goroutine: Option<NonNull<Goroutine>>,
    /// What was in force before.
    outer: Cell<*const Frame<'static>>,
    /// Links of the worker's list, while `is_listed`.
    next: Cell<*const Frame<'static>>,
    prev: Cell<*const Frame<'static>>,
    is_listed: Cell<bool>,
}

/// A worker's frames by node, each a list from the oldest to the newest.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    lists: HashMap<Key, List, BuildHasherDefault<AddressHasher>>,
}

/// A node's name in lists and commands. Holds nothing: the node may be gone, and another be in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(usize);

impl Key {
    fn of(node: &Arc<Node>) -> Key {
        Key(Arc::as_ptr(node).addr())
    }
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: *const Frame<'static>,
    last: *const Frame<'static>,
}

impl Frames {
    /// `first` is called if it is the first of its node.
    fn add(&mut self, node: &Arc<Node>, frame: &Frame<'_>, first: impl FnOnce()) {
        debug_assert!(!frame.is_listed.get());
        let this = frame.address();
        frame.is_listed.set(true);
        frame.next.set(ptr::null());
        let list = self.lists.entry(Key::of(node));
        let list = list
            .and_modify(|list| {
                frame.prev.set(list.last);
                // SAFETY: listed, so alive, and this worker's.
                unsafe { &*list.last }.next.set(this);
                list.last = this;
            })
            .or_insert_with(|| {
                first();
                List {
                    first: this,
                    last: this,
                }
            });
        if list.first == this {
            frame.prev.set(ptr::null());
        }
    }

    /// Takes `frame` out, if it is in.
    fn remove(&mut self, frame: &Frame<'_>) {
        let Some(node) = frame.node.filter(|_| frame.is_listed.replace(false)) else {
            return;
        };
        let (prev, next) = (frame.prev.get(), frame.next.get());
        let key = Key::of(node);
        // SAFETY: neighbours are listed, so alive, and this worker's.
        if let Some(prev) = unsafe { prev.as_ref() } {
            prev.next.set(next);
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { next.as_ref() } {
            next.prev.set(prev);
        }
        if prev.is_null() && next.is_null() {
            self.lists.remove(&key);
        } else if (prev.is_null() || next.is_null())
            && let Some(list) = self.lists.get_mut(&key)
        {
            if prev.is_null() {
                list.first = next;
            } else {
                list.last = prev;
            }
        }
    }

    /// Takes the oldest frame of a node out, if the node is over.
    fn take_ended(&mut self, key: Key) -> Option<NonNull<Frame<'static>>> {
        let first = NonNull::new(self.lists.get(&key)?.first.cast_mut())?;
        // SAFETY: listed, so alive, and this worker's.
        let frame = unsafe { first.as_ref() };
        // Another node may have come to the address since the command was sent.
        frame.node?.ended()?;
        self.remove(frame);
        Some(first)
    }

    fn has(&self, key: Key) -> bool {
        self.lists.contains_key(&key)
    }
}

/// Addresses of allocations are well spread but for their lowest bits.
#[derive(Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(SPREAD);
        }
    }

    fn write_usize(&mut self, address: usize) {
        self.0 = (address as u64).wrapping_mul(SPREAD).rotate_left(29);
    }
}

/// 2^64 divided by the golden ratio, made odd (Knuth's multiplicative hashing).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Calls `f` under `node`, or the background: what is done there by the calling goroutine or thread, and by goroutines that it spawns there, is wanted as long
/// as the node is not over.
pub(crate) fn enter<R>(node: Option<&Arc<Node>>, f: impl FnOnce() -> R) -> R {
    let frame = Frame {
        node,
        goroutine: current().map(NonNull::from),
        outer: Cell::new(ptr::null()),
        next: Cell::new(ptr::null()),
        prev: Cell::new(ptr::null()),
        is_listed: Cell::new(false),
    };
    let _inside = Inside::of(&frame);
    f()
}

/// A frame that is in force. Until it is dropped the frame does not move.
struct Inside<'a>(&'a Frame<'a>);

impl<'a> Inside<'a> {
    fn of(frame: &'a Frame<'a>) -> Inside<'a> {
        let this = frame.address();
        match worker().zip(current()) {
            Some((worker, g)) => {
                frame
                    .outer
                    .set(frame_of(g).map_or(ptr::null(), ptr::from_ref));
                if let Some(node) = frame.node {
                    let first = || node.use_at(worker.home_number());
                    worker.with_frames(|frames| frames.add(node, frame, first));
                }
                set_frame(g, this);
            }
            None => frame.outer.set(OF_THREAD.replace(this)),
        }
        Inside(frame)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let outer = self.0.outer.get();
        match worker().zip(current()) {
            Some((worker, g)) => {
                worker.with_frames(|frames| frames.remove(self.0));
                set_frame(g, outer);
            }
            None => OF_THREAD.set(outer),
        }
    }
}

impl Frame<'_> {
    /// For lists and goroutines, who do not follow it for longer than the frame is in force.
    fn address(&self) -> *const Frame<'static> {
        ptr::from_ref(self).cast()
    }
}

fn set_frame(g: &Goroutine, frame: *const Frame<'static>) {
    g.has_ambient.set(!frame.is_null());
    if !frame.is_null() {
        g.ambient.set(Ambient::Frame(frame.cast()));
    }
}

/// The innermost frame of a goroutine that has started. On its worker's thread.
#[inline]
fn frame_of(g: &Goroutine) -> Option<&Frame<'_>> {
    if !g.has_ambient.get() {
        return None;
    }
    match g.ambient.get() {
        // SAFETY: set by `set_frame`; a frame is taken back before it goes.
        Ambient::Frame(frame) => Some(unsafe { &*frame.cast::<Frame<'_>>() }),
        Ambient::Inherited(_) => None,
    }
}

/// The node under which the running goroutine's calls are made, unless they are not to be cut short.
#[inline]
pub(super) fn node_of(g: &Goroutine) -> Option<&Node> {
    if !g.has_ambient.get() || g.uncancellable.get() != 0 {
        return None;
    }
    frame_of(g)?.node.map(|node| &**node)
}

/// The node under which the caller, goroutine or thread, runs.
pub(crate) fn ambient() -> Option<Arc<Node>> {
    let frame = match current() {
        Some(g) => frame_of(g),
        // SAFETY: a frame is taken back before it goes.
        None => unsafe { OF_THREAD.try_with(Cell::get).ok()?.as_ref() },
    };
    frame?.node.cloned()
}

/// As [`ambient`], for a call that is about to wait: nothing where it must not be cut short.
pub(crate) fn in_force() -> Option<Arc<Node>> {
    ambient().filter(|_| !is_shielded())
}

/// Whether the caller is in a part that must not be cut short.
pub(crate) fn is_shielded() -> bool {
    current().is_some_and(|g| g.uncancellable.get() != 0)
}

/// What a goroutine takes along that `spawner` makes, or a plain thread.
#[inline]
pub(super) fn inherit(block: &Goroutine, spawner: Option<&Goroutine>) {
    let has_ambient = match spawner {
        Some(g) => g.has_ambient.get(),
        None => OF_THREAD.try_with(|frame| !frame.get().is_null()) == Ok(true),
    };
    block.heeds_context.set(false);
    block.has_ambient.set(has_ambient);
    if has_ambient {
        inherit_node(block);
    }
}

#[cold]
fn inherit_node(block: &Goroutine) {
    match ambient() {
        Some(node) => block.ambient.set(Ambient::Inherited(Arc::into_raw(node))),
        None => block.has_ambient.set(false),
    }
}

/// Whether a wait of `g` that is about to begin is to end at once, because the context that it heeds is cancelled.
#[inline]
pub(super) fn has_ended(g: &Goroutine) -> bool {
    g.heeds_context.get() && node_of(g).is_some_and(|node| node.ended().is_some())
}

/// Calls `f` under `node`; a wait for a word that it begins, with a deadline ([`FAR`](super::FAR) will do), ends as if the deadline
/// had passed when `node` is cancelled, or if it is already.
pub(crate) fn heeding<R>(node: &Arc<Node>, f: impl FnOnce() -> R) -> R {
    struct Undo(bool);
    impl Drop for Undo {
        fn drop(&mut self) {
            set_heeds(self.0);
        }
    }
    enter(Some(node), || {
        let _undo = Undo(set_heeds(true));
        f()
    })
}

/// Returns what was before.
fn set_heeds(heeds: bool) -> bool {
    match current() {
        Some(g) => g.heeds_context.replace(heeds),
        None => THREAD_HEEDS.replace(heeds),
    }
}

/// The node whose cancellation is to end the calling plain thread's wait.
pub(super) fn heeded_by_thread() -> Option<Arc<Node>> {
    match THREAD_HEEDS.try_with(Cell::get) {
        Ok(true) => ambient(),
        _ => None,
    }
}

/// Any thread. Cancels `node` and all below it, and tells those who wait there. `false`: it was before.
pub(crate) fn cancel(node: &Arc<Node>, cause: Option<Cause>) -> bool {
    node.cancel(now_ns, cause, |node, effects| {
        for home in &effects.homes {
            tell(Key::of(node), *home);
        }
        effects.wakes.iter().copied().for_each(settle);
        effects.run_hooks();
    })
}

/// Why `node` is over, by the clock as the caller's worker saw it last, some hundred microseconds ago at most: a look of its own costs
/// as much as many a call.
pub(crate) fn ended_lately(node: &Node) -> Option<ContextError> {
    match worker() {
        Some(worker) => node.ended_at(|| worker.seen_ns.get()),
        None => ended(node),
    }
}

/// Why `node` is over, by the caller's clock.
pub(crate) fn ended(node: &Node) -> Option<ContextError> {
    node.ended_at(now_ns)
}

fn tell(key: Key, home: u64) {
    let (number, index) = split(home);
    if let Some(worker) = worker()
        && worker.shared.number == number
    {
        if worker.remote.index == index {
            worker.context_ended(key);
        } else {
            worker.shared.remotes[index].command(Command::ContextEnded(key));
        }
    } else if let Some(shared) = runtime(number).filter(|shared| !shared.stop.is_over()) {
        shared.remotes[index].command(Command::ContextEnded(key));
    }
}

/// Workers fit into this many bits.
const INDEX_BITS: u32 = 16;
const _: () = assert!(crate::limits::WORKERS_MAX < 1 << INDEX_BITS);

/// A worker as a number: its runtime's, which begins at 1, and its index.
fn join(number: u64, index: usize) -> u64 {
    number << INDEX_BITS | index as u64
}

fn split(home: u64) -> (u64, usize) {
    (
        home >> INDEX_BITS,
        (home & ((1 << INDEX_BITS) - 1)) as usize,
    )
}

impl Shared {
    /// The worker with this index as a node knows it.
    pub(super) fn home_number(&self, index: usize) -> u64 {
        join(self.number, index)
    }
}

impl Worker {
    #[inline]
    fn home_number(&self) -> u64 {
        self.shared.home_number(self.remote.index)
    }

    /// Whether a goroutine of this worker runs under a context that may end.
    pub(super) fn has_contexts(&self) -> bool {
        self.with_frames(|frames| !frames.lists.is_empty())
    }

    /// This worker's thread. The node was marked: ends the waits under it. If there are many, the rest comes later. Nobody's node is
    /// held here: to let go of the last of it is to run what its value does when it is dropped, which is no work for a worker.
    pub(super) fn context_ended(&self, key: Key) {
        for _ in 0..CONTEXT_TOLD_AT_ONCE {
            let Some(frame) = self.with_frames(|frames| frames.take_ended(key)) else {
                return;
            };
            // SAFETY: it was in the list a moment ago, and its goroutine has not run since.
            let frame = unsafe { frame.as_ref() };
            let Some(g) = frame.goroutine else { continue };
            // SAFETY: a goroutine with a frame is alive, and homed on the worker that lists it.
            let g = unsafe { g.as_ref() };
            if frame_of(g).is_some_and(|innermost| ptr::eq(innermost, frame)) {
                self.cut_short(g);
            }
        }
        if self.with_frames(|frames| frames.has(key)) {
            self.remote.command(Command::ContextEnded(key));
        }
    }

    fn cut_short(&self, g: &Goroutine) {
        match g.waiting.get() {
            Waiting::Word(waiter) | Waiting::Unwinding(Short::Word(waiter))
                if g.heeds_context.get() =>
            {
                // SAFETY: `waiting` names a waiter only while the goroutine is suspended in it.
                if let Some(Wake::Goroutine(_)) = unsafe { &*waiter }.finish(Outcome::TimedOut) {
                    self.run_queue.push(NonNull::from(g));
                }
            }
            Waiting::Operation(operation) | Waiting::Unwinding(Short::Operation(operation)) => {
                self.cancel_operation(operation);
            }
            Waiting::No | Waiting::Word(_) | Waiting::Unwinding(Short::Word(_)) => {}
        }
    }
}

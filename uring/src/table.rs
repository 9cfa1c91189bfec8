//! The operation table: who may touch an op's memory, and when its slot may be used again. No kernel in here.
//!
//! **Words.** *Published*: the SQE is in the submission queue, so the kernel may take it at any time, whatever `enter`
//! returned. *Debt*: what the caller of a transition now owes, as a `#[must_use]` value.
//!
//! **State x event.** Columns are what can happen, cells the next state and the debt; `-` is counted and changes nothing,
//! `!` is a caller's mistake and panics.
//!
//! | state | publish | withdraw | mark cancel | record, last | record, `F_MORE` | notification | take |
//! |---|---|---|---|---|---|---|---|
//! | Free | ! | ! | - | stale | stale | stale | ! |
//! | Registered | Queued (+SendCancel if marked) | Free, gen+1 | marked | foreign | foreign | foreign | ! |
//! | Queued, InFlight | ! | ! | marked, Send | Terminal, Ready | Streaming, Record; zero-copy: AwaitNotif, Held | NotifFirst, Held | ! |
//! | Streaming | ! | ! | marked, Send | Terminal, Ready | Streaming, Record | - foreign | ! |
//! | AwaitNotif | ! | ! | marked | dup | dup | Terminal, Ready | ! |
//! | NotifFirst | ! | ! | marked | Terminal, Ready | Terminal, Ready | dup | ! |
//! | Terminal | ! | ! | - | dup | dup | dup | Free, gen+1 |
//!
//! Two more events come to the table as a whole, at the end of its owners. *Retire*, with nothing published: Registered is
//! withdrawn, Terminal given up, and every token issued so far is of a retired owner. *Leak*: what is published goes out of
//! the books, its memory for ever the kernel's.
//!
//! Queued and InFlight are one stored state: they differ only in whether the kernel has taken the SQE, which is read off
//! the slot's SQE number and the number of SQEs taken so far. *Acked* is the instant inside `take`.
//!
//! A record of an older generation is `stale` in every state, of a newer one (never issued) `foreign`, and for a slot out
//! of service, or of a token whose owner is retired, `retired`.
//!
//! **Order of slots.** The free list is last in, first out, so that a busy ring keeps using the few slots that are in
//! cache. That is safe because a token never repeats: a slot whose 40-bit generation is used up goes out of service.
//!
//! **Growth.** By chunks; a slot never moves. Never shrinks: the high-water mark is bounded by what was once in flight.
//!
//! **By descriptor.** Unfinished ops with a descriptor are chained per `fd % heads`, so closing looks only at its own.

use crate::counters::Counters;
use crate::token::{GENERATION_MAX, Kind, Owner, SLOTS_MAX, Token};

/// Small in unit tests, so that growth is common and a table is cheap to copy.
const CHUNK_BITS: u32 = if cfg!(test) { 2 } else { 8 };
const CHUNK_SLOTS: usize = 1 << CHUNK_BITS;
const CHUNKS_MAX: usize = SLOTS_MAX as usize / CHUNK_SLOTS;
const NIL: u32 = u32::MAX;

/// `IORING_CQE_F_MORE`: the op goes on.
const MORE: u32 = 1 << 1;
/// `IORING_CQE_F_NOTIF`: a zero-copy buffer is free.
const NOTIFICATION: u32 = 1 << 3;

/// The table has no slot left: 1,048,576 ops of this ring are unfinished or not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFull;

impl std::fmt::Display for TableFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{SLOTS_MAX} operations are outstanding on one ring; no more can be registered"
        )
    }
}

impl std::error::Error for TableFull {}

/// Where an op is between registration and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The token is not current: never issued, or its outcome has been taken.
    Free,
    /// Has a slot, no SQE yet. Can be withdrawn.
    Registered,
    /// The SQE is written; the kernel has not taken it yet, and may at any time.
    Queued,
    /// The kernel has it and may write its memory.
    InFlight,
    /// As `InFlight`, with some records already delivered.
    Streaming,
    /// Zero-copy: the result is in, the buffer is still the kernel's.
    AwaitNotif,
    /// Over. The memory is the caller's again; the outcome waits to be taken.
    Terminal,
}

/// What an op came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The kernel's result: a count or descriptor, or a negated errno.
    pub res: i32,
    /// The flags of the deciding record.
    pub flags: u32,
    /// Cancellation was asked for before the last record was applied. The result may still be a success.
    pub cancel_marked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Registered,
    Published,
    Streaming,
    AwaitNotif,
    /// The notification overtook the result.
    NotifFirst,
    Terminal,
    /// Out of service: generations used up.
    Retired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cancel {
    None,
    Marked,
    Sent,
}

/// One op. Exactly a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Slot {
    /// Free: the generation the next op here will get. Otherwise: of the op.
    generation: u64,
    /// Set from Registered to Terminal.
    owner: Option<Owner>,
    /// Number of the op's SQE, counted from 1, once published.
    sqe: u64,
    /// Generations below this belong to retired owners.
    retired_below: u64,
    /// Valid in Terminal and AwaitNotif.
    res: i32,
    flags: u32,
    /// -1: none.
    fd: i32,
    /// Free: next free slot. Registered to NotifFirst with a descriptor: neighbours in the descriptor's chain.
    next: u32,
    prev: u32,
    state: State,
    cancel: Cancel,
    kind: Kind,
}

const _: () = assert!(size_of::<Slot>() == 64);

const EMPTY: Slot = Slot {
    generation: 0,
    owner: None,
    sqe: 0,
    retired_below: 0,
    res: 0,
    flags: 0,
    fd: -1,
    next: NIL,
    prev: NIL,
    state: State::Free,
    cancel: Cancel::None,
    kind: Kind::OneShot,
};

/// Debt of publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Published {
    Nothing,
    /// Cancellation was asked for while the op was only registered: send it after the SQE.
    SendCancel,
}

/// Debt of asking for cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum CancelDebt {
    /// Over, unknown, not published yet, or asked before.
    Nothing,
    /// Write a cancel request for this exact token.
    Send,
}

/// Debt of applying one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Applied {
    /// The op's last record: report it, once.
    Ready(Owner),
    /// One record of a stream: hand its result on.
    Record(Owner),
    /// Kept until the other record of a zero-copy pair comes.
    Held,
    /// Counted, not applied.
    Discarded,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Table {
    /// Boxed, because a slot never moves.
    #[cfg_attr(
        test,
        allow(clippy::vec_box, reason = "chunks are small in unit tests")
    )]
    chunks: Vec<Box<[Slot; CHUNK_SLOTS]>>,
    free: u32,
    /// Slots below this have been used at least once.
    used: u32,
    limit: u32,
    /// Chain heads by `fd & (len - 1)`; the length is a power of two.
    heads: Vec<u32>,
    live: u32,
    terminal: u32,
    pub(crate) counters: Counters,
}

impl Table {
    pub(crate) fn new() -> Table {
        Table::with_limit(SLOTS_MAX)
    }

    fn with_limit(limit: u32) -> Table {
        Table {
            chunks: Vec::with_capacity(16),
            free: NIL,
            used: 0,
            limit: limit.min(SLOTS_MAX),
            heads: Vec::new(),
            live: 0,
            terminal: 0,
            counters: Counters::default(),
        }
    }

    #[inline]
    fn at(&self, index: u32) -> &Slot {
        &self.chunks[(index >> CHUNK_BITS) as usize][index as usize & (CHUNK_SLOTS - 1)]
    }

    #[inline]
    fn at_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.chunks[(index >> CHUNK_BITS) as usize][index as usize & (CHUNK_SLOTS - 1)]
    }

    /// The slot of a token that is current, that is neither free nor of another generation.
    #[inline]
    fn current(&self, token: Token) -> Option<&Slot> {
        if token.slot() >= self.used {
            return None;
        }
        let slot = self.at(token.slot());
        let is_current = slot.generation == token.generation()
            && !matches!(slot.state, State::Free | State::Retired);
        is_current.then_some(slot)
    }

    /// Free -> Registered.
    #[inline]
    pub(crate) fn register(
        &mut self,
        kind: Kind,
        fd: i32,
        owner: Owner,
    ) -> Result<Token, TableFull> {
        let index = if self.free != NIL {
            let index = self.free;
            self.free = self.at(index).next;
            index
        } else {
            self.fresh_slot()?
        };
        let slot = self.at_mut(index);
        debug_assert_eq!(slot.state, State::Free);
        slot.state = State::Registered;
        slot.cancel = Cancel::None;
        slot.kind = kind;
        slot.owner = Some(owner);
        slot.fd = fd;
        slot.next = NIL;
        slot.prev = NIL;
        let generation = slot.generation;
        if fd >= 0 {
            self.link(index, fd);
        }
        self.live += 1;
        self.counters.registered += 1;
        Ok(Token::new(kind, index, generation))
    }

    fn fresh_slot(&mut self) -> Result<u32, TableFull> {
        if self.used >= self.limit {
            return Err(TableFull);
        }
        let index = self.used;
        if index as usize == self.chunks.len() * CHUNK_SLOTS {
            self.grow();
        }
        self.used += 1;
        Ok(index)
    }

    #[cold]
    fn grow(&mut self) {
        debug_assert!(self.chunks.len() < CHUNKS_MAX);
        self.chunks.push(Box::new([EMPTY; CHUNK_SLOTS]));
        let capacity = self.chunks.len() * CHUNK_SLOTS;
        if self.heads.len() < capacity {
            self.rehash(capacity.next_power_of_two());
        }
    }

    #[cold]
    fn rehash(&mut self, heads: usize) {
        self.heads = vec![NIL; heads];
        for index in 0..self.used {
            let slot = self.at(index);
            if slot.fd >= 0 && Self::is_unfinished(slot.state) {
                let fd = slot.fd;
                self.link(index, fd);
            }
        }
    }

    fn is_unfinished(state: State) -> bool {
        !matches!(state, State::Free | State::Terminal | State::Retired)
    }

    #[inline]
    fn head_of(&self, fd: i32) -> usize {
        fd as usize & (self.heads.len() - 1)
    }

    #[inline]
    fn link(&mut self, index: u32, fd: i32) {
        let head = self.head_of(fd);
        let first = std::mem::replace(&mut self.heads[head], index);
        let slot = self.at_mut(index);
        slot.next = first;
        slot.prev = NIL;
        if first != NIL {
            self.at_mut(first).prev = index;
        }
    }

    #[inline]
    fn unlink(&mut self, index: u32) {
        let &Slot { fd, next, prev, .. } = self.at(index);
        if fd < 0 {
            return;
        }
        if prev == NIL {
            let head = self.head_of(fd);
            self.heads[head] = next;
        } else {
            self.at_mut(prev).next = next;
        }
        if next != NIL {
            self.at_mut(next).prev = prev;
        }
    }

    /// Registered -> Queued. Call in the same breath as writing SQE number `sqe`, after
    /// [`expect_registered`](Self::expect_registered).
    #[inline]
    pub(crate) fn publish(&mut self, token: Token, sqe: u64) -> Published {
        let slot = self.at_mut(token.slot());
        debug_assert!(slot.state == State::Registered && slot.generation == token.generation());
        slot.state = State::Published;
        slot.sqe = sqe;
        let owes_cancel = slot.cancel == Cancel::Marked;
        self.counters.submitted += 1;
        if owes_cancel {
            Published::SendCancel
        } else {
            Published::Nothing
        }
    }

    /// Panics unless the op is Registered: queueing twice, or a token whose outcome was taken, is a caller's mistake.
    #[inline]
    #[track_caller]
    pub(crate) fn expect_registered(&self, token: Token) {
        match self.current(token) {
            Some(slot) if slot.state == State::Registered => {}
            _ => misuse(token, "is not waiting to be queued"),
        }
    }

    /// Registered -> Free(gen+1).
    #[track_caller]
    pub(crate) fn withdraw(&mut self, token: Token) {
        self.expect_registered(token);
        self.unlink(token.slot());
        self.counters.withdrawn += 1;
        self.release(token.slot());
    }

    /// Marks; the op itself goes on until its last record.
    #[inline]
    pub(crate) fn mark_cancel(&mut self, token: Token) -> CancelDebt {
        match self.current(token) {
            Some(slot) if slot.cancel == Cancel::None => {}
            _ => return CancelDebt::Nothing,
        }
        let slot = self.at_mut(token.slot());
        match slot.state {
            State::Published | State::Streaming => {
                slot.cancel = Cancel::Marked;
                CancelDebt::Send
            }
            State::Registered | State::AwaitNotif | State::NotifFirst => {
                slot.cancel = Cancel::Marked;
                CancelDebt::Nothing
            }
            State::Free | State::Terminal | State::Retired => CancelDebt::Nothing,
        }
    }

    /// True, once, when a marked op can still be reached by a cancel request; the caller now writes it.
    pub(crate) fn begin_cancel(&mut self, token: Token) -> bool {
        match self.current(token) {
            Some(slot)
                if slot.cancel == Cancel::Marked
                    && matches!(slot.state, State::Published | State::Streaming) => {}
            _ => return false,
        }
        self.at_mut(token.slot()).cancel = Cancel::Sent;
        true
    }

    /// Lets a cancel be sent again, for an op that has outlived one. False if the op is over.
    pub(crate) fn renew_cancel(&mut self, token: Token) -> bool {
        let is_reachable = self
            .current(token)
            .is_some_and(|slot| matches!(slot.state, State::Published | State::Streaming));
        if is_reachable {
            self.at_mut(token.slot()).cancel = Cancel::Marked;
        }
        is_reachable
    }

    pub(crate) fn is_cancel_marked(&self, token: Token) -> bool {
        self.current(token)
            .is_some_and(|slot| slot.cancel != Cancel::None)
    }

    /// First unfinished op of a descriptor's chain; the walk goes on with [`next_on_fd`](Self::next_on_fd).
    pub(crate) fn first_on_fd(&self, fd: i32) -> Option<Token> {
        if fd < 0 || self.heads.is_empty() {
            return None;
        }
        self.on_fd_from(self.heads[self.head_of(fd)], fd)
    }

    pub(crate) fn next_on_fd(&self, token: Token) -> Option<Token> {
        let slot = self.current(token)?;
        self.on_fd_from(slot.next, slot.fd)
    }

    fn on_fd_from(&self, mut index: u32, fd: i32) -> Option<Token> {
        while index != NIL {
            let slot = self.at(index);
            if slot.fd == fd {
                return Some(Token::new(slot.kind, index, slot.generation));
            }
            index = slot.next;
        }
        None
    }

    /// The `n`-th slot's op, if it is unfinished. For walks over everything, `0..used()`.
    pub(crate) fn unfinished_at(&self, index: u32) -> Option<(Token, Owner)> {
        let slot = self.at(index);
        let owner = slot.owner.filter(|_| Self::is_unfinished(slot.state))?;
        Some((Token::new(slot.kind, index, slot.generation), owner))
    }

    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// Applies one completion record. See the table at the top.
    #[inline]
    pub(crate) fn apply(&mut self, token: Token, res: i32, flags: u32) -> Applied {
        let index = token.slot();
        if index >= self.used {
            self.counters.foreign += 1;
            return Applied::Discarded;
        }
        let slot = self.at_mut(index);
        if slot.generation != token.generation() || slot.kind != token.kind() {
            return self.discard(token);
        }
        // Nearly every record: the only one of its op.
        if slot.state == State::Published && flags & (MORE | NOTIFICATION) == 0 {
            slot.res = res;
            slot.flags = flags;
            return self.finish(index);
        }
        self.apply_slow(token, res, flags)
    }

    fn apply_slow(&mut self, token: Token, res: i32, flags: u32) -> Applied {
        let index = token.slot();
        let slot = self.at_mut(index);
        let has_more = flags & MORE != 0;
        let is_notification = flags & NOTIFICATION != 0;
        match slot.state {
            State::Streaming if !has_more && !is_notification => {
                slot.res = res;
                slot.flags = flags;
                self.finish(index)
            }
            State::Published if is_notification && slot.kind == Kind::ZeroCopy => {
                slot.state = State::NotifFirst;
                Applied::Held
            }
            State::Published if has_more && slot.kind == Kind::ZeroCopy => {
                slot.res = res;
                slot.flags = flags;
                slot.state = State::AwaitNotif;
                self.counters.notification_waits += 1;
                Applied::Held
            }
            State::Published | State::Streaming if !is_notification => {
                slot.state = State::Streaming;
                let owner = slot.owner;
                self.counters.records += 1;
                owner.map_or(Applied::Discarded, Applied::Record)
            }
            State::AwaitNotif if is_notification => self.finish(index),
            State::NotifFirst if !is_notification => {
                slot.res = res;
                slot.flags = flags;
                self.finish(index)
            }
            _ => self.discard(token),
        }
    }

    /// -> Terminal.
    #[inline]
    fn finish(&mut self, index: u32) -> Applied {
        self.unlink(index);
        let slot = self.at_mut(index);
        slot.state = State::Terminal;
        let (owner, res, is_marked) = (slot.owner, slot.res, slot.cancel != Cancel::None);
        match -res {
            libc::ECANCELED | libc::EINTR if is_marked => self.counters.cancelled += 1,
            libc::EFAULT => self.counters.faulted += 1,
            _ => self.counters.completed += 1,
        }
        self.terminal += 1;
        owner.map_or(Applied::Discarded, Applied::Ready)
    }

    #[cold]
    fn discard(&mut self, token: Token) -> Applied {
        let slot = *self.at(token.slot());
        let is_retired = slot.state == State::Retired || token.generation() < slot.retired_below;
        let counter = if is_retired {
            &mut self.counters.retired
        } else if token.generation() < slot.generation {
            &mut self.counters.stale
        } else if token.generation() > slot.generation || slot.kind != token.kind() {
            &mut self.counters.foreign
        } else if matches!(
            slot.state,
            State::Terminal | State::AwaitNotif | State::NotifFirst
        ) {
            &mut self.counters.dup
        } else {
            &mut self.counters.foreign
        };
        *counter += 1;
        Applied::Discarded
    }

    /// Terminal -> Free(gen+1).
    #[inline]
    #[track_caller]
    pub(crate) fn take(&mut self, token: Token) -> Outcome {
        let outcome = match self.current(token) {
            Some(slot) if slot.state == State::Terminal => Outcome {
                res: slot.res,
                flags: slot.flags,
                cancel_marked: slot.cancel != Cancel::None,
            },
            _ => misuse(token, "has no outcome to take"),
        };
        self.terminal -= 1;
        self.release(token.slot());
        outcome
    }

    /// The `n`-th slot's op, if its outcome waits to be taken. For walks over everything, `0..used()`.
    pub(crate) fn finished_at(&self, index: u32) -> Option<(Token, Owner)> {
        let slot = self.at(index);
        let owner = slot.owner.filter(|_| slot.state == State::Terminal)?;
        Some((Token::new(slot.kind, index, slot.generation), owner))
    }

    /// Registered -> Free(gen+1), for every such op.
    pub(crate) fn withdraw_all(&mut self) {
        for index in 0..self.used {
            if self.at(index).state == State::Registered {
                self.unlink(index);
                self.counters.withdrawn += 1;
                self.release(index);
            }
        }
    }

    /// Everything -> Free(gen+1); later records of any token issued so far are `retired`. Nothing may be published.
    pub(crate) fn retire(&mut self) {
        assert_eq!(self.published(), 0, "an op is still the kernel's");
        self.withdraw_all();
        for index in 0..self.used {
            if self.at(index).state == State::Terminal {
                self.terminal -= 1;
                self.release(index);
            }
            let slot = self.at_mut(index);
            slot.retired_below = slot.generation;
        }
    }

    /// Published -> Free(gen+1), unacknowledged: their memory is never given back. Returns how many.
    #[must_use]
    pub(crate) fn leak(&mut self) -> u64 {
        let before = self.counters.leaked;
        self.withdraw_all();
        for index in 0..self.used {
            if Self::is_unfinished(self.at(index).state) {
                self.unlink(index);
                self.counters.leaked += 1;
                self.release(index);
            }
        }
        self.counters.leaked - before
    }

    #[inline]
    fn release(&mut self, index: u32) {
        self.live -= 1;
        let free = self.free;
        let slot = self.at_mut(index);
        slot.owner = None;
        slot.fd = -1;
        slot.prev = NIL;
        if slot.generation == GENERATION_MAX {
            slot.state = State::Retired;
            return;
        }
        slot.generation += 1;
        slot.state = State::Free;
        slot.next = free;
        self.free = index;
    }

    #[inline]
    pub(crate) fn is_finished(&self, token: Token) -> bool {
        self.current(token)
            .is_some_and(|slot| slot.state == State::Terminal)
    }

    /// `taken`: how many SQEs the kernel has taken so far.
    pub(crate) fn phase(&self, token: Token, taken: u64) -> Phase {
        let Some(slot) = self.current(token) else {
            return Phase::Free;
        };
        match slot.state {
            State::Free | State::Retired => Phase::Free,
            State::Registered => Phase::Registered,
            State::Published if slot.sqe > taken => Phase::Queued,
            State::Published | State::NotifFirst => Phase::InFlight,
            State::Streaming => Phase::Streaming,
            State::AwaitNotif => Phase::AwaitNotif,
            State::Terminal => Phase::Terminal,
        }
    }

    /// Published and not over: the kernel may write their memory.
    #[inline]
    pub(crate) fn published(&self) -> usize {
        self.counters.in_flight() as usize
    }

    /// Neither over nor withdrawn.
    pub(crate) fn unfinished(&self) -> usize {
        (self.live - self.terminal) as usize
    }

    /// The accounting invariant, and that chains and counts agree with the slots. Walks the whole table.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.counters.registered != self.counters.ended() + self.unfinished() as u64 {
            return Err(
                "registered != completed + cancelled + faulted + withdrawn + leaked + unfinished",
            );
        }
        let count = |wanted: fn(State) -> bool| {
            (0..self.used).filter(|&i| wanted(self.at(i).state)).count()
        };
        if count(|s| !matches!(s, State::Free | State::Retired)) != self.live as usize {
            return Err("live ops miscounted");
        }
        if count(|s| s == State::Terminal) != self.terminal as usize {
            return Err("finished ops miscounted");
        }
        if count(|s| Self::is_unfinished(s) && s != State::Registered) != self.published() {
            return Err("published ops miscounted");
        }
        let with_fd = (0..self.used)
            .filter(|&i| self.at(i).fd >= 0 && Self::is_unfinished(self.at(i).state))
            .count();
        if self
            .heads
            .iter()
            .map(|&head| self.chain_length(head))
            .sum::<usize>()
            != with_fd
        {
            return Err(
                "descriptor chains do not hold exactly the unfinished ops with a descriptor",
            );
        }
        Ok(())
    }

    fn chain_length(&self, mut index: u32) -> usize {
        let mut length = 0;
        while index != NIL && length <= self.used as usize {
            length += 1;
            index = self.at(index).next;
        }
        length
    }
}

#[cold]
#[track_caller]
fn misuse(token: Token, what: &str) -> ! {
    panic!("{token:?} {what}")
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "table_model.rs"]
pub(crate) mod model;

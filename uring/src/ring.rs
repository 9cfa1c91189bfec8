//! One ring of one thread: submission, waiting, reaping, cancelling, and the end.
//!
//! # Safety
//!
//! Unsafe here is the promise behind an SQE: the memory it names stays valid and untouched until the op's last record. The
//! ring's own SQEs name none, but for the sleep word, whose validity [`Ring::arm_sleep_word`]'s caller promises.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicU32;

use io_uring::{IoUring, squeue};

use crate::capabilities::Capabilities;
use crate::counters::Counters;
use crate::enter::{self, Entered, Mode};
use crate::host;
use crate::kick::{self, Heard, Kicks};
use crate::setup::{self, Config, OpcodeSet};
use crate::setup_error::SetupError;
use crate::table::{Applied, CancelDebt, Outcome, Phase, Published, Table, TableFull};
use crate::token::{Address, Kind, Owner, Token};
use crate::view::RingView;

/// How long a wait lasts at most while the kernel refuses our SQEs for want of memory.
const STALL_NS: u64 = 1_000_000;
/// How long the last drain waits before it sends its cancels again.
const DRAIN_RETRY_NS: u64 = 1_000_000_000;
/// Owed requests that fit without allocating.
const OWED_CAPACITY: usize = 64;

/// One io_uring of the thread that made it. Neither `Send` nor `Sync`: the kernel binds it to that thread.
///
/// ```compile_fail,E0277
/// let ring = urgo_uring::Ring::new(&urgo_uring::Config::default()).unwrap();
/// std::thread::spawn(move || drop(ring)); // `Ring` cannot be sent between threads
/// ```
///
/// ```compile_fail,E0277
/// fn needs_sync<T: Sync>() {}
/// needs_sync::<urgo_uring::Ring>();
/// ```
///
/// # Example
///
/// ```no_run
/// use std::ptr::NonNull;
/// use urgo_uring::{Config, Event, Kind, Ring, opcode};
///
/// let mut ring = Ring::new(&Config::default())?;
/// let token = ring.register(Kind::OneShot, -1, NonNull::dangling())?;
/// // SAFETY: a nop names no memory.
/// unsafe { ring.queue(token, opcode::Nop::new().build()) }.expect("an empty queue has room");
/// while !ring.is_finished(token) {
///     ring.wait(None);
///     ring.reap(|_owner, _token, event| assert_eq!(event, Event::Ready));
/// }
/// assert_eq!(ring.outcome(token).res, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Dropping
///
/// The owner should end its ops first ([`cancel_all`](Ring::cancel_all), then [`wait`](Ring::wait) and
/// [`reap`](Ring::reap) until [`in_flight`](Ring::in_flight) is 0), because only it can release what late results bring,
/// such as accepted descriptors. As a last resort dropping does the same and discards the results. That wait has no
/// bound: returning earlier would let the kernel write into memory that its owner believes free. Nor does closing the ring
/// help: the kernel ends requests after `close` on its own time. What can be cancelled ends at once; disk requests
/// end when the device answers. Cancels are sent again every second, for ops that were between two states when the first came.
///
/// In a forked child, dropping only closes the child's descriptor: the ops are the parent's.
pub struct Ring {
    table: Table,
    io: ManuallyDrop<IoUring>,
    view: RingView,
    kicks: Kicks,
    /// Control requests waiting for room, oldest first.
    owed: VecDeque<Owed>,
    /// SQEs written and not yet taken by the kernel.
    pending: u32,
    sq_entries: u32,
    cq_entries: u32,
    capabilities: Capabilities,
    supported: OpcodeSet,
    process_id: u32,
    /// Bound to its thread.
    _thread: PhantomData<*mut ()>,
}

#[derive(Clone, Copy, Debug)]
enum Owed {
    Cancel(Token),
    /// Cancel of one of the ring's own armed requests.
    Disarm(u64),
    Kick(RawFd),
}

/// The submission queue is full; here is the entry back. Flush, reap, and queue it again: the op is still registered.
#[derive(Debug)]
pub struct SqFull(pub squeue::Entry);

/// What became of the SQEs at a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// The kernel has taken all of them.
    Done,
    /// Some are still queued, for want of kernel memory or because completions are backed up. Reap, then flush again.
    Stalled,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// At least one record can be reaped.
    Ready,
    /// The deadline passed and nothing came.
    TimedOut,
    /// A signal came, or submission did not get through in one go: look around and wait again.
    Interrupted,
    /// The kernel refuses SQEs for want of memory; slept a millisecond at most. Wait again.
    Stalled,
}

/// What one record of an op means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The op is over. Exactly once per op; its outcome can be taken, now or later.
    Ready,
    /// One of a multishot op's results; more may come.
    Record {
        /// The kernel's result, such as an accepted descriptor.
        res: i32,
        /// The record's flags, such as a buffer id.
        flags: u32,
    },
}

/// What one reaping brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Ops that became ready.
    pub ready: u32,
    /// Records of multishot ops.
    pub records: u32,
    /// Someone kicked this ring, by message, sleep word or eventfd.
    pub kicked: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("fd", &self.fd())
            .field("capabilities", &self.capabilities)
            .field("sq_entries", &self.sq_entries)
            .field("cq_entries", &self.cq_entries)
            .field("pending", &self.pending)
            .field("in_flight", &self.in_flight())
            .field("unfinished", &self.table.unfinished())
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// Makes a ring for the calling thread. Blocks for some system calls, about 0.1 ms.
    ///
    /// # Errors
    ///
    /// [`SetupError`] with cause and remedy. When memory is short, smaller rings are tried before giving up; see
    /// [`sq_entries`](Self::sq_entries) for the size that came out.
    pub fn new(config: &Config) -> Result<Ring, SetupError> {
        let setup::Made {
            io,
            capabilities,
            supported,
        } = setup::make(config)?;
        let view = RingView::new(&io)
            .map_err(|errno| setup::explain("mmap", errno, io.params().sq_entries()))?;
        Ok(Ring {
            table: Table::new(),
            view,
            kicks: Kicks::default(),
            owed: VecDeque::with_capacity(OWED_CAPACITY),
            pending: 0,
            sq_entries: io.params().sq_entries(),
            cq_entries: io.params().cq_entries(),
            capabilities,
            supported,
            process_id: host::process_id(),
            io: ManuallyDrop::new(io),
            _thread: PhantomData,
        })
    }

    /// What this ring can do beyond the floor. Shrinks only if the kernel later proves a capability unusable.
    #[inline]
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// True when the kernel knows this opcode (`opcode::X::CODE`).
    pub fn supports(&self, code: u8) -> bool {
        self.supported.contains(code)
    }

    /// The ring's descriptor, for other rings' [`kick`](Self::kick).
    #[inline]
    pub fn fd(&self) -> RawFd {
        self.io.as_raw_fd()
    }

    /// Size of the submission queue.
    #[inline]
    pub fn sq_entries(&self) -> u32 {
        self.sq_entries
    }

    /// Size of the completion queue. More completions than this survive, but cost memory and system calls: a caller that
    /// keeps [`in_flight`](Self::in_flight) below it never sees that.
    #[inline]
    pub fn cq_entries(&self) -> u32 {
        self.cq_entries
    }

    /// A handle with which other threads can see whether this ring has completions waiting.
    pub fn view(&self) -> RingView {
        self.view.clone()
    }

    // ---------------------------------------------------------------------------------------------------- operations

    /// Takes a slot for an op of `owner`. `fd` is the descriptor it is about (-1: none), for
    /// [`cancel_matching_fd`](Self::cancel_matching_fd). Never enters the kernel; allocates only when the table grows.
    ///
    /// # Errors
    ///
    /// [`TableFull`] with 1,048,576 ops outstanding.
    #[inline]
    pub fn register(&mut self, kind: Kind, fd: RawFd, owner: Owner) -> Result<Token, TableFull> {
        self.table.register(kind, fd, owner)
    }

    /// Writes the op's SQE (its user data is set here). It is submitted by the next flush or wait.
    ///
    /// # Errors
    ///
    /// [`SqFull`] returns the entry; the op stays registered. Flush, reap, and queue again.
    ///
    /// # Panics
    ///
    /// If the op is not in phase `Registered`.
    ///
    /// # Safety
    ///
    /// Everything the entry points to must stay valid, and unmoved and untouched as the op demands, until
    /// [`reap`](Self::reap) reports the op `Ready` or dropping the ring has returned. The ring must not be leaked before.
    /// The entry must not link to its successor: control requests may come in between.
    #[inline]
    #[track_caller]
    pub unsafe fn queue(&mut self, token: Token, entry: squeue::Entry) -> Result<(), SqFull> {
        self.table.expect_registered(token);
        if !self.owed.is_empty() {
            self.pay_owed();
        }
        let entry = entry.user_data(token.user_data());
        if !self.push(&entry) {
            self.table.counters.sq_full += 1;
            return Err(SqFull(entry));
        }
        match self.table.publish(token, self.table.counters.sqes) {
            Published::Nothing => {}
            Published::SendCancel => self.send_cancel(token),
        }
        Ok(())
    }

    /// Gives up an op that was never queued.
    ///
    /// # Panics
    ///
    /// If the op is not in phase `Registered`: once queued, the kernel may take it at any time.
    #[track_caller]
    pub fn withdraw(&mut self, token: Token) {
        self.table.withdraw(token);
    }

    /// Asks the kernel to end an op early. Never blocks, and may be repeated. The op ends by its own last record, with
    /// whatever result; the cancel request's own record resumes nobody. On an op that is over it does nothing.
    #[inline]
    pub fn cancel(&mut self, token: Token) {
        match self.table.mark_cancel(token) {
            CancelDebt::Nothing => {}
            CancelDebt::Send => self.send_cancel(token),
        }
    }

    /// Cancels every unfinished op registered with `fd`, each by its own token, and returns how many there are. The
    /// descriptor may be closed when all of them have been reaped.
    pub fn cancel_matching_fd(&mut self, fd: RawFd) -> usize {
        let mut count = 0;
        let mut cursor = self.table.first_on_fd(fd);
        while let Some(token) = cursor {
            count += 1;
            self.cancel(token);
            cursor = self.table.next_on_fd(token);
        }
        count
    }

    /// Cancels every unfinished op and returns how many there are. For shutdown; looks at every slot ever used.
    pub fn cancel_all(&mut self) -> usize {
        let mut count = 0;
        for index in 0..self.table.used() {
            if let Some((token, _)) = self.table.unfinished_at(index) {
                count += 1;
                self.cancel(token);
            }
        }
        count
    }

    /// Calls `visit` for every unfinished op. Looks at every slot ever used.
    pub fn visit_unfinished(&self, mut visit: impl FnMut(Owner, Token)) {
        for index in 0..self.table.used() {
            if let Some((token, owner)) = self.table.unfinished_at(index) {
                visit(owner, token);
            }
        }
    }

    /// True from `Ready` until the outcome is taken.
    #[inline]
    pub fn is_finished(&self, token: Token) -> bool {
        self.table.is_finished(token)
    }

    /// True when cancellation was asked for.
    pub fn is_cancel_marked(&self, token: Token) -> bool {
        self.table.is_cancel_marked(token)
    }

    /// Where the op is.
    pub fn phase(&self, token: Token) -> Phase {
        self.table
            .phase(token, self.table.counters.sqes - u64::from(self.pending))
    }

    /// Takes the result of a finished op and frees its slot; the token is void from here on.
    ///
    /// # Panics
    ///
    /// If the op is not finished, or its outcome was taken before.
    #[inline]
    #[track_caller]
    pub fn outcome(&mut self, token: Token) -> Outcome {
        self.table.take(token)
    }

    /// Ops that are queued or in the kernel: their memory is not the caller's.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.table.published()
    }

    // ---------------------------------------------------------------------------------------------------- submission

    /// SQEs written and not yet taken by the kernel.
    #[inline]
    pub fn sq_pending(&self) -> u32 {
        self.pending
    }

    /// SQEs that can be written before a flush is needed.
    #[inline]
    pub fn sq_space_left(&self) -> u32 {
        self.sq_entries - self.pending
    }

    #[inline]
    fn push(&mut self, entry: &squeue::Entry) -> bool {
        let mut sq = self.io.submission();
        // SAFETY: because the memory the entry names is valid until its last record; established by the contracts of
        // `queue` and `arm_sleep_word` (the other entries name none); until that record is reaped, for which drop waits.
        let is_written = unsafe { sq.push(entry) }.is_ok();
        self.pending += u32::from(is_written);
        self.table.counters.sqes += u64::from(is_written);
        is_written
    }

    fn send_cancel(&mut self, token: Token) {
        if !self.owed.is_empty() || !self.pay(Owed::Cancel(token)) {
            self.owed.push_back(Owed::Cancel(token));
        }
    }

    /// Writes what is owed, oldest first, while there is room.
    #[cold]
    fn pay_owed(&mut self) {
        while let Some(&first) = self.owed.front() {
            if !self.pay(first) {
                return;
            }
            self.owed.pop_front();
        }
    }

    /// False when there is no room. A cancel whose op has ended meanwhile is paid without an SQE.
    fn pay(&mut self, owed: Owed) -> bool {
        if self.sq_space_left() == 0 {
            return false;
        }
        match owed {
            Owed::Cancel(token) => {
                if self.table.begin_cancel(token) {
                    self.table.counters.cancels_sent += 1;
                    self.push(&kick::cancel_entry(token.user_data(), token.slot()));
                }
            }
            Owed::Disarm(user_data) => {
                self.push(&kick::cancel_entry(user_data, 0));
            }
            Owed::Kick(target) => {
                self.table.counters.kicks_sent += 1;
                self.push(&kick::kick_entry(target));
            }
        }
        true
    }

    fn enter(&mut self, to_submit: u32, mode: Mode) -> Entered {
        self.table.counters.enters += 1;
        let entered = enter::enter(&self.io, to_submit, mode);
        self.pending = self.io.submission().len() as u32;
        match entered {
            Entered::Interrupted => self.table.counters.interrupts += 1,
            Entered::Stalled => self.table.counters.stalls += 1,
            Entered::Taken(_) | Entered::TimedOut => {}
        }
        entered
    }

    /// Submits everything written. Never sleeps, and does not run deferred completions.
    #[inline]
    pub fn flush(&mut self) -> Flushed {
        if self.pending == 0 && self.owed.is_empty() {
            Flushed::Done
        } else {
            self.flush_slow(Mode::Submit)
        }
    }

    fn flush_slow(&mut self, mode: Mode) -> Flushed {
        loop {
            if !self.owed.is_empty() {
                self.pay_owed();
            }
            let before = self.pending;
            let entered = self.enter(before, mode);
            if self.pending == 0 && self.owed.is_empty() {
                return Flushed::Done;
            }
            if entered == Entered::Stalled || self.pending >= before {
                return Flushed::Stalled;
            }
        }
    }

    // ---------------------------------------------------------------------------------------------------- completion

    /// At least one record can be reaped without entering the kernel.
    #[inline]
    pub fn cq_ready(&self) -> bool {
        self.view.cq_ready()
    }

    /// The kernel has completions that only an enter brings out: call [`poll`](Self::poll).
    #[inline]
    pub fn has_work_flag(&self) -> bool {
        self.view.has_work_flag()
    }

    /// Brings out deferred completions, without sleeping and without submitting. Enters the kernel only if it asks for it,
    /// and again until it no longer does (one enter runs about 20 of them) or the completion queue is full.
    #[inline]
    pub fn poll(&mut self) {
        while self.view.has_work_flag() && self.view.cq_len() < self.cq_entries {
            self.note_overflow();
            let _ = self.enter(0, Mode::Reap);
        }
    }

    /// [`flush`](Self::flush) and one turn of [`poll`](Self::poll) in one enter, if either is called for.
    #[inline]
    pub fn flush_and_poll(&mut self) -> Flushed {
        let has_work = self.view.has_work_flag();
        if self.pending == 0 && self.owed.is_empty() && !has_work {
            return Flushed::Done;
        }
        self.note_overflow();
        self.flush_slow(Mode::Reap)
    }

    #[inline]
    fn note_overflow(&mut self) {
        self.table.counters.overflows += u64::from(self.view.has_overflow());
    }

    /// Submits everything written and sleeps until a record can be reaped, the deadline passes (`CLOCK_MONOTONIC`
    /// nanoseconds; `None`: never), a kick arrives or a signal is handled, in one enter. Returns at once, without
    /// entering, when records are there and nothing is to be submitted. Blocks the thread.
    pub fn wait(&mut self, deadline_ns: Option<u64>) -> Waited {
        if !self.owed.is_empty() && self.flush() == Flushed::Stalled {
            return self.wait_stalled(deadline_ns);
        }
        if self.cq_ready() && self.pending == 0 && !self.has_work_flag() {
            return Waited::Ready;
        }
        self.note_overflow();
        self.table.counters.waits += 1;
        let entered = self.enter(self.pending, self.sleep_mode(deadline_ns));
        if self.cq_ready() {
            return Waited::Ready;
        }
        match entered {
            Entered::TimedOut => Waited::TimedOut,
            Entered::Interrupted => Waited::Interrupted,
            Entered::Stalled => self.wait_stalled(deadline_ns),
            // The count hides why the wait ended.
            Entered::Taken(_) if deadline_ns.is_some_and(|at| host::monotonic_ns() >= at) => {
                Waited::TimedOut
            }
            Entered::Taken(_) => Waited::Interrupted,
        }
    }

    fn sleep_mode(&self, deadline_ns: Option<u64>) -> Mode {
        Mode::Sleep {
            deadline_ns,
            is_absolute: self.capabilities.contains(Capabilities::ABS_TIMER),
            no_iowait: self.capabilities.contains(Capabilities::NO_IOWAIT),
        }
    }

    /// The kernel takes no SQE now: sleep a little without submitting, so that the caller neither spins nor oversleeps.
    #[cold]
    fn wait_stalled(&mut self, deadline_ns: Option<u64>) -> Waited {
        let soon = host::monotonic_ns() + STALL_NS;
        let deadline_ns = deadline_ns.map_or(soon, |at| at.min(soon));
        let _ = self.enter(0, self.sleep_mode(Some(deadline_ns)));
        if self.cq_ready() {
            Waited::Ready
        } else {
            Waited::Stalled
        }
    }

    /// Takes every record visible now, in order, and calls `each` for those that mean something to an op's owner:
    /// [`Event::Ready`] exactly once per op, preceded by its [`Event::Record`]s if it is multishot. Records that do not fit
    /// any op are counted and dropped. Never enters the kernel (but to drain a fired kick eventfd).
    #[inline]
    pub fn reap(&mut self, mut each: impl FnMut(Owner, Token, Event)) -> Reaped {
        let mut reaped = Reaped::default();
        let records = self.io.completion();
        self.table.counters.cqes += records.len() as u64;
        for cqe in records {
            let (res, flags) = (cqe.result(), cqe.flags());
            match Address::of(cqe.user_data()) {
                Address::Op(token) => match self.table.apply(token, res, flags) {
                    Applied::Ready(owner) => {
                        reaped.ready += 1;
                        each(owner, token, Event::Ready);
                    }
                    Applied::Record(owner) => {
                        reaped.records += 1;
                        each(owner, token, Event::Record { res, flags });
                    }
                    Applied::Held | Applied::Discarded => {}
                },
                Address::Control(control) => {
                    match self
                        .kicks
                        .apply(control, res, flags, &mut self.table.counters)
                    {
                        Heard::Nothing => {}
                        Heard::Kicked => reaped.kicked = true,
                        Heard::KickAgain(target) => self.owed.push_back(Owed::Kick(target)),
                    }
                }
                Address::Foreign => self.table.counters.foreign += 1,
            }
        }
        if reaped.kicked {
            self.kicks.drain();
            if self.kicks.is_word_broken() {
                self.capabilities.remove(Capabilities::FUTEX_WAIT);
            }
        }
        reaped
    }

    // --------------------------------------------------------------------------------------------------------- kicks

    /// Wakes the ring with descriptor `target` of this process, at once. Its [`reap`](Self::reap) says `kicked`. Submits
    /// what else is written, too. If the kernel has no memory just now, the kick goes out with the next flush or wait.
    ///
    /// # Panics
    ///
    /// In debug builds, without [`Capabilities::MSG_RING`].
    pub fn kick(&mut self, target: RawFd) -> Flushed {
        debug_assert!(
            self.capabilities.contains(Capabilities::MSG_RING),
            "this ring cannot kick by message"
        );
        if !self.owed.is_empty() || !self.pay(Owed::Kick(target)) {
            self.owed.push_back(Owed::Kick(target));
        }
        self.flush()
    }

    /// Makes a futex wake on `word` end a wait of this ring, as long as the word holds `expected` when the SQE is taken;
    /// if it does not, that counts as a kick. Stays armed until it has fired. Returns true when it is (or was already) armed;
    /// with false the caller must not sleep on it: no [`Capabilities::FUTEX_WAIT`], or no room in the queue.
    ///
    /// # Safety
    ///
    /// `word` must stay valid until dropping the ring has returned.
    #[must_use = "an unarmed word wakes nobody"]
    pub unsafe fn arm_sleep_word(&mut self, word: *const AtomicU32, expected: u32) -> bool {
        if self.kicks.is_word_armed() {
            return true;
        }
        if !self.capabilities.contains(Capabilities::FUTEX_WAIT) {
            return false;
        }
        let is_written = self.push_control(&self.kicks.word_entry(word.cast(), expected));
        if is_written {
            self.kicks.word_armed();
        }
        is_written
    }

    /// Makes a write to the eventfd `fd` end a wait of this ring. Stays armed over many kicks; call it before every sleep,
    /// it does nothing while armed. Returns true when it is armed. `fd` must be nonblocking and stay open as long as the
    /// ring; the ring drains it.
    #[must_use = "an unarmed eventfd wakes nobody"]
    pub fn arm_eventfd(&mut self, fd: RawFd) -> bool {
        if self.kicks.is_eventfd_armed() {
            return true;
        }
        let is_written = self.push_control(&self.kicks.eventfd_entry(fd));
        if is_written {
            self.kicks.eventfd_armed(fd);
        }
        is_written
    }

    /// Flushes once if there is no room.
    fn push_control(&mut self, entry: &squeue::Entry) -> bool {
        if self.push(entry) {
            return true;
        }
        let _ = self.flush();
        self.push(entry)
    }

    /// Ends the waits on sleep word and eventfd. They are armed until their records have been reaped.
    pub fn disarm(&mut self) {
        for user_data in self.kicks.armed() {
            if !self.owed.is_empty() || !self.pay(Owed::Disarm(user_data)) {
                self.owed.push_back(Owed::Disarm(user_data));
            }
        }
    }

    /// The sleep word or the eventfd is armed.
    pub fn is_armed(&self) -> bool {
        self.kicks.is_word_armed() || self.kicks.is_eventfd_armed()
    }

    // ------------------------------------------------------------------------------------------------------ accounts

    /// What happened so far.
    #[inline]
    pub fn counters(&self) -> &Counters {
        &self.table.counters
    }

    /// Checks the accounting invariants; walks the whole table.
    ///
    /// # Errors
    ///
    /// A sentence that says which one is broken.
    pub fn check(&self) -> Result<(), &'static str> {
        self.table.check()
    }

    /// Ends everything the kernel could still write for. See [`Ring`] on dropping.
    fn drain(&mut self) {
        self.cancel_all();
        self.disarm();
        while self.in_flight() > 0 || self.is_armed() {
            if self.wait(Some(host::monotonic_ns() + DRAIN_RETRY_NS)) == Waited::TimedOut {
                self.renew_cancels();
            }
            self.poll();
            self.reap(|_, _, _| {});
        }
    }

    #[cold]
    fn renew_cancels(&mut self) {
        for index in 0..self.table.used() {
            if let Some((token, _)) = self.table.unfinished_at(index)
                && self.table.renew_cancel(token)
            {
                self.send_cancel(token);
            }
        }
        self.disarm();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if host::process_id() == self.process_id {
            self.drain();
            // SAFETY: because nothing uses the ring after this; established by being the last statement of drop.
            unsafe { ManuallyDrop::drop(&mut self.io) };
        } else {
            // The child has the descriptor, but never had the mappings: unmapping their addresses could hit another's.
            // SAFETY: because the descriptor is this ring's copy in this process, closed nowhere else.
            unsafe { libc::close(self.fd()) };
        }
    }
}

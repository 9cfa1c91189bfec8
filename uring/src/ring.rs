//! One ring of one thread: what it is made of, and its ops. Submitting, completing, rousing and the end are in `ring/`.
//!
//! # Safety
//!
//! Unsafe here is the promise behind an SQE: the memory it names stays valid and untouched until the op's last record. The
//! ring's own SQEs name none, but for the sleep word, whose validity [`Ring::arm_sleep_word`]'s caller promises.

#![allow(unsafe_code)]

mod completion;
mod drain;
#[cfg(feature = "fault-injection")]
mod faulty;
mod rousing;
mod submission;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};

use io_uring::{IoUring, squeue};

use crate::capabilities::Capabilities;
use crate::counters::Counters;
use crate::host;
use crate::kick::Kicks;
use crate::setup::{self, Config, OpcodeSet};
use crate::setup_error::SetupError;
use crate::table::{CancelDebt, Outcome, Phase, Published, Table, TableFull};
use crate::token::{Kind, Owner, Token};
use crate::view::RingView;

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
/// The owner should end its ops first (with [`retire`](Ring::retire), or [`cancel_all`](Ring::cancel_all), then
/// [`wait`](Ring::wait) and [`reap`](Ring::reap) until [`in_flight`](Ring::in_flight) is 0), because only it can release what
/// late results bring, such as accepted descriptors. As a last resort dropping retires and discards the results. That wait
/// has no bound: returning earlier would let the kernel write into memory that its owner believes free. Nor does closing the ring
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
    /// When cancels that met their op between two states are sent again.
    renew_at_ns: Option<u64>,
    process_id: u32,
    /// Dropping does not wait: the ops are out of the books.
    is_abandoned: bool,
    #[cfg(feature = "fault-injection")]
    faults: Option<Box<crate::faults::Faults>>,
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

/// The submission queue has too little room for the chain. Flush, reap, and queue it again: its ops are still registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainFull;

impl std::fmt::Display for ChainFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the submission queue has too little room for the whole chain"
        )
    }
}

impl std::error::Error for ChainFull {}

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
        #[cfg(feature = "fault-injection")]
        if let Some(plan) = crate::faults::Plan::from_environment() {
            return Ring::with_faults(config, &plan);
        }
        Ring::make(config)
    }

    fn make(config: &Config) -> Result<Ring, SetupError> {
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
            renew_at_ns: None,
            process_id: host::process_id(),
            is_abandoned: false,
            #[cfg(feature = "fault-injection")]
            faults: None,
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
    /// The entry must not link to its successor, since control requests may come in between
    /// ([`queue_chain`](Self::queue_chain) links), nor ask for no record on success: the op would never be over.
    #[inline]
    #[track_caller]
    pub unsafe fn queue(&mut self, token: Token, entry: squeue::Entry) -> Result<(), SqFull> {
        self.table.expect_registered(token);
        if !self.owed.is_empty() {
            self.pay_owed();
        }
        let entry = entry.user_data(token.user_data());
        #[cfg(feature = "fault-injection")]
        let (original, entry) = (entry.clone(), self.entry_or_nop(token, entry));
        if !self.push(&entry) {
            self.table.counters.sq_full += 1;
            #[cfg(feature = "fault-injection")]
            let entry = self.original(token, original);
            return Err(SqFull(entry));
        }
        match self.table.publish(token, self.table.counters.sqes) {
            Published::Nothing => {}
            Published::SendCancel => self.send_cancel(token),
        }
        Ok(())
    }

    /// Writes the SQEs of several ops as one chain: the kernel starts each when the one before has succeeded. They lie next
    /// to each other and are handed over by one enter, since a chain ends where a submission ends.
    ///
    /// Each op has its own token, owner, record and outcome. When one fails (a short read or write is a failure too), those
    /// behind it end with `-ECANCELED` though nobody cancelled them: [`Outcome::cancel_marked`] is false. Cancelling the
    /// one that runs breaks the chain. One that has not started cannot be cancelled: the kernel does not find it, and its
    /// cancel is sent again until it runs or the chain breaks. If the kernel runs out of memory for requests in the middle,
    /// it cuts the chain there, and the second part starts without waiting for the first.
    ///
    /// # Errors
    ///
    /// [`ChainFull`]: there is not enough room for all. Nothing was written; the ops are still registered. Flush, reap, and
    /// queue the chain again.
    ///
    /// # Panics
    ///
    /// If an op is not in phase `Registered` or appears twice, or if the chain is longer than the submission queue.
    ///
    /// # Safety
    ///
    /// As for [`queue`](Self::queue), for each entry. The links are set here.
    #[track_caller]
    pub unsafe fn queue_chain(
        &mut self,
        chain: &[(Token, squeue::Entry)],
    ) -> Result<(), ChainFull> {
        assert!(
            chain.len() <= self.sq_entries as usize,
            "a chain of {} does not fit into a submission queue of {}",
            chain.len(),
            self.sq_entries
        );
        for (at, &(token, _)) in chain.iter().enumerate() {
            self.table.expect_registered(token);
            assert!(
                chain[..at].iter().all(|&(other, _)| other != token),
                "{token:?} is twice in one chain"
            );
        }
        if !self.owed.is_empty() {
            self.pay_owed();
        }
        if (self.sq_space_left() as usize) < chain.len() {
            self.table.counters.sq_full += 1;
            return Err(ChainFull);
        }
        self.push_chain(chain);
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
}

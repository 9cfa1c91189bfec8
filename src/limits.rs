//! Every limit of the runtime in one place, with unit, reason and relation.

/// Reserve of a goroutine stack in bytes unless a builder says otherwise. Only touched pages cost memory.
pub(crate) const STACK_BYTES_DEFAULT: usize = 256 * 1024;
/// Smallest stack reserve in bytes; smaller requests are rounded up to it.
pub(crate) const STACK_BYTES_MIN: usize = 16 * 1024;
/// Largest stack reserve in bytes; a larger request is a typed error.
pub(crate) const STACK_BYTES_MAX: usize = 1 << 30;
/// Inaccessible bytes below each stack. Rust probes every page of a frame, so one page would do for Rust code; C code
/// with frames up to this size is caught as well.
pub(crate) const GUARD_BYTES: usize = 16 * 1024;
/// Free stacks of one size class that a worker keeps with their pages when it trims.
pub(crate) const STACKS_HOT_MAX: usize = 64;
/// Stacks in the first slab of a size class; each further slab doubles.
pub(crate) const SLAB_STACKS_FIRST: usize = 64;
/// Upper bound of the address space of one slab in bytes.
pub(crate) const SLAB_BYTES_MAX: usize = 16 << 30;
/// Free stacks whose pages are given back in one go, so that trimming never holds a worker for long.
pub(crate) const TRIM_BATCH: usize = 2048;
/// How long a worker keeps the pages of surplus free stacks, in nanoseconds.
pub(crate) const TRIM_DELAY_NS: u64 = 500_000_000;

/// Bytes of a goroutine's control block that hold its closure and, later, its result.
pub(crate) const INLINE_BYTES: usize = 128;
/// Bytes (and alignment) of a chunk of control blocks; its header is found by masking a block's address.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;
/// Bytes of the first region of control blocks; each further region doubles up to `REGION_BYTES_MAX`.
pub(crate) const REGION_BYTES_FIRST: usize = 256 * 1024;
/// Upper bound of one region of control blocks in bytes.
pub(crate) const REGION_BYTES_MAX: usize = 64 << 20;
/// Goroutine ids that a worker takes from the runtime's counter at a time.
pub(crate) const ID_BATCH: u64 = 1024;

/// Dispatches between two looks at inbox, ring and injector while the run queue is not empty (prime, as in Go, so
/// that it does not beat with the program's own periods).
pub(crate) const FAIR_TICKS: u32 = 61;
/// The same in microseconds, for dispatches that take long: how late a timer or a completion may be noticed by a worker
/// whose goroutines let each other run.
pub(crate) const LOOK_AGE_US: u64 = 500;
/// The same for a worker whose ring says that something has come.
pub(crate) const LOOK_CALLED_US: u64 = 50;
/// Dispatches after which goroutine-to-goroutine switches go through the host stack once.
pub(crate) const DIRECT_TICKS: u32 = 16;
/// Consecutive dispatches from the next slot before its goroutine goes to the end of the run queue.
pub(crate) const NEXT_BUDGET: u32 = 16;
/// Operations on channels that a worker's goroutines may do without waiting before the others have a turn, where each is counted;
/// and messages through one side of a queue, where only every so manieth is looked at (a power of two).
pub(crate) const READY_TURNS: u32 = 64;
pub(crate) const READY_MESSAGES: usize = 1024;
/// Live goroutines of a worker below which it keeps what it spawns, for others to steal.
pub(crate) const PLACED_LIVE_MIN: usize = 4;
/// How long, in nanoseconds, a goroutine whose operation the kernel does not end may keep those waiting that were cancelled after it.
pub(crate) const CANCEL_HOLD_NS: u64 = 10_000_000;
/// Looks at the ring after that time before they go on all the same.
pub(crate) const CANCEL_LOOKS: u32 = 4;
/// Due timers that fire before the goroutines that they ready run.
pub(crate) const TIMERS_AT_ONCE: usize = 128;
/// Goroutines whose waits a worker ends in a row when their context is cancelled, before the others have a turn.
pub(crate) const CONTEXT_TOLD_AT_ONCE: usize = 1024;
/// Fresh goroutines that start in a row before the run queue is looked at again.
pub(crate) const FRESH_BATCH: u32 = 8;
/// Waiting submission entries from which on a worker without work submits once more before it thinks of sleeping.
pub(crate) const BUSY_SUBMISSIONS: u32 = 4;
/// Submission entries that are handed to the kernel at once without waiting for the queue to become empty.
pub(crate) const FLUSH_BATCH: u32 = 64;
/// Age in microseconds at which waiting submission entries are handed over.
pub(crate) const FLUSH_AGE_US: u64 = 50;
/// How long a worker looks for work of others before it sleeps, in microseconds.
pub(crate) const SPIN_US: u64 = 5;
/// The same while goroutines of several workers talk to each other: what it costs, in microseconds, to fall asleep and be woken
/// by another CPU. Who has waited that long for a wake-up that came might as well have looked for it.
pub(crate) const TALK_SPIN_US: u64 = 50;

/// Time between two reports of the watch thread on one worker, in nanoseconds: a program that is stuck again and again is
/// told so, not drowned.
pub(crate) const STUCK_REPORTS_NS: u64 = 1_000_000_000;

/// Workers of one runtime; each is a thread with a ring.
pub(crate) const WORKERS_MAX: usize = 4096;
/// Submission entries of a worker's ring unless the builder says otherwise.
pub(crate) const RING_ENTRIES_DEFAULT: u32 = 1024;
/// Threads of the blocking pool unless the builder says otherwise.
pub(crate) const BLOCKING_THREADS_DEFAULT: usize = 512;
/// How long an idle thread of the blocking pool stays, in seconds.
pub(crate) const BLOCKING_IDLE_SECS: u64 = 10;
/// How long, in nanoseconds, a runtime that is being shut down may take without any goroutine ending before those that are left are given
/// up: the grace time, within these bounds.
pub(crate) const SHUTDOWN_PATIENCE_NS_MIN: u64 = 250_000_000;
pub(crate) const SHUTDOWN_PATIENCE_NS_MAX: u64 = 1_000_000_000;
/// How long whoever shuts a runtime down sleeps between two looks at it, in nanoseconds: first, and at most.
pub(crate) const NAP_NS_FIRST: u64 = 50_000;
pub(crate) const NAP_NS_MAX: u64 = 5_000_000;
/// Bits of the number of an operation that outside threads carry out: which of its owner's slots it has, and the slot's generation. With
/// these two, an owner has 2⁴⁴ operations in its life and 2²² at a time; a slot whose generations are used up is not used again.
pub(crate) const HOST_SLOT_BITS: u32 = 22;
pub(crate) const HOST_GENERATION_BITS: u32 = 22;
/// Owners of such operations in the life of a process (workers that have had any), so that no number is given twice.
pub(crate) const HOST_OWNERS_MAX: usize = (1 << (64 - HOST_SLOT_BITS - HOST_GENERATION_BITS)) - 1;
/// Connections a listener lets the kernel queue; the kernel clamps it to `net.core.somaxconn`.
pub(crate) const LISTEN_BACKLOG: i32 = 4096;

const _: () = assert!(READY_MESSAGES.is_power_of_two());
const _: () = assert!(STACK_BYTES_MIN.is_power_of_two() && STACK_BYTES_MAX.is_power_of_two());
const _: () =
    assert!(STACK_BYTES_DEFAULT >= STACK_BYTES_MIN && STACK_BYTES_DEFAULT <= STACK_BYTES_MAX);
const _: () = assert!(SLAB_BYTES_MAX >= STACK_BYTES_MAX + GUARD_BYTES);
const _: () = assert!(
    REGION_BYTES_FIRST.is_multiple_of(CHUNK_BYTES) && REGION_BYTES_MAX >= REGION_BYTES_FIRST
);
const _: () = assert!(SHUTDOWN_PATIENCE_NS_MIN > 10 * NAP_NS_MAX && NAP_NS_MAX > NAP_NS_FIRST);
const _: () = assert!(DIRECT_TICKS <= FAIR_TICKS && DIRECT_TICKS.is_power_of_two());

//! Wait reasons: one value per place where a goroutine can wait, never reused.

/// Why a goroutine waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum WaitReason {
    /// It does not wait: it runs or is ready to run.
    None = 0,
    /// `sleep`, `sleep_until`.
    Timer = 1,
    /// `JoinHandle::join`.
    Join = 2,
    /// The end of a `scope`, for its children.
    Scope = 3,
    /// `blocking`, for a thread of the blocking pool.
    Blocking = 4,
    /// `TcpListener::accept`.
    Accept = 5,
    /// `TcpStream::connect`.
    Connect = 6,
    /// A read from a descriptor.
    Read = 7,
    /// A write to a descriptor.
    Write = 8,
    /// Room in the submission queue.
    Submission = 9,
    /// Readiness of a descriptor.
    Poll = 10,
    /// `block_on`, for the future's waker.
    Future = 11,
    /// `Sender::send` and the like.
    ChanSend = 12,
    /// `Receiver::recv` and the like.
    ChanRecv = 13,
    /// `select!`, `Select`.
    Select = 14,
    /// `futex::wait`.
    Futex = 15,
    /// `Mutex::lock`.
    Mutex = 16,
    /// `RwLock::read`.
    RwLockRead = 17,
    /// `RwLock::write`.
    RwLockWrite = 18,
    /// `Condvar::wait`.
    Condvar = 19,
    /// `Once::call_once`, `OnceLock`, `LazyLock`.
    Once = 20,
    /// `Semaphore::acquire`.
    Semaphore = 21,
    /// `Barrier::wait`.
    Barrier = 22,
    /// `WaitGroup::wait`.
    WaitGroup = 23,
    /// `Scope::spawn` under a limit, for room.
    ScopeRoom = 24,
    /// `host::Submitted::wait`, for an outside thread.
    Host = 25,
}

impl WaitReason {
    /// The reason stored as `value` in a control block.
    pub(crate) fn from_u8(value: u8) -> WaitReason {
        use WaitReason::*;
        const ALL: [WaitReason; 26] = [
            None,
            Timer,
            Join,
            Scope,
            Blocking,
            Accept,
            Connect,
            Read,
            Write,
            Submission,
            Poll,
            Future,
            ChanSend,
            ChanRecv,
            Select,
            Futex,
            Mutex,
            RwLockRead,
            RwLockWrite,
            Condvar,
            Once,
            Semaphore,
            Barrier,
            WaitGroup,
            ScopeRoom,
            Host,
        ];
        ALL.get(usize::from(value)).copied().unwrap_or(None)
    }
}

//! One operation, from either side: the waiter's [`Registration`] and the outside's [`Outlet`].

use super::counters::Ended;
use super::owners::{Desk, THREADS, number};
use super::table::{Reach, RegisterRefused};
use super::token::Token;
use crate::park::{Outcome, WaitReason};
use crate::sched::remote::{Command, Remote};
use crate::sched::wait::{NEVER, new_waiter, settle, uncancellable, wait};
use crate::sched::worker::worker;
use std::sync::Arc;

/// Whose desk an operation is registered at.
#[derive(Clone, Debug)]
pub(super) enum Owner {
    /// The worker that the goroutine is homed on. Its record outlives it for as long as somebody may answer.
    Worker(Arc<Remote>),
    /// All plain threads.
    Threads,
}

impl Owner {
    /// The caller's.
    fn here() -> Owner {
        match worker() {
            Some(worker) if worker.current.get().is_some() => Owner::Worker(worker.remote.clone()),
            _ => Owner::Threads,
        }
    }

    pub(super) fn desk(&self) -> &Desk {
        match self {
            Owner::Worker(remote) => &remote.outside,
            Owner::Threads => &THREADS,
        }
    }

    /// Whether an answer would be applied while the caller waits for it. Not on a worker's own stack, nor when it has ended.
    fn can_be_waited_for_here(&self) -> bool {
        match self {
            Owner::Worker(remote) => worker().is_some_and(|worker| {
                Arc::ptr_eq(&worker.remote, remote) && worker.current.get().is_some()
            }),
            Owner::Threads => true,
        }
    }

    /// Any thread, after a claim: into the mailbox.
    fn post(&self, token: Token) {
        match self {
            Owner::Worker(remote) => post_to_worker(remote, Command::Apply(token)),
            Owner::Threads => {
                let wake = THREADS.apply(token);
                if let Some(wake) = wake {
                    settle(wake);
                }
            }
        }
    }
}

/// A worker of the same runtime rouses by its ring.
fn post_to_worker(remote: &Remote, command: Command) {
    if !remote.leave_command(command) {
        return;
    }
    match worker() {
        Some(worker)
            if worker
                .shared
                .remotes
                .iter()
                .any(|other| std::ptr::eq(&**other, remote)) =>
        {
            worker.rouse(remote);
        }
        _ => remote.rouse(),
    }
}

/// The waiter's side. Dropping it does not end the operation: `end` does, once.
#[derive(Debug)]
pub(crate) struct Registration {
    owner: Owner,
    token: Token,
}

impl Registration {
    /// Registers an operation of the caller.
    pub(crate) fn new() -> Result<Registration, RegisterRefused> {
        let owner = Owner::here();
        let token = {
            let mut table = owner.desk().lock();
            let number = number(&owner, &mut table)?;
            table.register(number)?
        };
        Ok(Registration { owner, token })
    }

    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// The other side, to be handed out once.
    pub(crate) fn submit(&self) -> Outlet {
        self.owner.desk().lock().counters.submitted += 1;
        Outlet {
            owner: self.owner.clone(),
            token: self.token,
        }
    }

    /// Whether the answer stands.
    pub(crate) fn is_applied(&self) -> bool {
        let mut table = self.owner.desk().lock();
        !table.is_retired() && table.is_applied(self.token)
    }

    /// Waits until the answer stands (`Woken`), the deadline passes, or the goroutine is cancelled. Blocks the calling goroutine or
    /// thread. `None`: it cannot be waited for here.
    pub(crate) fn wait(&self, deadline: u64) -> Option<Outcome> {
        if !self.owner.can_be_waited_for_here() {
            return None;
        }
        let desk = self.owner.desk();
        let waiter = new_waiter();
        if !desk.lock().begin_wait(self.token, &waiter) {
            return Some(Outcome::Woken);
        }
        let outcome = wait(&waiter, WaitReason::Host, deadline);
        if outcome != Outcome::Woken {
            desk.lock().end_wait(self.token);
        }
        Some(outcome)
    }

    /// As [`wait`](Self::wait), whatever happens.
    pub(crate) fn wait_regardless(&self) -> Option<Outcome> {
        uncancellable(|| self.wait(NEVER))
    }

    /// The operation is over; answers from now on are late.
    pub(crate) fn end(&self, ended: Ended) {
        let reach = self.owner.desk().lock().end(self.token, ended);
        drop(reach);
    }
}

/// The outside's side.
#[derive(Debug)]
pub(crate) struct Outlet {
    owner: Owner,
    token: Token,
}

impl Outlet {
    pub(super) fn of(owner: Owner, token: Token) -> Outlet {
        Outlet { owner, token }
    }

    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// Any thread. Whether the caller is the one who may answer. It leaves the answer where the waiter will look, and `post`s.
    #[must_use]
    pub(crate) fn claim(&self) -> bool {
        self.owner.desk().lock().claim(self.token)
    }

    /// After a claim.
    pub(crate) fn post(&self) {
        self.owner.post(self.token);
    }

    /// From here on [`find`](super::find) finds `reach` by the token. If the operation is over already, nothing is left of it.
    pub(crate) fn expose(&self, reach: Reach) {
        let refused = self.owner.desk().lock().expose(self.token, reach);
        drop(refused);
    }
}

//! Desks, and their numbers, which are never given twice in a process.

use super::counters::HostCounters;
use super::registration::{Outlet, Owner};
use super::table::{Reach, RegisterRefused, Table};
use super::token::Token;
use crate::limits::HOST_OWNERS_MAX;
use crate::park::Wake;
use crate::sched::remote::Remote;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// One owner's table.
///
/// Locks are taken in the order: a desk's, then that of the list of owners.
#[derive(Debug)]
pub(crate) struct Desk {
    table: Mutex<Table>,
}

/// The desk of plain threads, which is owner 0 and never ends.
pub(super) static THREADS: Desk = Desk::new();

#[derive(Debug)]
struct Owners {
    /// Owner 1 is the first.
    workers: Vec<Weak<Remote>>,
    /// What desks that are gone have counted, and what nobody's desk could count.
    gone: HostCounters,
}

static OWNERS: Mutex<Option<Owners>> = Mutex::new(None);

fn with_owners<R>(f: impl FnOnce(&mut Owners) -> R) -> R {
    let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
    f(owners.get_or_insert_with(|| Owners {
        workers: Vec::new(),
        gone: HostCounters::default(),
    }))
}

impl Desk {
    pub(crate) const fn new() -> Desk {
        Desk {
            table: Mutex::new(Table::new()),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Any thread; a worker's desk: that worker only, between dispatches. See [`Table::apply`].
    pub(crate) fn apply(&self, token: Token) -> Option<Wake> {
        self.lock().apply(token)
    }

    /// The worker, when it has run its last goroutine.
    pub(crate) fn retire(&self) {
        self.lock().retire();
    }

    pub(crate) fn counters(&self) -> HostCounters {
        self.lock().counters
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let table = self.table.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(owner) = table.owner.filter(|&owner| owner > 0) else {
            return;
        };
        with_owners(|owners| {
            owners.workers[owner as usize - 1] = Weak::new();
            owners.gone.add(&table.counters);
        });
    }
}

/// The number of `owner`, whose table this is; a new one if it has none yet.
pub(super) fn number(owner: &Owner, table: &mut Table) -> Result<u32, RegisterRefused> {
    if let Some(number) = table.owner {
        return Ok(number);
    }
    let number = match owner {
        Owner::Threads => 0,
        Owner::Worker(remote) => with_owners(|owners| {
            if owners.workers.len() >= HOST_OWNERS_MAX {
                return Err(RegisterRefused::NoMoreOwners);
            }
            owners.workers.push(Arc::downgrade(remote));
            Ok(owners.workers.len() as u32)
        })?,
    };
    table.owner = Some(number);
    Ok(number)
}

/// Any thread. The outside of `token`, whatever number that is, and what [`Table::expose`] has left for it. `None`: nothing.
pub(crate) fn look_up(token: Token) -> Option<(Outlet, Reach)> {
    let owner = match token.owner() {
        0 => Owner::Threads,
        number => {
            let worker = with_owners(|owners| owners.workers.get(number as usize - 1)?.upgrade());
            Owner::Worker(worker?)
        }
    };
    let reach = owner.desk().lock().reach(token)?;
    Some((Outlet::of(owner, token), reach))
}

/// As [`look_up`], for somebody who is about to answer: that there is nothing to answer is counted.
pub(crate) fn find(token: Token) -> Option<(Outlet, Reach)> {
    let owner = match token.owner() {
        0 => Owner::Threads,
        number => with_owners(|owners| {
            let worker = owners.workers.get(number as usize - 1);
            match worker.map(Weak::upgrade) {
                Some(Some(remote)) => return Some(Owner::Worker(remote)),
                Some(None) => owners.gone.retired += 1,
                None => owners.gone.foreign += 1,
            }
            None
        })?,
    };
    let reach = owner.desk().lock().reach_or_count(token)?;
    Some((Outlet::of(owner, token), reach))
}

/// Everything that was ever counted in this process.
pub(crate) fn total() -> HostCounters {
    let (mut total, workers) = with_owners(|owners| {
        let workers: Vec<Arc<Remote>> = owners.workers.iter().filter_map(Weak::upgrade).collect();
        (owners.gone, workers)
    });
    total.add(&THREADS.counters());
    for remote in workers {
        total.add(&remote.outside.counters());
    }
    total
}

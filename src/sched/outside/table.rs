//! One desk's slots. Everything here is under the desk's lock.
//!
//! # State
//!
//! | state | meaning | claim | apply | end |
//! |---|---|---|---|---|
//! | `Free` | nobody's; its generation is the next operation's | foreign | - | ! |
//! | `Open` | registered, no answer yet | `Claimed` | - | `Free`, gen+1 |
//! | `Claimed` | somebody has the right to answer, or has answered; not applied yet | dup | `Applied`, wakes | `Free`, gen+1, counts stale |
//! | `Applied` | the answer stands | dup | - | `Free`, gen+1 |
//! | `OutOfService` | its generations are used up | retired | - | ! |
//!
//! An older generation is *stale* in every state, a newer one *foreign*; after [`Table::retire`] everything is *retired*. (`-`: nothing
//! happens; `!`: cannot happen.)
//!
//! # Safety
//!
//! A slot's waiter is on the stack of whoever waits, who puts it in before the wait and takes it out, under the same lock, before
//! its frame goes.

#![allow(unsafe_code)]

use super::counters::{Ended, HostCounters};
use super::token::Token;
use crate::limits::{HOST_GENERATION_BITS, HOST_SLOT_BITS};
use crate::park::{Outcome, Waiter, Wake};
use core::any::Any;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::sync::Arc;

/// What the outside of an operation is reached by if only its token is known.
pub(crate) type Reach = Arc<dyn Any + Send + Sync>;

/// Why nothing was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegisterRefused {
    /// Too many operations of one owner are out.
    TableFull,
    /// The process has had too many owners.
    NoMoreOwners,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Claimed,
    Applied,
    OutOfService,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    state: State,
    waiter: Option<NonNull<Waiter>>,
    reach: Option<Reach>,
}

// SAFETY: the pointer is followed under the desk's lock only, and a waiter may be finished from any thread.
unsafe impl Send for Slot {}

/// See the module.
#[derive(Debug)]
pub(super) struct Table {
    /// The owner's number, once it has one.
    pub(super) owner: Option<u32>,
    slots: Vec<Slot>,
    /// First in, first out, so that generations are used up evenly.
    free: VecDeque<u32>,
    is_retired: bool,
    pub(super) counters: HostCounters,
}

const GENERATION_MAX: u32 = (1 << HOST_GENERATION_BITS) - 1;

impl Table {
    pub(super) const fn new() -> Table {
        Table {
            owner: None,
            slots: Vec::new(),
            free: VecDeque::new(),
            is_retired: false,
            counters: HostCounters {
                registered: 0,
                submitted: 0,
                completed: 0,
                cancelled: 0,
                faulted: 0,
                leaked: 0,
                dup: 0,
                stale: 0,
                foreign: 0,
                retired: 0,
            },
        }
    }

    /// A slot for an operation of `owner`, this table's.
    pub(super) fn register(&mut self, owner: u32) -> Result<Token, RegisterRefused> {
        let index = match self.free.pop_front() {
            Some(index) => index,
            None if self.slots.len() < 1 << HOST_SLOT_BITS => {
                self.slots.push(Slot {
                    generation: 1,
                    state: State::Free,
                    waiter: None,
                    reach: None,
                });
                (self.slots.len() - 1) as u32
            }
            None => return Err(RegisterRefused::TableFull),
        };
        let slot = &mut self.slots[index as usize];
        debug_assert_eq!(slot.state, State::Free);
        slot.state = State::Open;
        self.counters.registered += 1;
        Ok(Token::new(owner, index, slot.generation))
    }

    /// Whether the caller is the one who may answer. If not, that is counted.
    pub(super) fn claim(&mut self, token: Token) -> bool {
        let counters = &mut self.counters;
        if self.is_retired {
            counters.retired += 1;
            return false;
        }
        let Some(slot) = self.slots.get_mut(token.slot() as usize) else {
            counters.foreign += 1;
            return false;
        };
        let count = match (token.generation().cmp(&slot.generation), slot.state) {
            (std::cmp::Ordering::Equal, State::Open) => {
                slot.state = State::Claimed;
                return true;
            }
            (_, State::OutOfService) => &mut counters.retired,
            (std::cmp::Ordering::Less, _) => &mut counters.stale,
            (std::cmp::Ordering::Equal, State::Claimed | State::Applied) => &mut counters.dup,
            (std::cmp::Ordering::Equal, State::Free) | (std::cmp::Ordering::Greater, _) => {
                &mut counters.foreign
            }
        };
        *count += 1;
        false
    }

    /// Lets the answer that was claimed stand. What is returned is settled outside the lock.
    pub(super) fn apply(&mut self, token: Token) -> Option<Wake> {
        // An operation that has ended without waiting for its answer has counted it.
        let slot = self.slot(token).filter(|s| s.state == State::Claimed)?;
        slot.state = State::Applied;
        let waiter = slot.waiter.take()?;
        // SAFETY: in the slot, under the lock, so its frame is there, see the module; not used after its wait is over.
        unsafe { waiter.as_ref() }.finish(Outcome::Woken)
    }

    /// Owner's side: `false` if the answer stands already; otherwise `waiter` is finished when it does, until `end_wait`.
    pub(super) fn begin_wait(&mut self, token: Token, waiter: &Waiter) -> bool {
        let slot = self.own_slot(token);
        if slot.state == State::Applied {
            return false;
        }
        debug_assert!(slot.waiter.is_none());
        slot.waiter = Some(NonNull::from(waiter));
        true
    }

    pub(super) fn end_wait(&mut self, token: Token) {
        self.own_slot(token).waiter = None;
    }

    pub(super) fn is_applied(&mut self, token: Token) -> bool {
        self.own_slot(token).state == State::Applied
    }

    /// Owner's side: the operation is over. Returns what is to be dropped outside the lock.
    #[must_use]
    pub(super) fn end(&mut self, token: Token, ended: Ended) -> Option<Reach> {
        if self.is_retired {
            // Kept beyond its worker's end, in a thread-local. It has been counted as leaked.
            return None;
        }
        if self.own_slot(token).state == State::Claimed {
            self.counters.stale += 1;
        }
        let slot = &mut self.slots[token.slot() as usize];
        let reach = slot.reach.take();
        if slot.generation == GENERATION_MAX {
            slot.state = State::OutOfService;
        } else {
            slot.generation += 1;
            slot.state = State::Free;
            self.free.push_back(token.slot());
        }
        self.counters.count_end(ended);
        reach
    }

    /// From here on the outside is reached by the token, too.
    pub(super) fn expose(&mut self, token: Token, reach: Reach) -> Result<(), Reach> {
        match self.slot(token).filter(|s| s.state == State::Open) {
            Some(slot) => {
                slot.reach = Some(reach);
                Ok(())
            }
            None => Err(reach),
        }
    }

    /// What [`expose`](Self::expose) has left; `None` if it did not, which is not counted.
    pub(super) fn reach(&mut self, token: Token) -> Option<Reach> {
        self.slot(token)?.reach.clone()
    }

    /// As [`reach`](Self::reach), for somebody who has nothing but the number, and would claim: that there is nothing is counted.
    pub(super) fn reach_or_count(&mut self, token: Token) -> Option<Reach> {
        let reach = self.reach(token);
        if reach.is_none() {
            if self.slot(token).is_some_and(|s| s.state == State::Open) {
                // Only its completer may answer: somebody has guessed.
                self.counters.foreign += 1;
            } else {
                let is_claimed = self.claim(token);
                debug_assert!(!is_claimed, "open operations have been dealt with");
            }
        }
        reach
    }

    /// The owner has ended. What is still out has been forgotten, and is left as it is.
    pub(super) fn retire(&mut self) {
        self.is_retired = true;
        self.counters.leaked += self.counters.out();
        for slot in &mut self.slots {
            std::mem::forget(slot.reach.take());
        }
        self.slots = Vec::new();
        self.free = VecDeque::new();
    }

    pub(super) fn is_retired(&self) -> bool {
        self.is_retired
    }

    /// The slot of an operation that has not ended.
    fn slot(&mut self, token: Token) -> Option<&mut Slot> {
        self.slots
            .get_mut(token.slot() as usize)
            .filter(|slot| slot.generation == token.generation() && slot.state != State::Free)
    }

    fn own_slot(&mut self, token: Token) -> &mut Slot {
        self.slot(token)
            .expect("a registration ends once, by its owner")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(table: &mut Table, token: Token) {
        assert!(table.end(token, Ended::Cancelled).is_none());
    }

    #[test]
    fn host_table_first_claim_wins_and_others_are_counted() {
        let mut table = Table::new();
        let token = table.register(1).unwrap();
        assert!(table.claim(token));
        assert!(!table.claim(token));
        assert!(table.apply(token).is_none());
        assert!(table.is_applied(token));
        assert!(!table.claim(token));
        assert!(table.end(token, Ended::Completed).is_none());
        assert!(!table.claim(token));
        assert_eq!(in_vain(&table), [2, 1, 0, 0]);
        assert_eq!(table.counters.out(), 0);
    }

    /// `dup`, `stale`, `foreign`, `retired`.
    fn in_vain(table: &Table) -> [u64; 4] {
        let counters = &table.counters;
        [
            counters.dup,
            counters.stale,
            counters.foreign,
            counters.retired,
        ]
    }

    #[test]
    fn host_table_tokens_never_issued_are_foreign() {
        let mut table = Table::new();
        let token = table.register(1).unwrap();
        assert!(!table.claim(Token::new(1, token.slot() + 1, 1)));
        assert!(!table.claim(Token::new(1, token.slot(), token.generation() + 1)));
        end(&mut table, token);
        // The next generation's, before anybody has it.
        assert!(!table.claim(Token::new(1, token.slot(), token.generation() + 1)));
        assert_eq!(in_vain(&table), [0, 0, 3, 0]);
        assert!(!table.claim(Token::new(1, token.slot(), 0)));
        assert_eq!(in_vain(&table), [0, 1, 3, 0]);
    }

    #[test]
    fn host_table_an_answer_that_is_not_waited_for_is_stale_once() {
        let mut table = Table::new();
        let token = table.register(1).unwrap();
        assert!(table.claim(token));
        end(&mut table, token);
        assert!(table.apply(token).is_none());
        assert_eq!(in_vain(&table), [0, 1, 0, 0]);
    }

    #[test]
    fn host_table_a_slot_whose_generations_are_used_up_is_not_used_again() {
        let mut table = Table::new();
        let first = table.register(1).unwrap();
        end(&mut table, first);
        for _ in 1..GENERATION_MAX {
            let token = table.register(1).unwrap();
            assert_eq!(token.slot(), first.slot());
            end(&mut table, token);
        }
        let next = table.register(1).unwrap();
        assert_ne!(next.slot(), first.slot());
        assert!(!table.claim(first));
        assert_eq!(in_vain(&table), [0, 0, 0, 1]);
    }

    #[test]
    fn host_table_what_is_out_when_it_retires_is_leaked() {
        let mut table = Table::new();
        let token = table.register(1).unwrap();
        let ended = table.register(1).unwrap();
        end(&mut table, ended);
        table.retire();
        assert_eq!((table.counters.leaked, table.counters.out()), (1, 0));
        assert!(!table.claim(token));
        assert!(table.apply(token).is_none());
        assert_eq!(in_vain(&table), [0, 0, 0, 1]);
    }
}

//! Turns: a goroutine whose operations never have to wait lets the others of its worker run now and then, as it would if it
//! waited. Without it a loop over a channel that always has something, or that polls one that has nothing, would keep its
//! worker for good, and with it perhaps the goroutine that it depends on.

use super::worker::{current, worker};
use crate::limits::READY_TURNS;

/// After an operation that did not wait and may be repeated at once: every so often the others of the worker have a turn.
#[inline]
pub(crate) fn spend_turn() {
    if let Some(worker) = worker() {
        let spent = worker.turns_spent.get() + 1;
        worker.turns_spent.set(spent);
        if spent >= READY_TURNS {
            give_turn();
        }
    }
}

/// The others of the caller's worker have a turn. Nothing on a plain thread, which the system preempts.
#[cold]
pub(crate) fn give_turn() {
    if let Some((worker, g)) = worker().zip(current()) {
        worker.turns_spent.set(0);
        worker.yield_now(g);
    }
}

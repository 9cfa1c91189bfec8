//! Presences: what biased locks know workers' threads by. They are never freed, since a lock may name one for as long as it
//! lives, but given to the next worker when one ends: there are as many as there were workers at one time.

use crate::park::{Presence, Token};
use std::sync::{Mutex, PoisonError};

static POOL: Mutex<Vec<&'static Presence>> = Mutex::new(Vec::new());

/// For a worker that starts: its thread's presence. `None` where asymmetric barriers cannot be had, and so no lock may be
/// biased.
pub(super) fn take() -> Option<&'static Presence> {
    if !urgo_sys::barrier::is_available() {
        return None;
    }
    let free = POOL.lock().unwrap_or_else(PoisonError::into_inner).pop();
    Some(free.unwrap_or_else(|| Box::leak(Box::new(Presence::new()))))
}

/// The worker has ended, and is in no lock.
pub(super) fn give_back(presence: Option<&'static Presence>) {
    POOL.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .extend(presence);
}

/// As locks take it.
pub(super) fn token(presence: Option<&'static Presence>) -> Token {
    presence.map_or(Token::NOBODY, Token::of)
}

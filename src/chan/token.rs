//! The token: what a select holds between choosing an operation and completing it.
//!
//! # State
//!
//! | `state` | holds | ends by |
//! |---|---|---|
//! | `Empty` | nothing: nothing is chosen | |
//! | `Closed` | that the chosen channel is disconnected | completing, which says so |
//! | `Value` | the received value, inline if it is small | taking it; else it is dropped |
//! | `Permit` | room for one value in a buffered channel | sending, or giving it back |
//! | `Receiver` | a claimed receiver of a rendezvous, which waits for the value | handing over, or calling it off |
//!
//! # Safety
//!
//! A value is stored without its type. The channel that stored it knows the type, and is the one to take it.

#![allow(unsafe_code)]

use super::line::{Entry, Offer};
use crate::park::Wake;
use crate::sched::{self, Here};
use core::mem::MaybeUninit;

/// Values up to this many words are kept inline.
const WORDS: usize = 8;

#[derive(Clone, Copy, Debug)]
enum State {
    Empty,
    Closed,
    Value { drop: unsafe fn(*mut Token) },
    Permit,
    Receiver { entry: *const Entry, wake: Wake },
}

/// See the module.
pub(super) struct Token {
    state: State,
    words: MaybeUninit<[u128; WORDS / 2]>,
}

/// What was chosen, for the sending side.
#[derive(Debug)]
pub(super) enum Claim {
    Closed,
    Permit,
    Receiver(ClaimedReceiver),
}

/// A receiver that waits until it is handed a value or told that there will be none; dropping it does the latter.
#[derive(Debug)]
pub(super) struct ClaimedReceiver {
    entry: *const Entry,
    wake: Wake,
}

impl Token {
    pub(super) fn new() -> Token {
        Token {
            state: State::Empty,
            words: MaybeUninit::uninit(),
        }
    }

    const fn is_inline<T>() -> bool {
        size_of::<T>() <= WORDS * 8 && align_of::<T>() <= align_of::<u128>()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.state, State::Empty)
    }

    /// The chosen channel is disconnected.
    #[inline]
    pub(super) fn set_closed(&mut self) {
        self.state = State::Closed;
    }

    #[inline]
    pub(super) fn set_permit(&mut self) {
        self.state = State::Permit;
    }

    #[inline]
    pub(super) fn set_receiver(&mut self, entry: *const Entry, wake: Wake) {
        self.state = State::Receiver { entry, wake };
    }

    /// Keeps a received value.
    #[inline]
    pub(super) fn put<T>(&mut self, value: T) {
        debug_assert!(self.is_empty());
        let place = self.words.as_mut_ptr();
        if Token::is_inline::<T>() {
            // SAFETY: it fits in size and alignment, tested above; the words hold nothing.
            unsafe { place.cast::<T>().write(value) };
        } else {
            // SAFETY: a pointer fits.
            unsafe { place.cast::<*mut T>().write(Box::into_raw(Box::new(value))) };
        }
        self.state = State::Value {
            drop: Token::drop_value::<T>,
        };
    }

    /// # Safety
    ///
    /// `token` holds a value of type `T`.
    unsafe fn drop_value<T>(token: *mut Token) {
        // SAFETY: the caller's promise.
        drop(unsafe { (*token).read::<T>() });
    }

    /// # Safety
    ///
    /// The token holds a value of type `T`, and is told that it no longer does.
    unsafe fn read<T>(&mut self) -> T {
        let place = self.words.as_mut_ptr();
        if Token::is_inline::<T>() {
            // SAFETY: `put` wrote it here; the caller's promise.
            unsafe { place.cast::<T>().read() }
        } else {
            // SAFETY: `put` wrote the box's pointer here; the caller's promise.
            unsafe { *Box::from_raw(place.cast::<*mut T>().read()) }
        }
    }

    /// The received value; `None` if the channel was disconnected.
    ///
    /// # Safety
    ///
    /// If the token holds a value, it is of type `T`: the token was filled by an operation on a channel of that type.
    ///
    /// # Panics
    /// If nothing was received.
    #[inline]
    pub(super) unsafe fn take<T>(&mut self) -> Option<T> {
        match core::mem::replace(&mut self.state, State::Empty) {
            State::Closed => None,
            // SAFETY: the caller's promise; the state says that it is there, and from now on that it is not.
            State::Value { .. } => Some(unsafe { self.read::<T>() }),
            other => {
                self.state = other;
                panic!("the chosen operation is not a receive")
            }
        }
    }

    /// What the sending side was given.
    ///
    /// # Panics
    /// If the chosen operation is not a send.
    #[inline]
    pub(super) fn claim(&mut self) -> Claim {
        match core::mem::replace(&mut self.state, State::Empty) {
            State::Closed => Claim::Closed,
            State::Permit => Claim::Permit,
            State::Receiver { entry, wake } => Claim::Receiver(ClaimedReceiver { entry, wake }),
            other => {
                self.state = other;
                panic!("the chosen operation is not a send")
            }
        }
    }

    /// Lets go of a received value without dropping it.
    pub(super) fn forget_value(&mut self) {
        if matches!(self.state, State::Value { .. }) {
            self.state = State::Empty;
        }
    }

    /// Gives back what needs no channel for it; `true` if a permit is left to give back.
    pub(super) fn abandon(&mut self) -> bool {
        match core::mem::replace(&mut self.state, State::Empty) {
            State::Empty | State::Closed => false,
            State::Permit => true,
            State::Value { drop } => {
                // SAFETY: stored with the value, so of its type; the state no longer says that it is there.
                unsafe { drop(self) };
                false
            }
            State::Receiver { entry, wake } => {
                drop(ClaimedReceiver { entry, wake });
                false
            }
        }
    }
}

impl Drop for Token {
    #[inline]
    fn drop(&mut self) {
        if !self.is_empty() {
            let has_permit = self.abandon();
            debug_assert!(!has_permit, "a permit is given back through its channel");
        }
    }
}

impl ClaimedReceiver {
    #[inline]
    pub(super) fn new(entry: &Entry, wake: Wake) -> ClaimedReceiver {
        ClaimedReceiver { entry, wake }
    }

    /// Hands `value` over and lets the receiver go.
    ///
    /// # Safety
    ///
    /// The receiver waits for a value of type `T`.
    #[inline]
    pub(super) unsafe fn fill<T>(self, value: T, here: Here<'_>) {
        // SAFETY: claimed and not settled, so its owner stays where it is.
        match unsafe { &*self.entry }.offer.get() {
            // SAFETY: the place is the claimed receiver's, empty, and of type `T` by the caller's promise.
            Offer::Place(place) => unsafe { place.cast::<T>().write(value) },
            // SAFETY: the token is the claimed select's, which waits until it is settled.
            Offer::Select(token) => unsafe { (*token).put(value) },
            Offer::Nothing => unreachable!("a receiver of a rendezvous offers a place"),
        }
        let wake = self.wake;
        core::mem::forget(self);
        here.settle(wake);
    }
}

impl Drop for ClaimedReceiver {
    fn drop(&mut self) {
        // SAFETY: claimed and not settled, so its owner stays where it is.
        unsafe { &*self.entry }.is_void.set(true);
        sched::settle(self.wake);
    }
}

impl core::fmt::Debug for Token {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Token")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

const _: () = assert!(size_of::<Token>() <= 128);

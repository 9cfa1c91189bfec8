//! Tokens: `kind:4 | slot:20 | generation:40`, most significant first. Only this file packs and unpacks them.
//!
//! A kind is never 0, so neither is a token: a zeroed `user_data` is always foreign.

use std::num::NonZeroU64;
use std::ptr::NonNull;

/// Opaque pointer of whoever waits for an op. The ring stores and returns it, and never looks behind it.
pub type Owner = NonNull<()>;

pub(crate) const SLOT_BITS: u32 = 20;
pub(crate) const GENERATION_BITS: u32 = 40;
/// Slots a table can have: 1,048,576 ops of one ring alive at once.
pub(crate) const SLOTS_MAX: u32 = 1 << SLOT_BITS;
/// Last usable generation; a slot that reaches it is retired, so no token is ever issued twice.
pub(crate) const GENERATION_MAX: u64 = (1 << GENERATION_BITS) - 1;

const KIND_SHIFT: u32 = SLOT_BITS + GENERATION_BITS;
const _: () = assert!(KIND_SHIFT + 4 == u64::BITS);

/// How an op completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// One record.
    OneShot = 1,
    /// Records with `F_MORE`, then a last one without it. Each of the former is an [`Event::Record`](crate::Event).
    Multishot = 2,
    /// A result record, and when it carries `F_MORE`, a notification record after which the buffer is free. The op is
    /// ready at the notification; its outcome is the result.
    ZeroCopy = 3,
}

/// Kind bits of the ring's own requests.
const CONTROL: u64 = 15;

/// One op: place in the table and the generation of that place. Unique in the life of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(NonZeroU64);

impl Token {
    #[inline]
    pub(crate) fn new(kind: Kind, slot: u32, generation: u64) -> Token {
        debug_assert!(slot < SLOTS_MAX && generation <= GENERATION_MAX);
        let bits = (kind as u64) << KIND_SHIFT | u64::from(slot) << GENERATION_BITS | generation;
        Token(NonZeroU64::new(bits).expect("a kind is never zero"))
    }

    /// The `user_data` value under which the kernel knows this op.
    #[inline]
    pub fn user_data(self) -> u64 {
        self.0.get()
    }

    /// How this op completes.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.0.get() >> KIND_SHIFT {
            1 => Kind::OneShot,
            2 => Kind::Multishot,
            _ => Kind::ZeroCopy,
        }
    }

    #[inline]
    pub(crate) fn slot(self) -> u32 {
        slot_of(self.0.get())
    }

    #[inline]
    pub(crate) fn generation(self) -> u64 {
        self.0.get() & GENERATION_MAX
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Token({:?} {}#{})",
            self.kind(),
            self.slot(),
            self.generation()
        )
    }
}

#[inline]
fn slot_of(user_data: u64) -> u32 {
    (user_data >> GENERATION_BITS) as u32 & (SLOTS_MAX - 1)
}

/// What a completion record's `user_data` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Op(Token),
    Control(Control),
    /// Not made by any ring of this program.
    Foreign,
}

/// The ring's own requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// A cancel request's own record; the number is the slot it aimed at.
    Cancel(u32),
    /// Our own side of a kick sent to that ring's descriptor: it arrives only when the kick failed.
    KickSent(i32),
    /// A kick from another ring.
    Kick,
    /// The futex wait on the sleep word, with the serial number of its arming.
    Word(u64),
    /// The poll on the kick eventfd, with the serial number of its arming.
    Eventfd(u64),
}

impl Control {
    #[inline]
    pub(crate) fn user_data(self) -> u64 {
        let (class, number) = match self {
            Control::Cancel(slot) => (1, u64::from(slot)),
            Control::KickSent(fd) => (2, u64::from(fd.cast_unsigned())),
            Control::Kick => (3, 0),
            Control::Word(serial) => (4, serial & GENERATION_MAX),
            Control::Eventfd(serial) => (5, serial & GENERATION_MAX),
        };
        CONTROL << KIND_SHIFT | class << GENERATION_BITS | number
    }
}

impl Address {
    #[inline]
    pub(crate) fn of(user_data: u64) -> Address {
        match user_data >> KIND_SHIFT {
            1..=3 => {
                NonZeroU64::new(user_data).map_or(Address::Foreign, |bits| Address::Op(Token(bits)))
            }
            CONTROL => Address::of_control(user_data),
            _ => Address::Foreign,
        }
    }

    fn of_control(user_data: u64) -> Address {
        let number = user_data & GENERATION_MAX;
        match slot_of(user_data) {
            1 => Address::Control(Control::Cancel(number as u32)),
            2 => Address::Control(Control::KickSent((number as u32).cast_signed())),
            3 => Address::Control(Control::Kick),
            4 => Address::Control(Control::Word(number)),
            5 => Address::Control(Control::Eventfd(number)),
            _ => Address::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_parts_survive_packing() {
        for kind in [Kind::OneShot, Kind::Multishot, Kind::ZeroCopy] {
            for slot in [0, 1, 4095, SLOTS_MAX - 1] {
                for generation in [0, 1, GENERATION_MAX] {
                    let token = Token::new(kind, slot, generation);
                    assert_eq!(
                        (token.kind(), token.slot(), token.generation()),
                        (kind, slot, generation)
                    );
                    assert_eq!(Address::of(token.user_data()), Address::Op(token));
                }
            }
        }
    }

    #[test]
    fn control_requests_survive_packing_and_are_never_ops() {
        for control in [
            Control::Cancel(SLOTS_MAX - 1),
            Control::KickSent(9),
            Control::Kick,
            Control::Word(77),
            Control::Eventfd(GENERATION_MAX),
        ] {
            assert_eq!(Address::of(control.user_data()), Address::Control(control));
        }
    }

    #[test]
    fn unknown_user_data_is_foreign() {
        for user_data in [0, 1, 14 << KIND_SHIFT, CONTROL << KIND_SHIFT, u64::MAX] {
            assert_eq!(Address::of(user_data), Address::Foreign);
        }
    }
}

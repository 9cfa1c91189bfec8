//! The name of one operation: owner, slot and generation in one number.

use crate::limits::{HOST_GENERATION_BITS, HOST_SLOT_BITS};

/// `owner | slot | generation`, see [`limits`](crate::limits). Generations begin with 1, so that 0 names nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub(crate) struct Token(u64);

impl Token {
    pub(super) fn new(owner: u32, slot: u32, generation: u32) -> Token {
        let slot_and_generation = (u64::from(slot) << HOST_GENERATION_BITS) | u64::from(generation);
        Token((u64::from(owner) << (HOST_SLOT_BITS + HOST_GENERATION_BITS)) | slot_and_generation)
    }

    pub(crate) fn from_raw(raw: u64) -> Token {
        Token(raw)
    }

    pub(crate) fn into_raw(self) -> u64 {
        self.0
    }

    pub(crate) fn owner(self) -> u32 {
        (self.0 >> (HOST_SLOT_BITS + HOST_GENERATION_BITS)) as u32
    }

    pub(crate) fn slot(self) -> u32 {
        ((self.0 >> HOST_GENERATION_BITS) as u32) & ((1 << HOST_SLOT_BITS) - 1)
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 as u32) & ((1 << HOST_GENERATION_BITS) - 1)
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Token({}.{}.{})",
            self.owner(),
            self.slot(),
            self.generation()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Token;
    use crate::limits::{HOST_GENERATION_BITS, HOST_OWNERS_MAX, HOST_SLOT_BITS};

    #[test]
    fn token_parts_come_out_as_they_went_in() {
        let (slot_max, generation_max) =
            ((1 << HOST_SLOT_BITS) - 1, (1 << HOST_GENERATION_BITS) - 1);
        for owner in [0, 1, HOST_OWNERS_MAX as u32] {
            for slot in [0, 1, slot_max] {
                for generation in [1, generation_max] {
                    let token = Token::from_raw(Token::new(owner, slot, generation).into_raw());
                    assert_eq!(
                        (token.owner(), token.slot(), token.generation()),
                        (owner, slot, generation)
                    );
                }
            }
        }
    }
}

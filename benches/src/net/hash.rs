//! FNV-1a, which says in one number what bytes were.

/// The hash of `bytes`, taken `rounds` times one after the other. The Go program has the same.
///
/// Each byte waits for the multiplication before it, so all compilers make it equally slow: about 4 cycles a byte.
pub(crate) fn fnv(bytes: &[u8], rounds: usize) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for _ in 0..rounds {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::fnv;

    #[test]
    fn one_round_is_fnv_1a() {
        assert_eq!(fnv(b"", 1), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(b"a", 1), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv(b"ab", 2), fnv(b"abab", 1));
    }
}

//! What a client sends over and over, and what has to come back each time.

use crate::net::hash::fnv;

/// A request and its answer, byte by byte. Both are leaked: the kernel reads the one at any time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    pub(super) request: &'static [u8],
    answer: &'static [u8],
    /// `0xff` for a byte that has to be as in `answer`, 0 for one that may differ.
    mask: &'static [u8],
}

impl Exchange {
    /// A message of `bytes` bytes that comes back as it went.
    pub(crate) fn echo(bytes: usize) -> Exchange {
        let message: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        Exchange::fixed(message.clone(), message)
    }

    /// A request that is always answered with `answer`.
    pub(crate) fn fixed(request: Vec<u8>, answer: Vec<u8>) -> Exchange {
        let mask = vec![0xff; answer.len()];
        Exchange::new(request, answer, mask)
    }

    /// # Panics
    /// If `mask` is not as long as `answer`, or there is nothing to send or to receive.
    pub(super) fn new(request: Vec<u8>, answer: Vec<u8>, mask: Vec<u8>) -> Exchange {
        assert_eq!(answer.len(), mask.len());
        assert!(!request.is_empty() && !answer.is_empty());
        Exchange {
            request: request.leak(),
            answer: answer.leak(),
            mask: mask.leak(),
        }
    }

    /// A hash of the answer: what every client that got right answers has seen.
    pub(crate) fn checksum(&self) -> u64 {
        fnv(self.answer, 1)
    }

    /// Length of the answer.
    pub(super) fn answer_bytes(&self) -> usize {
        self.answer.len()
    }

    /// Whether `received` is what the answer says from byte `from` on.
    pub(super) fn is_answer(&self, from: usize, received: &[u8]) -> bool {
        let range = from..from + received.len();
        let (Some(answer), Some(mask)) = (self.answer.get(range.clone()), self.mask.get(range))
        else {
            return false;
        };
        // No early end: this way it is done by vectors.
        let differ = |at: usize| (answer[at] ^ received[at]) & mask[at];
        (0..received.len()).fold(0, |seen, at| seen | differ(at)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_checked_in_pieces_and_under_its_mask() {
        let exchange = Exchange::new(vec![0], b"abcd".to_vec(), vec![0xff, 0, 0xff, 0xff]);
        assert!(exchange.is_answer(0, b"abcd") && exchange.is_answer(0, b"a?c"));
        assert!(exchange.is_answer(2, b"cd"));
        assert!(!exchange.is_answer(0, b"b") && !exchange.is_answer(1, b"bd"));
        assert!(!exchange.is_answer(2, b"cde"), "more than the answer");
        assert!(!Exchange::echo(300).is_answer(0, &[0; 2]));
    }
}

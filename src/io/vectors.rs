//! Scattered buffers as the kernel takes them.

use std::ops::Deref;
use std::ptr;

/// Buffers the kernel takes at a time (`UIO_MAXIOV`); more are left for the caller's next call, as in std.
const VECTORS_MAX: usize = 1024;

/// Whether the buffers that one call passes hold a byte at all.
pub(crate) fn has_bytes<B: Deref<Target = [u8]>>(buffers: &[B]) -> bool {
    buffers
        .iter()
        .take(VECTORS_MAX)
        .any(|buffer| !buffer.is_empty())
}

/// A message header over `count` vectors at `vectors`, cut to what the kernel takes. It holds the pointer, no borrow.
pub(crate) fn message(vectors: *mut libc::iovec, count: usize) -> libc::msghdr {
    libc::msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: vectors,
        msg_iovlen: count.min(VECTORS_MAX) as _,
        msg_control: ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::*;

    #[test]
    fn only_what_one_call_passes_counts_as_bytes() {
        let mut buffers = vec![IoSlice::new(b""); VECTORS_MAX];
        buffers.push(IoSlice::new(b"late"));
        assert!(!has_bytes(&buffers));
        buffers[VECTORS_MAX - 1] = IoSlice::new(b"x");
        assert!(has_bytes(&buffers));
        assert_eq!(
            message(ptr::null_mut(), buffers.len()).msg_iovlen as usize,
            VECTORS_MAX
        );
    }
}

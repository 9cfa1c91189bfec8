//! Buffers of the connections of a one-shot server, at addresses that stay.
//!
//! # Safety
//! The kernel writes a connection's buffer while its recv is in flight. The buffers are one leaked allocation that is only
//! named by raw pointers, so no reference of ours ever covers memory that the kernel writes.

/// One buffer of `bytes` bytes per descriptor number.
#[derive(Debug)]
pub(crate) struct Connections {
    memory: *mut u8,
    descriptors_max: usize,
    bytes: usize,
}

impl Connections {
    /// Room for descriptors below `descriptors_max`. Pages are touched on first use only.
    pub(crate) fn new(descriptors_max: usize, bytes: usize) -> Connections {
        let memory = vec![0_u8; descriptors_max * bytes].leak().as_mut_ptr();
        Connections {
            memory,
            descriptors_max,
            bytes,
        }
    }

    /// The buffer of descriptor `fd`.
    pub(crate) fn buffer(&self, fd: i32) -> *mut u8 {
        assert!(
            (fd as usize) < self.descriptors_max,
            "descriptor {fd} is too high"
        );
        // SAFETY: `fd` is below `descriptors_max` by the assertion, so the result stays inside the allocation.
        unsafe { self.memory.add(fd as usize * self.bytes) }
    }
}

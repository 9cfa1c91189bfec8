//! The frame-pointer walk: return addresses of a stack, found by following the chain of frame records.
//!
//! # Algorithm
//!
//! With frame pointers on, both CPUs keep the same record at the frame pointer: the caller's frame pointer, and one
//! word above it the return address. The walk reads records as long as they lie wholly inside the given bounds, and
//! demands that each lies above the one before. So it ends after at most `(high - low) / 16` records, whatever the
//! stack contains, and reads nothing outside its bounds.
//!
//! # Safety
//!
//! It reads memory that belongs to other functions' frames, which no reference can describe. It relies on the bounds
//! that the caller gives and on nothing that it reads.
#![allow(unsafe_code)]

use core::ops::ControlFlow;
use core::ptr::with_exposed_provenance;

use crate::cpu::plain_return_address;

/// Why a frame walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkEnd {
    /// A null frame pointer: the outermost frame was visited.
    Complete,
    /// A frame pointer that is misaligned, not above the one before, or outside the bounds: code without frame
    /// pointers lies on this stack, or the start was not a frame pointer.
    Broken,
    /// The visitor asked to stop.
    Stopped,
}

/// Follows the frame records from `fp` upwards and hands each return address to `visit`.
///
/// The first address visited is the return address of the function whose frame pointer `fp` is. Takes no lock and does
/// not allocate, so it may run in a signal handler on the stack that was interrupted.
///
/// ```
/// use core::ops::ControlFlow;
/// let fp = urgo_arch::frame_pointer();
/// let mut frames = 0;
/// // SAFETY: one frame record above `fp` is this function's own.
/// unsafe {
///     urgo_arch::walk_frames(fp, fp.addr(), fp.addr() + 16, |_pc| {
///         frames += 1;
///         ControlFlow::Continue(())
///     });
/// }
/// assert!(frames <= 1);
/// ```
///
/// # Safety
///
/// Every byte in `low..high` is readable, and the frames in it are not being unwound or overwritten meanwhile: they
/// are the calling thread's own, or those of a suspended goroutine that nobody continues during the walk.
pub unsafe fn walk_frames(
    fp: *const usize,
    low: usize,
    high: usize,
    mut visit: impl FnMut(usize) -> ControlFlow<()>,
) -> WalkEnd {
    let mut record = fp.expose_provenance();
    let mut floor = low;
    loop {
        if record == 0 {
            return WalkEnd::Complete;
        }
        if !is_record_inside(record, floor, high) {
            return WalkEnd::Broken;
        }
        let words = with_exposed_provenance::<usize>(record);
        // SAFETY: both words lie in `low..high` and are aligned, established by the check above; readable because the
        // caller promises so for the duration of this call.
        let (next, return_address) =
            unsafe { (words.read_volatile(), words.add(1).read_volatile()) };
        if return_address == 0 {
            return WalkEnd::Complete;
        }
        if visit(plain_return_address(return_address)).is_break() {
            return WalkEnd::Stopped;
        }
        floor = record + RECORD_BYTES;
        record = next;
    }
}

/// Bytes of a frame record: the caller's frame pointer and the return address.
const RECORD_BYTES: usize = 2 * size_of::<usize>();

/// Whether an aligned record at `record` lies in `floor..high`.
fn is_record_inside(record: usize, floor: usize, high: usize) -> bool {
    record.is_multiple_of(align_of::<usize>())
        && record >= floor
        && record
            .checked_add(RECORD_BYTES)
            .is_some_and(|end| end <= high)
}

//! Stacks: slabs of guarded stacks in size classes, owned by one worker.
//!
//! # Words
//!
//! *Class*: all stacks of one power-of-two reserve. *Hot*: free, pages still there, last used first. *Cold*: free, pages
//! given back or never touched.
//!
//! # Algorithm
//!
//! A goroutine gets its stack from the worker that first runs it and gives it back to the same worker, so pools need no
//! locks and no shared overflow. A class maps slabs that double in size (64 stacks, 128, ...), so a million stacks are
//! about twenty mappings; guards are installed when a stack is first carved, so a big slab costs nothing in advance.
//! Stack `i` of a slab lies at `i * stride`, guard first (stacks grow down into it).
//!
//! Trimming, twice a second while there is something to trim: of the hot stacks that nobody wanted since the last time, only
//! the last used are kept; the others' pages are given back, runs of neighbours in one
//! call each, and a slab of which every stack is free is unmapped whole, page tables included.
//!
//! # Fails when
//!
//! No address space, no mapping or (on the `mprotect` road) no VMA can be had: [`StackError`], which names the sysctl.
//!
//! # Safety
//!
//! Stacks are raw memory: a [`Stack`] handed out is used by one goroutine until it is given back.

#![allow(unsafe_code)]

use crate::limits::{
    GUARD_BYTES, SLAB_BYTES_MAX, SLAB_STACKS_FIRST, STACK_BYTES_MAX, STACK_BYTES_MIN,
    STACKS_HOT_MAX, TRIM_BATCH,
};
use core::fmt;
use core::ptr::NonNull;
use urgo_sys::guard::{GuardError, GuardRoad, VmaBudget};
use urgo_sys::mapping::{MapError, Mapping};

/// Why no stack could be had for a goroutine.
#[derive(Debug)]
#[non_exhaustive]
pub enum StackError {
    /// The address space for a slab of stacks could not be mapped.
    Map(MapError),
    /// A guard could not be placed below the stack.
    Guard(GuardError),
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StackError::Map(error) => write!(f, "no address space for goroutine stacks: {error}"),
            StackError::Guard(error) => write!(f, "no guard for a goroutine stack: {error}"),
        }
    }
}

impl std::error::Error for StackError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StackError::Map(error) => Some(error),
            StackError::Guard(error) => Some(error),
        }
    }
}

/// One goroutine's stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    /// Lowest usable address; the guard ends here.
    base: NonNull<u8>,
    /// log2 of the usable bytes.
    class: u8,
}

impl Stack {
    pub(crate) fn bytes(self) -> usize {
        1 << self.class
    }

    /// The address behind the highest usable byte.
    #[inline]
    pub(crate) fn top(self) -> *mut u8 {
        // SAFETY: base and bytes describe one mapped stack; one past its end.
        unsafe { self.base.as_ptr().add(self.bytes()) }
    }

    /// Async-signal-safe. Whether `address` lies in this stack's guard.
    pub(crate) fn guard_contains(self, address: usize) -> bool {
        let base = self.base.as_ptr() as usize;
        (base - GUARD_BYTES..base).contains(&address)
    }

    /// Lowest and highest usable address.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the dump's stack walk takes it up")
    )]
    pub(crate) fn range(self) -> core::ops::Range<usize> {
        self.base.as_ptr() as usize..self.top() as usize
    }
}

/// The class of a reserve of `bytes`, or `None` if it is beyond the largest.
pub(crate) fn class_of(bytes: usize) -> Option<u8> {
    let bytes = bytes.max(STACK_BYTES_MIN).checked_next_power_of_two()?;
    (bytes <= STACK_BYTES_MAX).then_some(bytes.trailing_zeros() as u8)
}

struct Slab {
    mapping: Mapping,
    stacks: usize,
    /// Stacks from the start that have a guard and were handed out at least once.
    carved: usize,
}

impl Slab {
    fn base(&self) -> usize {
        self.mapping.base() as usize
    }
}

struct Class {
    class: u8,
    hot: Vec<Stack>,
    /// The fewest hot stacks there were since the last trim: that many were of no use all the time.
    unused: usize,
    cold: Vec<Stack>,
    /// In address order.
    slabs: Vec<Slab>,
    mapped_ever: u32,
}

impl Class {
    fn new(class: u8) -> Class {
        Class {
            class,
            hot: Vec::new(),
            unused: 0,
            cold: Vec::new(),
            slabs: Vec::new(),
            mapped_ever: 0,
        }
    }

    fn stride(&self) -> usize {
        (1usize << self.class) + GUARD_BYTES
    }

    #[cold]
    fn take_slow(
        &mut self,
        road: GuardRoad,
        budget: &'static VmaBudget,
    ) -> Result<Stack, StackError> {
        if let Some(stack) = self.cold.pop() {
            return Ok(stack);
        }
        let index = match self.slabs.iter().position(|slab| slab.carved < slab.stacks) {
            Some(index) => index,
            None => self.map_slab()?,
        };
        let (stride, class) = (self.stride(), self.class);
        let slab = &mut self.slabs[index];
        let offset = slab.carved * stride;
        // SAFETY: this stack was never handed out, so nothing lies below it yet.
        unsafe { urgo_sys::guard::install(&slab.mapping, offset, GUARD_BYTES, road, budget) }
            .map_err(StackError::Guard)?;
        slab.carved += 1;
        let base = slab
            .mapping
            .base()
            .with_addr(slab.base() + offset + GUARD_BYTES);
        // A mapping's base plus an offset is never null.
        Ok(Stack {
            base: NonNull::new(base).expect("mapped"),
            class,
        })
    }

    fn map_slab(&mut self) -> Result<usize, StackError> {
        let stride = self.stride();
        let most = (SLAB_BYTES_MAX / stride).max(1);
        let mut stacks = (SLAB_STACKS_FIRST << self.mapped_ever.min(16)).min(most);
        loop {
            match Mapping::reserve(stacks * stride) {
                Ok(mapping) => {
                    self.mapped_ever += 1;
                    let at = self
                        .slabs
                        .partition_point(|slab| slab.base() < mapping.base() as usize);
                    self.slabs.insert(
                        at,
                        Slab {
                            mapping,
                            stacks,
                            carved: 0,
                        },
                    );
                    return Ok(at);
                }
                // A tight address space may still have room for fewer.
                Err(_) if stacks > 1 => stacks /= 2,
                Err(error) => return Err(StackError::Map(error)),
            }
        }
    }

    fn slab_index(&self, stack: Stack) -> usize {
        let address = stack.base.as_ptr() as usize;
        self.slabs.partition_point(|slab| slab.base() <= address) - 1
    }

    /// Gives back the pages of up to `TRIM_BATCH` surplus hot stacks. `true` if there are more.
    fn trim(&mut self) -> bool {
        let surplus = self.unused.saturating_sub(STACKS_HOT_MAX);
        let batch = surplus.min(TRIM_BATCH);
        self.unused -= batch;
        // The front of the list holds those used longest ago.
        let mut cooling: Vec<Stack> = self.hot.drain(..batch).collect();
        cooling.sort_unstable_by_key(|stack| stack.base);
        let mut rest = &cooling[..];
        while let Some(first) = rest.first() {
            let index = self.slab_index(*first);
            let run = self.run_of_neighbours(rest, index);
            self.release(&rest[..run], index);
            rest = &rest[run..];
        }
        self.cold.append(&mut cooling);
        if batch < surplus {
            return true;
        }
        self.unused = self.hot.len();
        if batch > 0 {
            self.unmap_free_slabs();
            self.hot.shrink_to(2 * STACKS_HOT_MAX);
        }
        false
    }

    /// How many of the (address-ordered) `stacks` from the first on are neighbours in slab `index`.
    fn run_of_neighbours(&self, stacks: &[Stack], index: usize) -> usize {
        let slab = &self.slabs[index];
        let end = slab.base() + slab.mapping.len();
        let first = stacks[0].base.as_ptr() as usize;
        stacks
            .iter()
            .enumerate()
            .take_while(|(i, stack)| {
                let base = stack.base.as_ptr() as usize;
                base == first + i * self.stride() && base < end
            })
            .count()
    }

    fn release(&self, run: &[Stack], index: usize) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            return;
        };
        let slab = &self.slabs[index];
        let offset = |stack: &Stack| stack.base.as_ptr() as usize - slab.base();
        // SAFETY: from the first to the last there are only free stacks, on which nothing lives, and guards.
        let released = unsafe {
            slab.mapping
                .release(offset(first)..offset(last) + last.bytes())
        };
        // Locked memory (`mlockall`) stays: more memory than need be, nothing wrong.
        drop(released);
    }

    /// Unmaps slabs all of whose stacks are cold, so that their page tables go too. The first, small slab stays.
    fn unmap_free_slabs(&mut self) {
        let mut cold = vec![0; self.slabs.len()];
        for stack in &self.cold {
            cold[self.slab_index(*stack)] += 1;
        }
        let unused =
            |i: usize, slab: &Slab| slab.stacks > SLAB_STACKS_FIRST && cold[i] == slab.carved;
        let gone: Vec<bool> = self
            .slabs
            .iter()
            .enumerate()
            .map(|(i, slab)| unused(i, slab))
            .collect();
        if !gone.contains(&true) {
            return;
        }
        let kept = std::mem::take(&mut self.cold);
        self.cold = kept
            .into_iter()
            .filter(|stack| !gone[self.slab_index(*stack)])
            .collect();
        let mut index = 0;
        self.slabs.retain(|_| {
            index += 1;
            !gone[index - 1]
        });
        self.mapped_ever = self.slabs.len() as u32;
    }
}

/// All stacks of one worker. Owner worker only.
pub(crate) struct StackPool {
    road: GuardRoad,
    budget: &'static VmaBudget,
    default_class: u8,
    default: Class,
    /// Other classes, few, most recently made last.
    others: Vec<Class>,
}

impl StackPool {
    /// A pool whose default class holds stacks of at least `stack_bytes` (already checked to have a class).
    pub(crate) fn new(stack_bytes: usize) -> StackPool {
        let default_class = class_of(stack_bytes).expect("checked by the builder");
        StackPool {
            road: urgo_sys::guard::probe(),
            budget: VmaBudget::process(),
            default_class,
            default: Class::new(default_class),
            others: Vec::new(),
        }
    }

    /// A stack of the default class, or of at least `bytes` (checked by the spawner to have a class).
    #[inline]
    pub(crate) fn take(&mut self, bytes: Option<usize>) -> Result<Stack, StackError> {
        let (road, budget) = (self.road, self.budget);
        let class = match bytes {
            None => &mut self.default,
            Some(bytes) => self.class_mut(class_of(bytes).expect("checked by the spawner")),
        };
        match class.hot.pop() {
            Some(stack) => {
                class.unused = class.unused.min(class.hot.len());
                Ok(stack)
            }
            None => class.take_slow(road, budget),
        }
    }

    /// Whether `stack` is of the default class.
    #[inline]
    pub(crate) fn is_default(&self, stack: Stack) -> bool {
        stack.class == self.default_class
    }

    /// Takes a stack back. Its memory stays as it is until the next `take` or `trim`.
    #[inline]
    pub(crate) fn give_back(&mut self, stack: Stack) {
        self.class_mut(stack.class).hot.push(stack);
    }

    #[inline]
    fn class_mut(&mut self, class: u8) -> &mut Class {
        if class == self.default_class {
            &mut self.default
        } else {
            self.other_class(class)
        }
    }

    #[cold]
    fn other_class(&mut self, class: u8) -> &mut Class {
        let at = match self.others.iter().position(|other| other.class == class) {
            Some(at) => at,
            None => {
                self.others.push(Class::new(class));
                self.others.len() - 1
            }
        };
        &mut self.others[at]
    }

    /// Whether there is something to trim.
    pub(crate) fn wants_trim(&self) -> bool {
        let surplus = |class: &Class| class.hot.len() > STACKS_HOT_MAX;
        surplus(&self.default) || self.others.iter().any(surplus)
    }

    /// Gives back the pages of stacks that nobody wanted since the last trim but one, one batch per class. `true` if there are more.
    pub(crate) fn trim(&mut self) -> bool {
        let mut more = self.default.trim();
        for class in &mut self.others {
            more |= class.trim();
        }
        more
    }
}

impl fmt::Debug for StackPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackPool")
            .field("road", &self.road)
            .field("hot", &self.default.hot.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(stack: Stack) {
        // SAFETY: the top 8 bytes of a stack that is ours.
        unsafe { stack.top().sub(8).cast::<u64>().write(7) };
    }

    #[test]
    fn stacks_are_distinct_and_last_in_first_out() {
        let mut pool = StackPool::new(STACK_BYTES_MIN);
        let stacks: Vec<Stack> = (0..1000).map(|_| pool.take(None).unwrap()).collect();
        let mut bases: Vec<_> = stacks.iter().map(|s| s.base).collect();
        bases.sort_unstable();
        bases.dedup();
        assert_eq!(bases.len(), 1000);
        stacks.iter().copied().for_each(touch);
        let last = stacks[999];
        stacks.into_iter().for_each(|s| pool.give_back(s));
        assert_eq!(pool.take(None).unwrap().base, last.base);
    }

    #[test]
    fn stacks_of_other_sizes_have_their_own_class() {
        let mut pool = StackPool::new(STACK_BYTES_MIN);
        let big = pool.take(Some(1 << 20)).unwrap();
        assert_eq!(big.bytes(), 1 << 20);
        assert!(
            big.guard_contains(big.range().start - 1) && !big.guard_contains(big.range().start)
        );
        touch(big);
        pool.give_back(big);
        assert_eq!(pool.take(None).unwrap().bytes(), STACK_BYTES_MIN);
        assert_eq!(pool.take(Some((1 << 19) + 1)).unwrap().base, big.base);
    }

    #[test]
    fn stacks_trim_unmaps_slabs_that_are_free() {
        let mut pool = StackPool::new(STACK_BYTES_MIN);
        let stacks: Vec<Stack> = (0..3000).map(|_| pool.take(None).unwrap()).collect();
        stacks.iter().copied().for_each(touch);
        let kept = stacks[2999];
        stacks[..2999]
            .iter()
            .copied()
            .for_each(|s| pool.give_back(s));
        assert!(pool.wants_trim());
        // They were wanted just now: not yet.
        assert!(!pool.trim() && pool.wants_trim());
        let slabs = pool.default.slabs.len();
        while pool.trim() {}
        assert!(!pool.wants_trim());
        assert!(pool.default.slabs.len() < slabs, "no slab was unmapped");
        // The one in use is untouched; the others can be taken again.
        // SAFETY: the top 8 bytes of a stack that is still ours.
        assert_eq!(unsafe { kept.top().sub(8).cast::<u64>().read() }, 7);
        for _ in 0..3000 {
            touch(pool.take(None).unwrap());
        }
    }
}

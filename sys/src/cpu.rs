//! Which CPUs: the affinity mask of the calling thread, of any size.
//!
//! `core_affinity` pins in [`pin`], its one job here. Its list of CPUs (`get_core_ids`) is cut at 1,024 and fails outright on
//! hosts whose kernel is built for more, so masks are read and written with a buffer that grows.
//!
//! # Safety
//! `unsafe` for `sched_getaffinity` and `sched_setaffinity` with a buffer of our own size.
#![allow(unsafe_code)]

use core::fmt;
use std::io;

/// CPUs that `core_affinity` can name: `CPU_SETSIZE`.
const CORE_AFFINITY_CPUS: usize = libc::CPU_SETSIZE as usize;
/// The largest mask asked of the kernel: far above any `CONFIG_NR_CPUS`.
const MASK_CPUS_MAX: usize = 1 << 20;

const WORD_BITS: usize = usize::BITS as usize;

/// A set of CPU numbers, ordered.
///
/// # Examples
/// ```
/// use urgo_sys::cpu::CpuSet;
/// let cpus: CpuSet = [8, 0, 1, 2, 3].into_iter().collect();
/// assert_eq!(cpus.to_string(), "0-3,8");
/// assert_eq!("0-3,8".parse(), Ok(cpus));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    /// Bit `n % 64` of word `n / 64` is CPU `n`. The last word is never zero, so that equal sets are equal.
    words: Vec<usize>,
}

impl CpuSet {
    /// The empty set.
    pub const fn new() -> CpuSet {
        CpuSet { words: Vec::new() }
    }

    /// Adds a CPU.
    pub fn insert(&mut self, cpu: usize) {
        let word = cpu / WORD_BITS;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % WORD_BITS);
    }

    /// Takes a CPU out.
    pub fn remove(&mut self, cpu: usize) {
        if let Some(word) = self.words.get_mut(cpu / WORD_BITS) {
            *word &= !(1 << (cpu % WORD_BITS));
            self.trim();
        }
    }

    /// Whether the CPU is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        self.words
            .get(cpu / WORD_BITS)
            .is_some_and(|word| word & (1 << (cpu % WORD_BITS)) != 0)
    }

    /// How many CPUs.
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let mut left = word;
            core::iter::from_fn(move || {
                if left == 0 {
                    return None;
                }
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                Some(index * WORD_BITS + bit)
            })
        })
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

impl fmt::Display for CpuSet {
    /// The kernel's own list form: `0-3,8`; nothing for the empty set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.peek() == Some(&(last + 1)) {
                last += 1;
                cpus.next();
            }
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

/// The text was no list of CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotACpuList;

impl fmt::Display for NotACpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a list of CPUs (expected something like 0-3,8)")
    }
}

impl core::error::Error for NotACpuList {}

impl core::str::FromStr for CpuSet {
    type Err = NotACpuList;

    /// Reads the kernel's list form, as in sysfs and in `taskset -c`.
    fn from_str(list: &str) -> Result<CpuSet, NotACpuList> {
        let number = |text: &str| {
            text.trim()
                .parse()
                .ok()
                .filter(|&cpu| cpu < MASK_CPUS_MAX)
                .ok_or(NotACpuList)
        };
        let mut set = CpuSet::new();
        if list.trim().is_empty() {
            return Ok(set);
        }
        for part in list.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (number(first)?, number(last)?);
            if first > last {
                return Err(NotACpuList);
            }
            for cpu in first..=last {
                set.insert(cpu);
            }
        }
        Ok(set)
    }
}

/// `sched_getaffinity(0)`: the CPUs the calling thread may run on, cpusets taken into account. The buffer grows until the
/// kernel's mask fits.
///
/// # Errors
/// Errnos other than `EINVAL` ("buffer too small", answered by growing); none is known.
pub fn affinity() -> io::Result<CpuSet> {
    affinity_from(CORE_AFFINITY_CPUS / WORD_BITS)
}

/// [`affinity`], beginning with a buffer of `word_count` words.
fn affinity_from(word_count: usize) -> io::Result<CpuSet> {
    let mut words = vec![0_usize; word_count];
    loop {
        // SAFETY: because the kernel writes at most the given bytes of a buffer that is ours and as long; established by
        // `words`; until the call returns.
        let result = unsafe {
            libc::sched_getaffinity(
                0,
                words.len() * size_of::<usize>(),
                words.as_mut_ptr().cast(),
            )
        };
        if result == 0 {
            let mut set = CpuSet { words };
            set.trim();
            return Ok(set);
        }
        let errno = crate::errno::last();
        if errno != libc::EINVAL || words.len() * WORD_BITS >= MASK_CPUS_MAX {
            return Err(io::Error::from_raw_os_error(errno));
        }
        words = vec![0; (words.len() * 4).max(1)];
    }
}

/// `sched_setaffinity(0, cpus)`: moves the calling thread to these CPUs and keeps it there. Threads it creates inherit the mask.
///
/// # Errors
/// `EINVAL`: none of them is online and in the thread's cpuset.
pub fn set_affinity(cpus: &CpuSet) -> io::Result<()> {
    // SAFETY: because the kernel reads at most the given bytes of a buffer that is ours and as long; established by the
    // borrow of `cpus`; until the call returns.
    let result = unsafe {
        libc::sched_setaffinity(
            0,
            cpus.words.len() * size_of::<usize>(),
            cpus.words.as_ptr().cast(),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Keeps the calling thread on one CPU.
///
/// # Errors
/// `EINVAL`: no such CPU, or it is offline or outside the thread's cpuset.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu < CORE_AFFINITY_CPUS && core_affinity::set_for_current(core_affinity::CoreId { id: cpu })
    {
        return Ok(());
    }
    // Beyond its range, or refused without a reason: our own road says why.
    if cpu >= MASK_CPUS_MAX {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    set_affinity(&[cpu].into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_written_and_read_in_the_kernels_form() {
        for list in ["", "0", "0-3,8", "1,3,5", "0-1,63-65,1023-1025,5000"] {
            let set: CpuSet = list.parse().unwrap();
            assert_eq!(set.to_string(), list);
            assert_eq!(set.len(), set.iter().count());
            assert_eq!(set.is_empty(), list.is_empty());
        }
        for list in ["a", "3-1", "1-", "-", "1,,2", "99999999999", "0-4294967295"] {
            assert_eq!(list.parse::<CpuSet>(), Err(NotACpuList), "{list}");
        }
        assert_eq!("0-1\n".parse::<CpuSet>().unwrap().len(), 2);
    }

    #[test]
    fn removing_the_highest_leaves_an_equal_set() {
        let mut set: CpuSet = [0, 500].into_iter().collect();
        set.remove(500);
        set.remove(9_999);
        assert_eq!(set, [0].into_iter().collect());
        set.remove(0);
        assert_eq!(set, CpuSet::new());
    }

    #[test]
    fn the_mask_agrees_with_core_affinity_where_both_can_see() {
        let ours: Vec<usize> = affinity().unwrap().iter().collect();
        let theirs: Vec<usize> = core_affinity::get_core_ids()
            .unwrap()
            .into_iter()
            .map(|core| core.id)
            .collect();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn a_mask_that_does_not_fit_is_read_again_with_more_room() {
        // No room at all is what a kernel for more than 1,024 CPUs sees in the first buffer: too little.
        assert_eq!(affinity_from(0).unwrap(), affinity().unwrap());
    }

    #[test]
    fn a_pinned_thread_stays_and_can_be_freed_again() {
        std::thread::spawn(|| {
            let all = affinity().unwrap();
            for cpu in all.iter() {
                pin(cpu).unwrap();
                assert_eq!(affinity().unwrap().iter().collect::<Vec<_>>(), [cpu]);
                assert_eq!(crate::thread::current_cpu(), cpu);
            }
            set_affinity(&all).unwrap();
            assert_eq!(affinity().unwrap(), all);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn cpus_that_are_not_there_are_refused_with_their_errno() {
        std::thread::spawn(|| {
            let before = affinity().unwrap();
            for cpu in [1023, 1024, 9_000, usize::MAX] {
                if before.contains(cpu) {
                    continue;
                }
                let error = pin(cpu).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "CPU {cpu}");
            }
            assert!(set_affinity(&CpuSet::new()).is_err());
            assert_eq!(affinity().unwrap(), before);
        })
        .join()
        .unwrap();
    }
}

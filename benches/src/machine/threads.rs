//! CPU time of the threads of a process, one by one.

use std::collections::BTreeMap;
use std::fs;

/// CPU time of each thread of a process that was alive at one moment, in ns, by its id.
pub(crate) type ThreadTimes = BTreeMap<u64, u64>;

/// CPU times of the threads of the process `pid`, from the scheduler's own statistics, which count in ns.
pub(crate) fn thread_times_of(pid: u32) -> Option<ThreadTimes> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let time = |task: fs::DirEntry| {
        let id = task.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        Some((id, text.split_ascii_whitespace().next()?.parse().ok()?))
    };
    Some(tasks.flatten().filter_map(time).collect())
}

/// The busiest thread's share of what the two busiest ones used between two moments: 0.5 if both did as much, 1 if one did
/// everything. `None` if nothing was used.
///
/// # Errors
/// A thread that had used more at the first moment than at the second one: its id is another thread's now, or the kernel's
/// statistics are wrong, and either way nothing can be said.
pub(crate) fn busiest_share(
    before: &ThreadTimes,
    after: &ThreadTimes,
) -> Result<Option<f64>, String> {
    let used = |(id, ns): (&u64, &u64)| {
        // A thread that was not there had used nothing.
        let then = before.get(id).copied().unwrap_or(0);
        ns.checked_sub(then)
            .ok_or_else(|| format!("the CPU time of thread {id} went backwards: {then}, {ns} ns"))
    };
    let mut used = after.iter().map(used).collect::<Result<Vec<u64>, _>>()?;
    used.sort_unstable_by(|a, b| b.cmp(a));
    let (first, second) = match used[..] {
        [] | [0, ..] => return Ok(None),
        [only] => (only, 0),
        [first, second, ..] => (first, second),
    };
    Ok(Some(first as f64 / (first + second) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_the_two_busiest() {
        let before = ThreadTimes::from([(1, 100), (2, 5)]);
        let after = ThreadTimes::from([(1, 400), (2, 105), (3, 1)]);
        assert_eq!(busiest_share(&before, &after), Ok(Some(0.75)));
        assert_eq!(busiest_share(&after, &after), Ok(None));
        assert_eq!(busiest_share(&before, &ThreadTimes::new()), Ok(None));
    }

    #[test]
    fn a_time_that_went_backwards_is_an_error() {
        let before = ThreadTimes::from([(1, 100), (2, 5)]);
        let after = ThreadTimes::from([(1, 400), (2, 4)]);
        let error = busiest_share(&before, &after).unwrap_err();
        assert!(error.contains("thread 2"), "{error}");
    }

    #[test]
    fn this_thread_is_among_those_of_this_process() {
        assert!(!thread_times_of(std::process::id()).unwrap().is_empty());
        assert_eq!(thread_times_of(u32::MAX), None);
    }
}

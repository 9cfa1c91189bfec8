//! When a worker counts as stuck: what the watch thread makes of one worker's looks.
//!
//! An *episode* is one dispatch that was seen at more than one look. It is reported once, when the goroutine has kept its
//! worker for longer than the limit by its own doing: what the operating system took away does not count. So a goroutine
//! that computes must have had that much CPU, and from the time of one that waits in the kernel the waits for a CPU are
//! taken off. A look counts for no more than the time between two looks, so that a stopped process finds nothing when it
//! goes on.

use super::running::Seen;
use super::thread_state::{Doing, Times};
use crate::limits::STUCK_REPORTS_NS;

/// What the kernel says of a worker's thread at one moment.
pub(crate) type State = (Doing, Option<Times>);

/// One worker as the watch thread knows it.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    episode: Option<Episode>,
    /// No report before.
    quiet_until_ns: u64,
    /// Episodes that ended unreported because the last report was too recent.
    unsaid: u64,
}

#[derive(Debug)]
struct Episode {
    seen: Seen,
    since_ns: u64,
    last_look_ns: u64,
    /// Sum of the times between looks, each at most as long as it should be.
    held_ns: u64,
    times: Option<Times>,
    is_overdue: bool,
    is_reported: bool,
}

/// What there is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// A goroutine keeps its worker.
    Stuck {
        seen: Seen,
        held_ns: u64,
        doing: Doing,
        /// Episodes that were not reported before it.
        unsaid: u64,
    },
    /// It does so no longer.
    Over { seen: Seen, held_ns: u64 },
}

impl Watched {
    /// One look: at `now_ns` the worker was seen like this. `state` asks the kernel; `None` if the worker has meanwhile
    /// changed goroutines.
    pub(crate) fn look(
        &mut self,
        now_ns: u64,
        limit_ns: u64,
        seen: Option<Seen>,
        state: impl FnOnce() -> Option<State>,
    ) -> Option<Finding> {
        let is_same = |e: &Episode| seen.as_ref().is_some_and(|s| s.dispatch == e.seen.dispatch);
        if !self.episode.as_ref().is_some_and(is_same) {
            let before = self.episode.take();
            self.episode = seen.map(|seen| Episode::new(seen, now_ns, state()));
            return self.end(before?, now_ns);
        }
        let episode = self.episode.as_mut()?;
        episode.held_ns += (now_ns - episode.last_look_ns).min(limit_ns.div_ceil(2));
        episode.last_look_ns = now_ns;
        if episode.is_reported || episode.held_ns < limit_ns {
            return None;
        }
        let (doing, times) = state()?;
        if episode.own_ns(doing, times) < limit_ns {
            return None;
        }
        episode.is_overdue = true;
        if now_ns < self.quiet_until_ns {
            return None;
        }
        episode.is_reported = true;
        self.quiet_until_ns = now_ns + STUCK_REPORTS_NS;
        Some(Finding::Stuck {
            seen: episode.seen.clone(),
            held_ns: now_ns - episode.since_ns,
            doing,
            unsaid: std::mem::take(&mut self.unsaid),
        })
    }

    fn end(&mut self, episode: Episode, now_ns: u64) -> Option<Finding> {
        self.unsaid += u64::from(episode.is_overdue && !episode.is_reported);
        episode.is_reported.then(|| Finding::Over {
            held_ns: now_ns - episode.since_ns,
            seen: episode.seen,
        })
    }
}

impl Episode {
    fn new(seen: Seen, now_ns: u64, state: Option<State>) -> Episode {
        Episode {
            seen,
            since_ns: now_ns,
            last_look_ns: now_ns,
            held_ns: 0,
            times: state.and_then(|(_, times)| times),
            is_overdue: false,
            is_reported: false,
        }
    }

    /// For how long the goroutine has kept its worker by its own doing.
    fn own_ns(&self, doing: Doing, times: Option<Times>) -> u64 {
        match (doing, self.times, times) {
            (Doing::Computes, Some(then), Some(now)) => now.on_cpu.saturating_sub(then.on_cpu),
            (_, Some(then), Some(now)) => {
                let off_cpu = now.off_cpu.saturating_sub(then.off_cpu);
                self.held_ns.saturating_sub(off_cpu)
            }
            _ => self.held_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::panic::Location;

    const LIMIT: u64 = 100;

    fn seen(dispatch: u64) -> Option<Seen> {
        Some(Seen {
            dispatch,
            id: 5,
            name: String::new(),
            site: Location::caller(),
        })
    }

    fn at(doing: Doing, on_cpu: u64, off_cpu: u64) -> impl FnOnce() -> Option<State> {
        move || Some((doing, Some(Times { on_cpu, off_cpu })))
    }

    fn held(finding: Option<Finding>) -> Option<u64> {
        match finding? {
            Finding::Stuck { held_ns, .. } => Some(held_ns),
            Finding::Over { .. } => None,
        }
    }

    #[test]
    fn a_dispatch_is_reported_once_and_its_end_once() {
        let (mut worker, site) = (Watched::default(), seen(2));
        let mut look = |now, seen: &Option<Seen>| {
            worker.look(now, LIMIT, seen.clone(), at(Doing::Futex(1), 1, 1))
        };
        assert_eq!(look(0, &site), None);
        assert_eq!(look(50, &site), None);
        assert_eq!(held(look(100, &site)), Some(100));
        assert_eq!(look(150, &site), None);
        assert!(matches!(
            look(200, &seen(4)),
            Some(Finding::Over { held_ns: 200, .. })
        ));
        assert_eq!(look(250, &None), None, "it was not reported");
    }

    #[test]
    fn other_dispatches_of_one_goroutine_are_other_episodes() {
        let mut worker = Watched::default();
        for look in 0..100 {
            let finding = worker.look(
                look * 50,
                LIMIT,
                seen(look),
                at(Doing::Computes, 50 * look, 0),
            );
            assert_eq!(finding, None);
        }
    }

    #[test]
    fn time_without_a_cpu_does_not_count() {
        let mut worker = Watched::default();
        let mut look = |now, state: (Doing, u64, u64)| {
            held(worker.look(now, LIMIT, seen(2), at(state.0, state.1, state.2)))
        };
        assert_eq!(look(0, (Doing::Computes, 1, 0)), None);
        // Starved: it is ready to run all the time, but gets little.
        assert_eq!(look(50, (Doing::Computes, 11, 40)), None);
        assert_eq!(look(100, (Doing::Computes, 21, 80)), None);
        // It waits in the kernel now, but not for long.
        assert_eq!(look(150, (Doing::Call(0), 31, 120)), None);
        assert_eq!(look(200, (Doing::Call(0), 31, 120)), None);
        assert_eq!(look(250, (Doing::Call(0), 31, 120)), Some(250));
    }

    #[test]
    fn time_in_which_nobody_looked_counts_for_one_look() {
        let mut worker = Watched::default();
        let mut look = |now| held(worker.look(now, LIMIT, seen(2), at(Doing::Call(0), 1, 0)));
        assert_eq!(look(0), None);
        assert_eq!(look(1_000_000), None);
        assert_eq!(look(1_000_050), Some(1_000_050));
    }

    #[test]
    fn without_the_kernels_times_the_clock_decides() {
        let mut worker = Watched::default();
        let mut look =
            |now| held(worker.look(now, LIMIT, seen(2), || Some((Doing::Unknown, None))));
        assert_eq!(look(0), None);
        assert_eq!(look(50), None);
        assert_eq!(look(100), Some(100));
    }

    #[test]
    fn a_goroutine_that_has_just_let_go_is_not_reported() {
        let mut worker = Watched::default();
        for now in [0, 50, 100, 150] {
            assert_eq!(worker.look(now, LIMIT, seen(2), || None), None);
        }
    }

    #[test]
    fn reports_of_one_worker_keep_their_distance_and_say_how_many_are_missing() {
        let mut worker = Watched::default();
        let mut reports = Vec::new();
        // Episodes of four looks each, which is long enough.
        for look in 0..10_000_u64 {
            let now = look * STUCK_REPORTS_NS / 1000;
            let limit = STUCK_REPORTS_NS / 500;
            let finding = worker.look(now, limit, seen(look / 4), at(Doing::Call(0), 1, 0));
            if let Some(Finding::Stuck { unsaid, .. }) = finding {
                reports.push((now, unsaid));
            }
        }
        let (first, later) = reports.split_first().unwrap();
        assert_eq!(first.1, 0);
        let mut last = first.0;
        for &(now, unsaid) in later {
            assert!(now - last >= STUCK_REPORTS_NS);
            assert_eq!(unsaid, 249);
            last = now;
        }
        assert!(later.len() >= 8);
    }
}

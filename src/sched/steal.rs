//! Whom to steal from: other workers in order of distance.

use super::remote::Remote;
use super::shared::Shared;
use urgo_sys::topology::Distance;

/// Indices of the other workers, grouped by distance, nearest first; no empty groups.
pub(super) fn victims_by_distance(shared: &Shared, me: &Remote) -> Vec<Vec<usize>> {
    let mut levels: [Vec<usize>; 4] = Default::default();
    for remote in shared
        .remotes
        .iter()
        .filter(|remote| remote.index != me.index)
    {
        let distance = match (me.cpu, remote.cpu) {
            (Some(a), Some(b)) => shared.topology.distance(a, b),
            // Unpinned workers are nowhere in particular.
            _ => Distance::SameLlc,
        };
        let level = match distance {
            Distance::SameCore => 0,
            Distance::SameLlc => 1,
            Distance::SameNode => 2,
            _ => 3,
        };
        levels[level].push(remote.index);
    }
    levels
        .into_iter()
        .filter(|level| !level.is_empty())
        .collect()
}

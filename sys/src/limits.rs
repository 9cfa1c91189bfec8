//! What this process is allowed: resource limits and the count of mappings.

use rustix::process::getrlimit;

/// A limited resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// `RLIMIT_MEMLOCK`: bytes of locked memory (ring memory counts on kernels before 5.12, registered buffers always).
    LockedBytes,
    /// `RLIMIT_NOFILE`: one more than the highest descriptor.
    Descriptors,
    /// `RLIMIT_NPROC`: threads and processes of this user.
    Threads,
    /// `RLIMIT_AS`: bytes of address space.
    AddressSpaceBytes,
}

/// A pair of limits; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The limit in force.
    pub soft: Option<u64>,
    /// How far an unprivileged process may raise the soft one.
    pub hard: Option<u64>,
}

/// `getrlimit(resource)`.
///
/// # Examples
/// ```
/// use urgo_sys::limits::{Resource, get};
/// assert!(get(Resource::Descriptors).soft.is_none_or(|count| count > 2));
/// ```
pub fn get(resource: Resource) -> Limit {
    use rustix::process::Resource as R;
    let limit = getrlimit(match resource {
        Resource::LockedBytes => R::Memlock,
        Resource::Descriptors => R::Nofile,
        Resource::Threads => R::Nproc,
        Resource::AddressSpaceBytes => R::As,
    });
    Limit {
        soft: limit.current,
        hard: limit.maximum,
    }
}

/// The kernel's default of `vm.max_map_count`, taken where `/proc` cannot be read.
pub const MAX_MAP_COUNT_DEFAULT: usize = 65_530;

/// `/proc/sys/vm/max_map_count`: how many mappings a process may have.
pub fn max_map_count() -> usize {
    crate::host::read_number("/proc/sys/vm/max_map_count").unwrap_or(MAX_MAP_COUNT_DEFAULT)
}

/// `/proc/sys/vm/overcommit_memory`: 0 heuristic, 1 always, 2 never; `None` where `/proc` cannot be read.
pub fn overcommit_memory() -> Option<u32> {
    crate::host::read_number("/proc/sys/vm/overcommit_memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limits_stay_under_hard_ones() {
        for resource in [
            Resource::LockedBytes,
            Resource::Descriptors,
            Resource::Threads,
            Resource::AddressSpaceBytes,
        ] {
            let limit = get(resource);
            if let (Some(soft), Some(hard)) = (limit.soft, limit.hard) {
                assert!(soft <= hard, "{resource:?}: {limit:?}");
            }
        }
    }

    #[test]
    fn each_resource_is_the_one_it_names() {
        let text = std::fs::read_to_string("/proc/self/limits").unwrap();
        for (title, resource) in [
            ("Max locked memory", Resource::LockedBytes),
            ("Max open files", Resource::Descriptors),
            ("Max processes", Resource::Threads),
            ("Max address space", Resource::AddressSpaceBytes),
        ] {
            let line = text.lines().find(|line| line.starts_with(title)).unwrap();
            let soft = line[26..].split_whitespace().next().unwrap();
            assert_eq!(get(resource).soft, soft.parse().ok(), "{line}");
        }
    }

    #[test]
    fn this_process_has_fewer_mappings_than_it_may() {
        assert!(crate::memory::vma_count().unwrap() <= max_map_count());
    }
}

//! How near CPUs are to each other: core, last-level cache and memory node of each, from sysfs.
//!
//! Read: `/sys/devices/system/cpu/cpuN/topology/{core_cpus_list,thread_siblings_list,package_cpus_list,core_siblings_list}`,
//! `cpuN/cache/indexM/{level,shared_cpu_list}` and the `cpuN/nodeM` entries. A group (core, cache) is named by its lowest CPU.
//! What is missing is taken as flat: each CPU its own core, one cache (per package, where that is known), one node.

use std::path::{Path, PathBuf};

use crate::cpu::CpuSet;

/// Where one CPU stands. Two CPUs with equal numbers in a field share that thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The CPU's own number.
    pub cpu: usize,
    /// Physical core: the lowest CPU of its hardware threads.
    pub core: usize,
    /// Last-level cache: the lowest CPU that shares it.
    pub llc: usize,
    /// Memory node.
    pub node: usize,
}

/// The nearest thing two CPUs share. Ordered: nearer is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// The same core (hardware threads of it, or the very same CPU).
    SameCore,
    /// The same last-level cache.
    SameLlc,
    /// The same memory node.
    SameNode,
    /// Nothing: memory of the other is remote.
    Remote,
}

/// The places of a set of CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Ascending by CPU.
    places: Vec<Place>,
}

impl Topology {
    /// Reads the places of `cpus` of this host, under `/sys/devices/system/cpu`. A few file reads per CPU.
    ///
    /// # Examples
    /// ```
    /// use urgo_sys::{cpu, topology::{Distance, Topology}};
    /// let cpus = cpu::affinity().unwrap();
    /// let topology = Topology::read(&cpus);
    /// let first = cpus.iter().next().unwrap();
    /// assert_eq!(topology.distance(first, first), Distance::SameCore);
    /// ```
    pub fn read(cpus: &CpuSet) -> Topology {
        Topology::read_under(Path::new("/"), cpus)
    }

    /// As [`Topology::read`], with another root of the file system.
    pub fn read_under(root: &Path, cpus: &CpuSet) -> Topology {
        let base = root.join("sys/devices/system/cpu");
        Topology {
            places: cpus.iter().map(|cpu| read_place(&base, cpu)).collect(),
        }
    }

    /// The places, ascending by CPU.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The place of one CPU; `None` if it is not in the set.
    pub fn place(&self, cpu: usize) -> Option<Place> {
        let index = self.places.binary_search_by_key(&cpu, |place| place.cpu);
        index.ok().map(|index| self.places[index])
    }

    /// How near two CPUs are; [`Distance::Remote`] if either is not in the set.
    pub fn distance(&self, a: usize, b: usize) -> Distance {
        let (Some(a), Some(b)) = (self.place(a), self.place(b)) else {
            return Distance::Remote;
        };
        if a.core == b.core {
            Distance::SameCore
        } else if a.llc == b.llc {
            Distance::SameLlc
        } else if a.node == b.node {
            Distance::SameNode
        } else {
            Distance::Remote
        }
    }
}

fn read_place(base: &Path, cpu: usize) -> Place {
    let dir = base.join(format!("cpu{cpu}"));
    let first_of = |names: [&str; 2]| {
        names
            .iter()
            .find_map(|name| lowest(&dir.join("topology").join(name)))
    };
    Place {
        cpu,
        // The second name of each pair is the one of kernels before 5.3.
        core: first_of(["core_cpus_list", "thread_siblings_list"]).unwrap_or(cpu),
        llc: last_level_cache(&dir)
            .or_else(|| first_of(["package_cpus_list", "core_siblings_list"]))
            .unwrap_or(0),
        node: memory_node(&dir).unwrap_or(0),
    }
}

/// The lowest CPU that shares the cache of the highest level.
fn last_level_cache(dir: &Path) -> Option<usize> {
    let mut best: Option<(u32, usize)> = None;
    for index in numbered(&dir.join("cache"), "index") {
        let Some(level) = read_text(&index.1.join("level")).and_then(|text| text.parse().ok())
        else {
            continue;
        };
        let Some(lowest) = lowest(&index.1.join("shared_cpu_list")) else {
            continue;
        };
        if best.is_none_or(|(highest, _)| level > highest) {
            best = Some((level, lowest));
        }
    }
    best.map(|(_, lowest)| lowest)
}

fn memory_node(dir: &Path) -> Option<usize> {
    numbered(dir, "node")
        .into_iter()
        .map(|(node, _)| node)
        .min()
}

/// The entries of `dir` named `prefix` and a number.
fn numbered(dir: &Path, prefix: &str) -> Vec<(usize, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix(prefix)?.parse().ok()?;
            Some((number, entry.path()))
        })
        .collect()
}

fn lowest(path: &Path) -> Option<usize> {
    read_text(path)?.parse::<CpuSet>().ok()?.iter().next()
}

fn read_text(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    /// Two nodes of two caches of two cores of two threads: CPU n and n + 8 are one core.
    fn two_sockets() -> Tree {
        let tree = Tree::new();
        for cpu in 0..16_usize {
            let core = cpu % 8;
            let llc = core / 2 * 2;
            let dir = format!("sys/devices/system/cpu/cpu{cpu}");
            tree.file(
                &format!("{dir}/topology/core_cpus_list"),
                &format!("{core},{}\n", core + 8),
            );
            tree.file(&format!("{dir}/cache/index0/level"), "1\n");
            tree.file(
                &format!("{dir}/cache/index0/shared_cpu_list"),
                &format!("{core},{}\n", core + 8),
            );
            tree.file(&format!("{dir}/cache/index3/level"), "3\n");
            tree.file(
                &format!("{dir}/cache/index3/shared_cpu_list"),
                &format!("{llc}-{},{}-{}\n", llc + 1, llc + 8, llc + 9),
            );
            tree.file(&format!("{dir}/node{}/cpulist", core / 4), "");
        }
        tree
    }

    #[test]
    fn every_level_of_nearness_is_told_apart() {
        let tree = two_sockets();
        let cpus: CpuSet = "0-15".parse().unwrap();
        let topology = Topology::read_under(tree.path(), &cpus);
        assert_eq!(
            topology.place(11),
            Some(Place {
                cpu: 11,
                core: 3,
                llc: 2,
                node: 0
            })
        );
        assert_eq!(topology.distance(0, 0), Distance::SameCore);
        assert_eq!(topology.distance(0, 8), Distance::SameCore);
        assert_eq!(topology.distance(0, 1), Distance::SameLlc);
        assert_eq!(topology.distance(0, 9), Distance::SameLlc);
        assert_eq!(topology.distance(0, 2), Distance::SameNode);
        assert_eq!(topology.distance(0, 4), Distance::Remote);
        assert!(Distance::SameCore < Distance::Remote);
        for a in 0..16 {
            for b in 0..16 {
                assert_eq!(topology.distance(a, b), topology.distance(b, a));
            }
        }
    }

    #[test]
    fn only_the_cpus_asked_for_are_read() {
        let tree = two_sockets();
        let topology = Topology::read_under(tree.path(), &"1,5".parse().unwrap());
        assert_eq!(topology.places().len(), 2);
        assert_eq!(topology.place(0), None);
        assert_eq!(topology.distance(1, 0), Distance::Remote);
        assert_eq!(topology.distance(1, 5), Distance::Remote);
    }

    #[test]
    fn a_host_that_says_nothing_is_flat() {
        let tree = Tree::new();
        let topology = Topology::read_under(tree.path(), &"0-3".parse().unwrap());
        assert_eq!(topology.places().len(), 4);
        assert_eq!(topology.distance(0, 0), Distance::SameCore);
        assert_eq!(topology.distance(0, 3), Distance::SameLlc);
    }

    #[test]
    fn a_host_without_cache_files_is_split_by_package() {
        let tree = Tree::new();
        for cpu in 0..4 {
            let list = if cpu < 2 { "0-1" } else { "2-3" };
            tree.file(
                &format!("sys/devices/system/cpu/cpu{cpu}/topology/core_siblings_list"),
                list,
            );
        }
        let topology = Topology::read_under(tree.path(), &"0-3".parse().unwrap());
        assert_eq!(topology.distance(0, 1), Distance::SameLlc);
        assert_eq!(topology.distance(1, 2), Distance::SameNode);
    }

    #[test]
    fn this_host_places_every_cpu_of_the_mask() {
        let cpus = crate::cpu::affinity().unwrap();
        let topology = Topology::read(&cpus);
        assert_eq!(topology.places().len(), cpus.len());
    }
}

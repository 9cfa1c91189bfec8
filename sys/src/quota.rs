//! How much of the CPUs: the cgroup CPU quota of this process, the smallest of its own group and all groups above it.
//!
//! A quota on a parent binds as much as one on the leaf. Version 2 keeps it in `cpu.max` (`quota period` or `max period`),
//! version 1 in `cpu.cfs_quota_us` (-1: none) and `cpu.cfs_period_us`. Where the hierarchy is mounted says
//! `/proc/self/mountinfo`, which group we are in `/proc/self/cgroup`. Groups above the mount point (of a container, say)
//! cannot be seen.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// CPU time granted per period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Microseconds of CPU time, over all CPUs, in each period.
    pub quota_us: u64,
    /// Length of the period in microseconds.
    pub period_us: u64,
}

impl Quota {
    /// The quota in CPUs: 1.5 is one and a half.
    pub fn cpus(self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }

    fn is_less_than(self, other: Quota) -> bool {
        // Cross-multiplied, exact: a/b < c/d.
        u128::from(self.quota_us) * u128::from(other.period_us)
            < u128::from(other.quota_us) * u128::from(self.period_us)
    }
}

/// The smallest quota that binds this process; `None` if there is none or it cannot be seen. Reads files.
pub fn cpu_quota() -> Option<Quota> {
    let cgroup = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mountinfo = std::fs::read("/proc/self/mountinfo").ok()?;
    cpu_quota_under(
        Path::new("/"),
        &cgroup,
        &String::from_utf8_lossy(&mountinfo),
    )
}

/// As [`cpu_quota`], with another root of the file system and the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
pub fn cpu_quota_under(root: &Path, cgroup: &str, mountinfo: &str) -> Option<Quota> {
    let mut smallest = None;
    for (version, group) in groups(cgroup) {
        let Some(mount) = find_mount(mountinfo, version) else {
            continue;
        };
        for dir in mount.directories(&group) {
            let dir = root.join(dir.strip_prefix("/").unwrap_or(&dir));
            let Some(quota) = version.read(&dir) else {
                continue;
            };
            if smallest.is_none_or(|least| quota.is_less_than(least)) {
                smallest = Some(quota);
            }
        }
    }
    smallest
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn read(self, dir: &Path) -> Option<Quota> {
        let text = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
        let (quota_us, period_us) = match self {
            Version::Two => {
                let text = text("cpu.max")?;
                let mut words = text.split_whitespace();
                // "max" is no number, hence no quota.
                let quota = words.next()?.parse().ok()?;
                // A quota without a period has the kernel's default.
                (quota, words.next().map_or(Ok(100_000), str::parse).ok()?)
            }
            Version::One => (
                // -1 is no unsigned number, hence no quota.
                text("cpu.cfs_quota_us")?.trim().parse().ok()?,
                text("cpu.cfs_period_us")?.trim().parse().ok()?,
            ),
        };
        (period_us > 0).then_some(Quota {
            quota_us,
            period_us,
        })
    }
}

/// The groups of this process that may hold a CPU quota: `id:controllers:path` lines, version 2 with empty controllers.
fn groups(cgroup: &str) -> Vec<(Version, PathBuf)> {
    cgroup
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            if id == "0" && controllers.is_empty() {
                Some((Version::Two, PathBuf::from(path)))
            } else if controllers.split(',').any(|name| name == "cpu") {
                Some((Version::One, PathBuf::from(path)))
            } else {
                None
            }
        })
        .collect()
}

/// A mounted cgroup hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// The group that the mount point shows.
    group: PathBuf,
    /// Where it is mounted.
    point: PathBuf,
}

impl Mount {
    /// The directories of `group` and of its ancestors, leaf first, down to the mount point.
    fn directories(&self, group: &Path) -> Vec<PathBuf> {
        // A group outside of what is mounted (another namespace's, written with `..`) leaves only the mount point.
        let below = match group.strip_prefix(&self.group) {
            Ok(below) if !below.components().any(|part| part == Component::ParentDir) => below,
            _ => Path::new(""),
        };
        below
            .ancestors()
            .map(|part| self.point.join(part))
            .collect()
    }
}

/// The last mount of the hierarchy in the list: later mounts cover earlier ones.
fn find_mount(mountinfo: &str, version: Version) -> Option<Mount> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (mount, source) = line.split_once(" - ")?;
            let mut source = source.split(' ');
            let kind = source.next()?;
            let wanted = match version {
                Version::Two => kind == "cgroup2",
                Version::One => {
                    kind == "cgroup"
                        && source
                            .nth(1)?
                            .split(',')
                            .any(|controller| controller == "cpu")
                }
            };
            let mut fields = mount.split(' ').skip(3);
            let (group, point) = (fields.next()?, fields.next()?);
            wanted.then(|| Mount {
                group: unescaped(group),
                point: unescaped(point),
            })
        })
        .next_back()
}

/// A path of `mountinfo`: blanks, tabs, newlines and backslashes are written as `\ooo`.
fn unescaped(field: &str) -> PathBuf {
    let bytes = field.as_bytes();
    let mut path = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes[at..]
            .strip_prefix(b"\\")
            .and_then(|rest| rest.get(..3))
            .and_then(|digits| core::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                path.push(byte);
                at += 4;
            }
            None => {
                path.push(bytes[at]);
                at += 1;
            }
        }
    }
    OsString::from_vec(path).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    const V2: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
        33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn a_quota_of_the_parent_binds_a_leaf_that_has_none() {
        let tree = Tree::new();
        tree.file("sys/fs/cgroup/pod/cpu.max", "200000 100000\n");
        tree.file("sys/fs/cgroup/pod/app/cpu.max", "max 100000\n");
        let quota = cpu_quota_under(tree.path(), "0::/pod/app\n", V2).unwrap();
        assert_eq!(
            quota,
            Quota {
                quota_us: 200_000,
                period_us: 100_000
            }
        );
        assert_eq!(quota.cpus(), 2.0);
    }

    #[test]
    fn the_smallest_quota_on_the_way_up_wins_whatever_its_period() {
        let tree = Tree::new();
        tree.file("sys/fs/cgroup/a/cpu.max", "300000 100000\n");
        tree.file("sys/fs/cgroup/a/b/cpu.max", "15000 10000\n");
        tree.file("sys/fs/cgroup/a/b/c/cpu.max", "160000 100000\n");
        tree.file("sys/fs/cgroup/z/cpu.max", "1 100000\n");
        let quota = cpu_quota_under(tree.path(), "0::/a/b/c\n", V2).unwrap();
        assert_eq!(quota.cpus(), 1.5);
    }

    #[test]
    fn no_quota_anywhere_is_none() {
        let tree = Tree::new();
        tree.file("sys/fs/cgroup/a/cpu.max", "max 100000\n");
        assert_eq!(cpu_quota_under(tree.path(), "0::/a\n", V2), None);
        assert_eq!(cpu_quota_under(tree.path(), "", ""), None);
        tree.file("sys/fs/cgroup/a/cpu.max", "broken\n");
        assert_eq!(cpu_quota_under(tree.path(), "0::/a\n", V2), None);
        tree.file("sys/fs/cgroup/a/cpu.max", "100 0\n");
        assert_eq!(cpu_quota_under(tree.path(), "0::/a\n", V2), None);
    }

    #[test]
    fn version_one_is_read_from_its_own_mount() {
        let tree = Tree::new();
        let base = "sys/fs/cgroup/cpu,cpuacct";
        tree.file(&format!("{base}/docker/x/cpu.cfs_quota_us"), "-1\n");
        tree.file(&format!("{base}/docker/x/cpu.cfs_period_us"), "100000\n");
        tree.file(&format!("{base}/docker/cpu.cfs_quota_us"), "50000\n");
        tree.file(&format!("{base}/docker/cpu.cfs_period_us"), "100000\n");
        let cgroup = "4:cpuset:/elsewhere\n3:cpu,cpuacct:/docker/x\n1:name=systemd:/s\n";
        let quota = cpu_quota_under(tree.path(), cgroup, V1).unwrap();
        assert_eq!(quota.cpus(), 0.5);
    }

    #[test]
    fn a_host_with_both_versions_obeys_the_smaller() {
        let tree = Tree::new();
        tree.file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
        tree.file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
        tree.file("unified/g/cpu.max", "300000 100000\n");
        let mounts = format!("{V1}40 31 0:38 / /unified rw - cgroup2 cgroup2 rw\n");
        let quota = cpu_quota_under(tree.path(), "3:cpu,cpuacct:/\n0::/g\n", &mounts).unwrap();
        assert_eq!(quota.cpus(), 3.0);
    }

    #[test]
    fn a_container_that_sees_only_its_own_group_is_read_at_the_mount_point() {
        let mounts = "31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let tree = Tree::new();
        tree.file("sys/fs/cgroup/cpu.max", "100000 100000\n");
        tree.file("sys/fs/cgroup/worker/cpu.max", "50000 100000\n");
        for (group, cpus) in [
            ("0::/docker/abc\n", 1.0),
            ("0::/docker/abc/worker\n", 0.5),
            ("0::/\n", 1.0),
            ("0::/../other\n", 1.0),
        ] {
            let quota = cpu_quota_under(tree.path(), group, mounts).unwrap();
            assert_eq!(quota.cpus(), cpus, "{group}");
        }
    }

    #[test]
    fn escaped_mount_points_and_colons_in_names_are_understood() {
        let mounts = "31 23 0:28 / /my\\040groups\\134x rw - cgroup2 cgroup2 rw\n";
        let tree = Tree::new();
        tree.file("my groups\\x/a:b/cpu.max", "250000 100000\n");
        let quota = cpu_quota_under(tree.path(), "0::/a:b\n", mounts).unwrap();
        assert_eq!(quota.cpus(), 2.5);
    }

    #[test]
    fn this_host_answers() {
        if let Some(quota) = cpu_quota() {
            assert!(quota.cpus() > 0.0);
        }
    }
}

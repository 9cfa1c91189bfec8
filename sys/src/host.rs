//! What machine this is: kernel version, and what it says about io_uring and seccomp.

use core::fmt;
use core::str::FromStr;

/// A kernel release, ordered. Suffixes of distributions do not count.
///
/// # Examples
/// ```
/// use urgo_sys::host::KernelVersion;
/// let debian: KernelVersion = "6.1.0-32-amd64".parse().unwrap();
/// assert!(debian >= KernelVersion::new(6, 1, 0) && debian < KernelVersion::new(6, 13, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelVersion {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number, 0 where there is none.
    pub patch: u32,
}

/// The text was no kernel release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAKernelRelease;

impl fmt::Display for NotAKernelRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a kernel release (expected major.minor[.patch][suffix])")
    }
}

impl core::error::Error for NotAKernelRelease {}

impl KernelVersion {
    /// A version from its numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> KernelVersion {
        KernelVersion {
            major,
            minor,
            patch,
        }
    }

    /// `uname().release`. A release that does not parse counts as 0.0.0: older than any floor.
    pub fn current() -> KernelVersion {
        let name = rustix::system::uname();
        name.release()
            .to_string_lossy()
            .parse()
            .unwrap_or(KernelVersion::new(0, 0, 0))
    }
}

impl FromStr for KernelVersion {
    type Err = NotAKernelRelease;

    fn from_str(release: &str) -> Result<KernelVersion, NotAKernelRelease> {
        let mut parts = release.trim().splitn(3, '.');
        let (major, rest) = leading_number(parts.next()).ok_or(NotAKernelRelease)?;
        if !rest.is_empty() {
            return Err(NotAKernelRelease);
        }
        let (minor, rest) = leading_number(parts.next()).ok_or(NotAKernelRelease)?;
        let patch = match parts.next() {
            Some(patch) if rest.is_empty() => leading_number(Some(patch)).map_or(0, |(n, _)| n),
            _ => 0,
        };
        Ok(KernelVersion::new(major, minor, patch))
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

fn leading_number(part: Option<&str>) -> Option<(u32, &str)> {
    let part = part?;
    let digits = part.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = part.split_at(digits);
    Some((number.parse().ok()?, rest))
}

/// `/proc/sys/kernel/io_uring_disabled`: 0 open to all, 1 only to `io_uring_group` and privileged ones, 2 closed. `None` where
/// the kernel (before 6.6) has no such switch.
pub fn io_uring_disabled() -> Option<u32> {
    read_number("/proc/sys/kernel/io_uring_disabled")
}

/// `/proc/sys/kernel/io_uring_group`: the group that may use io_uring while `io_uring_disabled` is 1; `None` where none is
/// set or the kernel has no such switch.
pub fn io_uring_group() -> Option<u32> {
    // -1, "no group", does not parse as an unsigned number.
    read_number("/proc/sys/kernel/io_uring_group")
}

/// The seccomp mode of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeccompMode {
    /// No filter.
    Off,
    /// Only read, write, exit and sigreturn.
    Strict,
    /// A filter program decides, as in most containers.
    Filter,
}

/// `Seccomp:` of `/proc/self/status`; `None` where it cannot be read.
pub fn seccomp_mode() -> Option<SeccompMode> {
    seccomp_mode_of(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn seccomp_mode_of(status: &str) -> Option<SeccompMode> {
    match status_field(status, "Seccomp:")? {
        0 => Some(SeccompMode::Off),
        1 => Some(SeccompMode::Strict),
        2 => Some(SeccompMode::Filter),
        _ => None,
    }
}

/// The first number of the line of a `/proc/*/status` text that begins with `title`.
pub(crate) fn status_field(status: &str, title: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(title))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The number that a one-line file holds.
pub(crate) fn read_number<N: FromStr>(path: &str) -> Option<N> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_real_hosts_are_read() {
        for (release, version) in [
            ("6.18.44-fc-v782", (6, 18, 44)),
            ("6.1.0-32-amd64", (6, 1, 0)),
            ("6.12.41+deb13-amd64", (6, 12, 41)),
            ("5.15.167.4-microsoft-standard-WSL2", (5, 15, 167)),
            ("6.17-rc3", (6, 17, 0)),
            ("7.0\n", (7, 0, 0)),
        ] {
            let (major, minor, patch) = version;
            assert_eq!(
                release.parse(),
                Ok(KernelVersion::new(major, minor, patch)),
                "{release}"
            );
        }
        for release in ["", "6", "linux", "6.x", "6-1.2"] {
            assert_eq!(
                release.parse::<KernelVersion>(),
                Err(NotAKernelRelease),
                "{release}"
            );
        }
    }

    #[test]
    fn versions_are_ordered_by_number_not_by_text() {
        assert!(KernelVersion::new(6, 9, 0) < KernelVersion::new(6, 13, 0));
        assert!(KernelVersion::new(5, 19, 99) < KernelVersion::new(6, 1, 0));
        assert_eq!(KernelVersion::new(6, 1, 0).to_string(), "6.1.0");
        assert!(KernelVersion::current() > KernelVersion::new(3, 0, 0));
    }

    #[test]
    fn the_seccomp_mode_is_read_from_its_own_line() {
        let status = "Name:\tx\nNoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(seccomp_mode_of(status), Some(SeccompMode::Filter));
        assert_eq!(seccomp_mode_of("Name:\tx\n"), None);
        assert!(seccomp_mode().is_some());
    }
}

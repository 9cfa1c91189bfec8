//! What was turned off by hand: the environment variable `URGO_DISABLE`, a comma-separated list of feature names.
//!
//! A feature named there is treated as if the kernel had refused it, so that the other road can be run on any kernel:
//! `URGO_DISABLE=guard_install,futex_wait cargo test`.

use std::sync::OnceLock;

/// The name of the environment variable.
pub const VARIABLE: &str = "URGO_DISABLE";

/// Whether `feature` is listed in `URGO_DISABLE`. The variable is read once, at the first question.
///
/// # Examples
/// ```
/// assert!(!urgo_sys::switches::disabled("no_such_feature"));
/// ```
pub fn disabled(feature: &str) -> bool {
    static LIST: OnceLock<String> = OnceLock::new();
    let list = LIST.get_or_init(|| {
        std::env::var_os(VARIABLE)
            .map(|list| list.to_string_lossy().into_owned())
            .unwrap_or_default()
    });
    lists(list, feature)
}

/// Whether the comma-separated `list` names `feature`; blanks around a name do not count.
fn lists(list: &str, feature: &str) -> bool {
    list.split(',').any(|name| name.trim() == feature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_whole_and_without_blanks() {
        assert!(lists("guard_install", "guard_install"));
        assert!(lists("a, guard_install ,b", "guard_install"));
        assert!(!lists("guard_install_2", "guard_install"));
        assert!(!lists("xguard_install", "guard_install"));
        assert!(!lists("", "guard_install"));
    }
}

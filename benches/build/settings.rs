//! Settings of a profile, which cargo does not tell to build scripts.
//!
//! # Algorithm
//! As cargo itself: a variable of the environment, else the profile's section in the workspace's manifest, else the same for the
//! profile that it inherits from, else cargo's own. What a file of configuration or `--config` says is not seen; so each answer
//! says where it is from.

use std::path::Path;

/// Where the settings are looked up.
pub(crate) struct Settings<'a, F> {
    manifest: &'a str,
    variable: F,
}

impl<'a, F: Fn(&str) -> Option<String>> Settings<'a, F> {
    /// `manifest` is the text of the workspace's `Cargo.toml`; `variable` gives variables of the environment.
    pub(crate) fn new(manifest: &'a str, variable: F) -> Self {
        Settings { manifest, variable }
    }

    /// The value of `key` in `profile`, and where it is from: "thin (Cargo.toml)".
    pub(crate) fn find(&self, profile: &str, key: &str) -> String {
        // The directory of the profile `dev`.
        let mut profile = match profile {
            "debug" => "dev".to_owned(),
            other => other.to_owned(),
        };
        // A chain of profiles is short; one that goes in a circle is refused by cargo.
        for _ in 0..8 {
            let variable = format!("CARGO_PROFILE_{profile}_{key}");
            let variable = variable.to_uppercase().replace('-', "_");
            if let Some(value) = (self.variable)(&variable) {
                return format!("{value} ({variable})");
            }
            if let Some(value) = self.in_manifest(&profile, key) {
                return format!("{value} (Cargo.toml)");
            }
            match self.in_manifest(&profile, "inherits") {
                Some(parent) => profile = parent,
                None => break,
            }
        }
        "cargo's default".to_owned()
    }

    fn in_manifest(&self, profile: &str, key: &str) -> Option<String> {
        let section = format!("[profile.{profile}]");
        let lines = self.manifest.lines().map(str::trim);
        let lines = lines.skip_while(|line| *line != section).skip(1);
        let mut lines = lines.take_while(|line| !line.starts_with('['));
        lines.find_map(|line| {
            let (name, value) = line.split_once('=')?;
            let value = value.split('#').next()?.trim().trim_matches('"');
            (name.trim() == key).then(|| value.to_owned())
        })
    }
}

/// Name of the profile whose build script has this directory for its output: `TARGET/PROFILE/build/PACKAGE/out`.
pub(crate) fn profile_of(out: &Path) -> Option<String> {
    let build = out.parent()?.parent()?;
    let profile = build.parent()?.file_name()?.to_str()?;
    build.ends_with("build").then(|| profile.to_owned())
}

//! Notes of people, in Markdown.

use pulldown_cmark::{Options, Parser, html::push_html};
use std::collections::BTreeMap;

/// Notes as HTML, by workload, and the rest.
#[derive(Debug, Default)]
pub(super) struct Notes {
    by_workload: BTreeMap<String, String>,
    /// What belongs to no workload.
    pub(super) rest: String,
}

impl Notes {
    /// Takes `markdown` apart: what follows `## NAME`, where `is_workload` knows the name, up to the next heading of that or a
    /// higher level, is that workload's.
    pub(super) fn of(markdown: &str, is_workload: impl Fn(&str) -> bool) -> Notes {
        let mut parts: BTreeMap<Option<String>, String> = BTreeMap::new();
        let mut current = None;
        let mut is_code = false;
        for line in markdown.lines() {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            }
            let is_heading = !is_code && (line.starts_with("## ") || line.starts_with("# "));
            if is_heading {
                let name = line.trim_start_matches('#').trim().trim_matches('`');
                current = is_workload(name).then(|| name.to_owned());
                if current.is_some() {
                    continue;
                }
            }
            let part = parts.entry(current.clone()).or_default();
            part.push_str(line);
            part.push('\n');
        }
        let rest = parts.remove(&None).unwrap_or_default();
        Notes {
            rest: rendered(&rest),
            by_workload: parts
                .into_iter()
                .filter_map(|(name, text)| Some((name?, rendered(&text))))
                .collect(),
        }
    }

    /// What is said of a workload.
    pub(super) fn on(&self, workload: &str) -> Option<&str> {
        self.by_workload.get(workload).map(String::as_str)
    }
}

fn rendered(markdown: &str) -> String {
    let mut html = String::new();
    push_html(&mut html, Parser::new_ext(markdown, Options::ENABLE_TABLES));
    html.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_section_goes_where_it_belongs() {
        let text = "Top.\n\n## echo\nOf *echo*.\n```\n## switch\n```\n### more\n## Else\nRest.\n";
        let notes = Notes::of(text, |name| name == "echo" || name == "switch");
        let echo = notes.on("echo").unwrap();
        assert!(
            echo.contains("<em>echo</em>") && echo.contains("## switch"),
            "{echo}"
        );
        assert!(echo.contains("<h3>more</h3>"), "{echo}");
        assert_eq!(notes.rest, "<p>Top.</p>\n<h2>Else</h2>\n<p>Rest.</p>");
        assert_eq!(notes.on("switch"), None);
    }
}

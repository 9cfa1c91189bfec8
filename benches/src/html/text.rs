//! Words and numbers as HTML.

use super::ink;
use crate::catalogue::Budget;
use crate::machine::Facts;
use crate::results::{Summary, Verdict, short};

/// `text` without anything that HTML takes for its own.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// `text` with what stands between two backticks as code.
pub(super) fn prose(text: &str) -> String {
    let text = escaped(text);
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return text;
    }
    let wrapped = parts.iter().enumerate().map(|(at, part)| match at % 2 {
        0 => (*part).to_owned(),
        _ => format!("<code>{part}</code>"),
    });
    wrapped.collect()
}

/// A budget with the unit where it has one.
pub(super) fn budget(budget: Budget, unit: &str) -> String {
    match budget {
        Budget::AtMost(_) => escaped(&format!("{budget} {unit}")),
        _ => escaped(&budget.to_string()),
    }
}

/// A ratio with three digits behind the point, or as short as other large numbers.
pub(super) fn ratio(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.3}")
    } else {
        short(value)
    }
}

/// Median, and the range in a softer colour.
pub(super) fn spread(summary: Summary, unit: &str) -> String {
    format!(
        "{} {} <span class=range>({} .. {})</span>",
        short(summary.median),
        escaped(unit),
        short(summary.min),
        short(summary.max)
    )
}

/// The dot of a contender's colour, and its name.
pub(super) fn contender(name: &str) -> String {
    format!(
        "<span class=swatch style=\"background:{}\"></span>{}",
        ink::css(ink::of(name)),
        escaped(name)
    )
}

/// A word in a coloured field.
pub(super) fn pill(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Met => "<span class=\"pill pass\">pass</span>",
        Verdict::Missed => "<span class=\"pill miss\">MISS</span>",
        Verdict::Open => "<span class=\"pill open\">rival missing</span>",
    }
}

/// "3 cases", "1 case".
pub(super) fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// "2026-12-01 02:43 UTC".
pub(super) fn date(facts: &Facts) -> String {
    let (days, seconds) = (facts.started / 86_400, facts.started % 86_400);
    let (year, month, day) = civil(days as i64);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02} UTC",
        seconds / 3600,
        seconds / 60 % 60
    )
}

/// Day and commit, one above the other, for below a plot.
pub(super) fn short_date(facts: &Facts) -> String {
    let date = date(facts);
    let commit: String = facts.commit.chars().take(7).collect();
    format!("{}\n{commit}", &date[5..10])
}

/// Year, month and day of the day so many after 1970-01-01. Years are taken to begin in March, so that the day that not all of
/// them have is their last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_788), (2026, 12, 1));
    }

    #[test]
    fn code_is_set_apart() {
        assert_eq!(prose("a `b` <c>"), "a <code>b</code> &lt;c&gt;");
        assert_eq!(prose("a ` b"), "a ` b");
    }

    #[test]
    fn names_cannot_break_the_page() {
        assert_eq!(escaped("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    }
}

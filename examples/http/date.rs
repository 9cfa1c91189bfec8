//! The `Date` header: formatted once a second on each worker, copied by everybody else.
//!
//! A plain `thread_local` does: a goroutine stays on the thread that first ran it, so what it refreshed is what it reads.

use std::cell::Cell;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Length of `Sun, 06 Nov 1994 08:49:37 GMT`.
const DATE_BYTES: usize = 29;

thread_local! {
    /// The second it was made for, and the text.
    static DATE: Cell<(u64, [u8; DATE_BYTES])> = const { Cell::new((u64::MAX, [b' '; DATE_BYTES])) };
}

/// Looks at the clock. Called after each read, not for each answer.
pub(crate) fn refresh() {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |age| age.as_secs());
    if DATE.get().0 != now {
        DATE.set((now, format(now)));
    }
}

/// Appends the date of the last `refresh` on this thread.
pub(crate) fn push(out: &mut Vec<u8>) {
    out.extend_from_slice(&DATE.get().1);
}

#[cold]
#[inline(never)]
fn format(unix_seconds: u64) -> [u8; DATE_BYTES] {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]; // the first day of 1970 was a Thursday
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let (year, month, day) = civil(days);
    let mut text = [b' '; DATE_BYTES];
    // Fits until the year 9999; what does not fit is cut.
    let _ = write!(
        &mut text[..],
        "{}, {day:02} {} {year} {:02}:{:02}:{:02} GMT",
        WEEKDAYS[(days % 7) as usize],
        MONTHS[month as usize - 1],
        second / 3600,
        second / 60 % 60,
        second % 60
    );
    text
}

/// Year, month and day of a day number (0 is the first of January 1970). Years are counted from March, so that the leap
/// day is the last of its year and a month's first day is a linear function of the month.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since the first of March of the year 0
    let era = days / 146_097; // 400 years
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

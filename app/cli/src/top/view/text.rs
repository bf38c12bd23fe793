// SPDX-License-Identifier: Apache-2.0
//! Short texts, and long ones in rows.

use crate::render;
use helio_units::{Bytes, WallTime};
use std::time::Duration;

/// A size in at most 8 columns: `87.7 MiB`.
pub(super) fn brief(bytes: Bytes) -> String {
    const UNITS: [(&str, u32); 5] =
        [("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (name, shift) in UNITS {
        let unit = 1u64 << shift;
        if bytes.0 >= unit {
            let tenths = u128::from(bytes.0) * 10 / u128::from(unit);
            return match (tenths / 10, tenths % 10) {
                (whole, 1..) if whole < 100 => format!("{whole}.{} {name}", tenths % 10),
                (whole, _) => format!("{whole} {name}"),
            };
        }
    }
    format!("{} B", bytes.0)
}

/// A share in percent of parts of a thousand; not 0 if there is something, not 100 before all is.
pub(super) fn percent(parts: u64) -> String {
    let percent = match parts {
        0 => 0,
        1..1000 => (parts / 10).max(1),
        _ => 100,
    };
    format!("{percent} %")
}

/// How long ago, in whole seconds; at least one.
pub(super) fn since(then: Duration, now: Duration) -> String {
    let age = now.saturating_sub(then).as_millis().max(1000);
    render::ago(WallTime(0), WallTime(u64::try_from(age).unwrap_or(u64::MAX)))
}

/// A time of microseconds to hours in at most 8 columns.
pub(super) fn latency(time: Duration) -> String {
    let us = time.as_micros();
    match us {
        0..1000 => format!("{us} us"),
        1000..100_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        100_000..1_000_000 => format!("{} ms", us / 1000),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// A text in rows of at most that many characters, broken at spaces where there are some, but not in a command
/// between backticks that fits into a row. A row after the first is indented as the first one is.
pub(super) fn fold(text: &str, width: usize) -> Vec<String> {
    let indent = text.len() - text.trim_start().len();
    let indent = " ".repeat(indent.min(width / 2));
    let (mut rows, mut row) = (Vec::new(), String::new());
    for word in render::words(text, width - indent.len()) {
        let bare = word.trim_end().chars().count();
        if !row.trim().is_empty() && row.chars().count() + bare > width {
            rows.push(std::mem::replace(&mut row, indent.clone()));
        }
        for c in word.chars() {
            if row.chars().count() >= width {
                if c == ' ' {
                    continue;
                }
                rows.push(std::mem::replace(&mut row, indent.clone()));
            }
            row.push(c);
        }
    }
    rows.push(row);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_shares_and_times_are_short() {
        let sizes = [0, 1023, 1024, 92_000_000, 1 << 20, u64::MAX].map(|bytes| brief(Bytes(bytes)));
        assert_eq!(sizes, ["0 B", "1023 B", "1 KiB", "87.7 MiB", "1 MiB", "16383 PiB"]);
        assert_eq!([0, 1, 187, 999, 1000].map(percent), ["0 %", "1 %", "18 %", "99 %", "100 %"]);
        let times = [113, 50_210, 250_000, 75_200_000].map(|us| latency(Duration::from_micros(us)));
        assert_eq!(times, ["113 us", "50.2 ms", "250 ms", "75.2 s"]);
        let ago = |ms| since(Duration::ZERO, Duration::from_millis(ms));
        assert_eq!([0, 2900, 75_000].map(ago), ["1 s", "2 s", "1 min 15 s"]);
    }

    #[test]
    fn a_long_text_is_folded_at_spaces_and_a_long_word_anywhere() {
        assert_eq!(fold("one two three", 8), ["one two ", "three"]);
        assert_eq!(fold("  abcdefghij", 6), ["  abcd", "  efgh", "  ij"]);
        assert_eq!(fold("", 8), [""]);
        let command = "if so: `helio promote db`, then look";
        assert_eq!(fold(command, 20), ["if so: ", "`helio promote db`, ", "then look"]);
        assert_eq!(fold("a  b   c", 20), ["a  b   c"]);
    }
}

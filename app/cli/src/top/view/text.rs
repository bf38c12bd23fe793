// SPDX-License-Identifier: Apache-2.0
//! Short texts, and long ones in rows.

use helio_units::Bytes;
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

/// How long: `250 ms`, `5 s`, `3 min`.
pub(super) fn span(span: Duration) -> String {
    match (span.as_secs(), span.subsec_millis()) {
        (0, ms) => format!("{ms} ms"),
        (s @ 1..60, 0) => format!("{s} s"),
        (1..60, _) => format!("{:.1} s", span.as_secs_f64()),
        (s @ 60..3600, _) => format!("{} min", s / 60),
        (s, _) => format!("{} h", s / 3600),
    }
}

/// How long ago, in whole seconds.
pub(super) fn since(then: Duration, now: Duration) -> String {
    span(Duration::from_secs(now.saturating_sub(then).as_secs()).max(Duration::from_secs(1)))
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

/// A text in rows of at most that many characters, broken at spaces where there are some. A row after the first begins
/// where the text of a labelled line begins.
pub(super) fn fold(text: &str, width: usize) -> Vec<String> {
    let indent = text.len() - text.trim_start().len();
    let indent = " ".repeat(indent.min(width / 2));
    let (mut rows, mut row) = (Vec::new(), String::new());
    for word in text.split_inclusive(' ') {
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
        assert_eq!(span(Duration::from_millis(1500)), "1.5 s");
    }

    #[test]
    fn a_long_text_is_folded_at_spaces_and_a_long_word_anywhere() {
        assert_eq!(fold("one two three", 8), ["one two ", "three"]);
        assert_eq!(fold("  abcdefghij", 6), ["  abcd", "  efgh", "  ij"]);
        assert_eq!(fold("", 8), [""]);
    }
}

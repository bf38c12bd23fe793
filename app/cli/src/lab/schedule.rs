// SPDX-License-Identifier: Apache-2.0
//! Orders with a time. A schedule is text, a line each:
//!
//! | line | what |
//! |---|---|
//! | `TIME ORDER` | the order of standard input that is carried out so long after the line is there |
//! | `repeat every TIME` | once: all of it again, so long after it began; later than its last order |
//! | empty, `# …` | nothing |
//!
//! Lines need no order; of those with the same time the one above goes first. At most 10,000 lines of at most 200
//! bytes.

use super::agenda::{Entry, LEAST_PERIOD, Track};
use super::orders::{Order, parse};
use helio_units::parse_duration;
use std::time::Duration;

/// The most lines of a schedule.
pub(super) const MOST_LINES: usize = 10_000;
/// The longest line, in bytes.
pub(super) const MOST_LINE: usize = 200;
/// The latest time, a year: what is later is a slip of the unit.
const LATEST: Duration = Duration::from_secs(366 * 86_400);

/// What a line obeys: the help that names it, and why it refuses what it understands.
#[derive(Clone, Copy)]
pub(super) struct Obeys {
    pub(super) help: &'static str,
    pub(super) refuses: fn(&Order) -> Option<&'static str>,
}

/// Reads a schedule. `place` names what it is of, and line `number` of that.
///
/// # Errors
/// Names line and field.
pub(super) fn read(
    text: &str,
    obeys: Obeys,
    place: impl Fn(usize) -> String,
) -> Result<Track, String> {
    let mut track = Track::default();
    let mut repeats = 0;
    for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
        let wrong = |field: &str, why: &str| format!("{}, {field}: {why}", place(number));
        if number > MOST_LINES {
            return Err(wrong("line", &format!("a schedule has at most {MOST_LINES} rows")));
        }
        if line.len() > MOST_LINE {
            return Err(wrong("line", &format!("longer than {MOST_LINE} bytes")));
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let time = |text: &str| match parse_duration(text) {
            Ok(time) if time > LATEST => {
                Err(wrong("time", &format!("`{text}` is longer than a year")))
            }
            Ok(time) => Ok(time),
            Err(why) => Err(wrong("time", &format!("`{text}` {why}"))),
        };
        if first == "repeat" {
            let every = rest.trim().strip_prefix("every").map(str::trim);
            let every = every.ok_or_else(|| wrong("command", "write `repeat every TIME`"))?;
            if track.period.replace(time(every)?).is_some() {
                return Err(wrong("command", "a second `repeat`; use only one"));
            }
            repeats = number;
            continue;
        }
        let at = time(first)?;
        let order = parse(rest, obeys.help).map_err(|why| wrong("command", &why))?;
        let order =
            order.ok_or_else(|| wrong("command", "the command is missing after the time"))?;
        if let Some(why) = (obeys.refuses)(&order) {
            return Err(wrong("command", &format!("`{}`: {why}", rest.trim())));
        }
        track.entries.push(Entry { at, said: rest.trim().to_owned(), order });
    }
    track.entries.sort_by_key(|entry| entry.at);
    let Some(last) = track.entries.last() else {
        return Err(format!("{}: it has no commands; write rows such as `10s cut`", place(1)));
    };
    if track.period.is_some_and(|every| every <= last.at || every < LEAST_PERIOD) {
        let why = format!(
            "it repeats before its last command, at {:?}, or in less than {LEAST_PERIOD:?}",
            last.at
        );
        return Err(format!("{}, time: {why}", place(repeats)));
    }
    Ok(track)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::shape::Change;
    use helio_wan::Ways;

    const OBEYS: Obeys = Obeys {
        help: "commands: cut, heal",
        refuses: |order| (*order == Order::Reset).then_some("nothing to reset"),
    };

    fn of(text: &str) -> Result<Track, String> {
        read(text, OBEYS, |line| format!("storm.txt, line {line}"))
    }

    #[test]
    fn orders_are_those_of_standard_input_and_come_by_their_time() {
        let track =
            of("# a bad hour\n15s  heal\n\n 10s cut\n10s rtt 80ms\n0s stats\nrepeat every 5min\n");
        let track = track.expect("it is one");
        let entries: Vec<(u64, &str, Order)> =
            track.entries.iter().map(|e| (e.at.as_secs(), e.said.as_str(), e.order)).collect();
        let rtt = Order::Change(Change::Rtt(Duration::from_millis(80)));
        assert_eq!(
            entries,
            [
                (0, "stats", Order::Stats),
                (10, "cut", Order::Cut(Ways::Both)),
                (10, "rtt 80ms", rtt),
                (15, "heal", Order::Heal(Ways::Both)),
            ]
        );
        assert_eq!(track.period, Some(Duration::from_secs(300)));
    }

    #[test]
    fn what_cannot_be_carried_out_names_line_and_field() {
        for (text, said) in [
            ("0s cut\n10 heal", "line 2, time: `10` needs a unit"),
            ("soon cut", "line 1, time: `soon` does not begin with a number"),
            ("9000h cut", "line 1, time: `9000h` is longer than a year"),
            ("1s", "line 1, command: the command is missing"),
            ("1s sever", "line 1, command: `sever` is not a command; commands: cut, heal"),
            ("1s rtt 80", "line 1, command: `80` needs a unit"),
            ("1s reset", "line 1, command: `reset`: nothing to reset"),
            ("1s cut\nrepeat", "line 2, command: write `repeat every TIME`"),
            ("1s cut\nrepeat every", "line 2, time: `` does not begin"),
            ("1s cut\nrepeat every 1s", "line 2, time: it repeats before its last command, at 1s"),
            ("0s cut\nrepeat every 1ms", "line 2, time: it repeats before"),
            ("1s cut\nrepeat every 2s\nrepeat every 3s", "line 3, command: a second `repeat`"),
            ("# nothing", "line 1: it has no commands"),
        ] {
            let why = of(text).err().unwrap_or_default();
            assert!(why.starts_with(&format!("storm.txt, {said}")), "{text}: {why}");
        }
        let long = format!("1s {}", "x".repeat(MOST_LINE));
        assert!(of(&long).err().unwrap_or_default().contains("longer than 200 bytes"));
        let many = "1s cut\n".repeat(MOST_LINES + 1);
        assert!(of(&many).err().unwrap_or_default().contains("line 10001"));
    }
}

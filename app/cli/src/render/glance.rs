// SPDX-License-Identifier: Apache-2.0
//! Status at a glance: one line per group with its verdict, and under it the few lines that a decision needs. At most 80
//! columns, except for paths; long names are shortened in the middle.

use super::set;
use crate::progress;
use crate::typed::{runnable, runnable_on};
use helio_api::{
    Connection, DrillResult, DrillStatus, FailedGroup, GroupStatus, PeerStatus, Status,
};
use helio_units::{Bytes, Items, Role, State, Verdict, WallTime};
use std::fmt::Write;
use std::time::Duration;

/// Columns of a terminal that everything fits into.
const COLUMNS: usize = 80;
/// Where the texts of the lines under a group begin.
const TEXT_AT: usize = 18;
/// Most columns of a group's name, and of a node's.
const NAME_MOST: usize = 16;
/// What is left of a name where the line is too long otherwise.
const NAME_SHORT: usize = 8;

/// The colour of a verdict, if it is written to a terminal that wants colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Colour(pub(crate) bool);

impl Colour {
    fn paint(self, text: &str, verdict: Option<Verdict>) -> String {
        let code = match verdict {
            Some(Verdict::Ok) => 32,
            Some(Verdict::AtRisk | Verdict::Unknown) => 33,
            _ => 31,
        };
        if self.0 { format!("\x1b[1;{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// What monitoring is told of a verdict: 0 ok, 1 at risk, 2 down or to be repaired by a person, 3 unknown.
pub(crate) const fn check_code(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Ok => 0,
        Verdict::AtRisk => 1,
        Verdict::SplitBrain | Verdict::DiskFailed | Verdict::NoPrimary => 2,
        Verdict::Unknown => 3,
    }
}

/// The verdict for people.
pub(crate) const fn title(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::SplitBrain => "SPLIT BRAIN",
        Verdict::DiskFailed => "DISK FAILED",
        Verdict::NoPrimary => "NO PRIMARY",
        Verdict::Unknown => "UNKNOWN",
        Verdict::AtRisk => "AT RISK",
        Verdict::Ok => "OK",
    }
}

/// One line for every group, the worst first.
pub(crate) fn list(status: &Status, colour: Colour) -> String {
    let names = status.groups.iter().map(|g| &g.name).chain(status.failed.iter().map(|f| &f.name));
    let widest = names.map(|name| name.chars().count().min(NAME_MOST)).max().unwrap_or_default();
    let mut out = String::new();
    for failed in &status.failed {
        out.push_str(&failed_line(failed, widest, status.at_ms, colour));
    }
    let mut groups: Vec<&GroupStatus> = status.groups.iter().collect();
    groups.sort_by_key(|group| group.verdict.word);
    for group in groups {
        out.push_str(&line(group, widest, status.at_ms, colour));
    }
    out
}

/// A group in a few lines.
pub(crate) fn group(g: &GroupStatus, now: WallTime, colour: Colour) -> String {
    let mut out = line(g, g.name.chars().count().min(NAME_MOST), now, colour);
    let verdict = g.verdict.word;
    let why = if verdict == Verdict::DiskFailed { "fault" } else { "why" };
    under(&mut out, why, &g.verdict.why);
    under(&mut out, "do", &runnable_on(&g.next, &g.node));
    match verdict {
        Verdict::SplitBrain => {
            let here = ((g.role == Role::Primary).then_some(g.lag.bytes), g.last_write_ms);
            let reported = |p: &PeerStatus| (p.only_there_bytes, p.last_write_ms);
            let both = g.peer.iter().flat_map(|peer| ends(g, peer, here, reported(peer)));
            for (node, (bytes, written)) in both {
                let told = if node == g.node { "" } else { ", as it reported last" };
                let written = written.map_or_else(String::new, |at| last_write(at, now));
                let text = bytes.map_or_else(
                    || format!("unknown{written}; `helio resolve {} --discard {node}` on {node} shows it and asks", g.name),
                    |bytes| format!("at most {bytes}{written}{told}"),
                );
                under(&mut out, &format!("only {}", short(node, NAME_SHORT)), &text);
            }
        }
        Verdict::Ok | Verdict::NoPrimary | Verdict::Unknown => {}
        // A node whose own disk failed has other dirty regions: its own copy lacks those.
        Verdict::DiskFailed if g.fault.is_some() => {}
        Verdict::AtRisk | Verdict::DiskFailed => {
            g.peer.iter().for_each(|peer| missing(&mut out, g, peer));
        }
    }
    if let Some(sync) = g.sync.as_ref().filter(|sync| sync.copied_bytes > Bytes::ZERO) {
        under(&mut out, "resync", &progress::text(sync));
    }
    if let Some(peer) = g.peer.as_ref().filter(|_| verdict != Verdict::Ok && !g.is_connected()) {
        under(&mut out, "link", &link(peer, now));
    }
    if let Some(drills) = &g.drill {
        under(&mut out, "drill", &drill(drills, now));
    }
    out
}

/// The volumes that have several members on this node, each with its members.
pub(crate) fn sets(g: &GroupStatus) -> String {
    let mut out = String::new();
    for volume in g.volumes.iter().filter(|volume| !volume.members.is_empty()) {
        under(&mut out, &short(&volume.name, 12), &set::summary(volume));
        for (label, text) in set::rows(volume) {
            under(&mut out, &label, &text);
        }
    }
    out
}

/// A group that is not served, in a few lines.
pub(crate) fn failed(failed: &FailedGroup, now: WallTime, colour: Colour) -> String {
    let widest = failed.name.chars().count().min(NAME_MOST);
    let mut out = failed_line(failed, widest, now, colour);
    under(&mut out, "why", &failed.reason);
    under(&mut out, "do", &runnable(&failed.hint));
    out
}

/// Why there is no connection; if that repeats, how often, and when the next attempt begins.
fn link(peer: &PeerStatus, now: WallTime) -> String {
    let repeated = peer.attempts.as_ref().filter(|attempts| attempts.count > Items(1));
    let Some(attempts) = repeated else { return peer.reason.clone() };
    let (count, since) = (attempts.count, attempts.since_ms);
    let since = if same_day(since, now) { since.time().to_string() } else { since.to_string() };
    let next = attempts.next_seconds.filter(|next| *next >= Duration::from_millis(100));
    let next = next.map(|next| format!(", the next in {:.1} s", next.as_secs_f64()));
    let last = Some(&attempts.reason).filter(|last| !peer.reason.contains(last.as_str()));
    let last = last.map(|last| format!("; the last: {last}"));
    let (next, last) = (next.unwrap_or_default(), last.unwrap_or_default());
    format!("{}; {count} attempts since {since}{next}{last}", peer.reason)
}

/// How the last drill ended and, if it failed, when one succeeded.
fn drill(drills: &DrillStatus, now: WallTime) -> String {
    let ago =
        |drill: &DrillResult| coarse(Duration::from_millis(now.0.saturating_sub(drill.at_ms.0)));
    let last = &drills.last;
    let (ended, time) = (ago(last), coarse(last.duration_seconds));
    match (&last.failure, &drills.last_success) {
        (None, _) => format!("succeeded {ended} ago, in {time}"),
        (Some(why), None) => {
            format!("failed {ended} ago, after {time}: {why}; no drill succeeded yet")
        }
        (Some(why), Some(success)) => {
            format!("failed {ended} ago, after {time}: {why}; last success {} ago", ago(success))
        }
    }
}

/// What the secondary does not have.
fn missing(out: &mut String, g: &GroupStatus, peer: &PeerStatus) {
    let dirty = g.volumes.iter().any(|volume| volume.dirty_bytes > Bytes::ZERO);
    let most = if dirty { "at most " } else { "" };
    let lag = match g.lag.writes.0 {
        0 => format!("{most}{}", g.lag.bytes),
        writes => format!("{most}{} in {writes} writes", g.lag.bytes),
    };
    if g.role == Role::Primary {
        if g.lag.bytes > Bytes::ZERO {
            under(out, &format!("not on {}", short(&peer.name, 6)), &lag);
        }
    } else if !g.is_connected() {
        let age = peer.age_seconds.unwrap_or_default();
        let lag = if g.lag.bytes == Bytes::ZERO { "nothing".to_owned() } else { lag };
        let text = format!(
            "{lag} when {} reported last, {} ago; its later writes are not here",
            peer.name,
            coarse(age)
        );
        under(out, "not here", &text);
    }
}

/// The words of a text, each with the spaces behind it; a command between backticks that fits into `width` is one.
pub(crate) fn words(text: &str, width: usize) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let command = rest.strip_prefix('`').and_then(|inner| inner.find('`')).map(|at| at + 2);
        let from = command.filter(|end| *end <= width).unwrap_or_default();
        let word = rest[from..].find(' ').map_or(rest.len(), |at| from + at);
        let end = rest.len() - rest[word..].trim_start().len();
        found.push(&rest[..end]);
        rest = &rest[end..];
    }
    found
}

/// A labelled line, folded at the last column.
fn under(out: &mut String, label: &str, text: &str) {
    let mut label = label;
    let mut row = String::new();
    for word in words(text.trim(), COLUMNS - TEXT_AT).into_iter().map(str::trim_end) {
        if !row.is_empty() && TEXT_AT + row.chars().count() + 1 + word.chars().count() > COLUMNS {
            put(out, label, &row);
            (label, row) = ("", String::new());
        }
        if !row.is_empty() {
            row.push(' ');
        }
        row.push_str(word);
    }
    put(out, label, &row);
}

fn put(out: &mut String, label: &str, row: &str) {
    let _infallible = writeln!(out, "     {label:<12} {row}");
}

fn failed_line(failed: &FailedGroup, widest: usize, now: WallTime, colour: Colour) -> String {
    let (name, since) = (short(&failed.name, NAME_MOST), since(failed.since_ms, now));
    let verdict = colour.paint(&format!("{:<11}", "NOT SERVED"), None);
    format!("{name:<widest$}   {verdict}  {since}\n")
}

/// The first line: as long as it may be, with as much of it as fits.
fn line(g: &GroupStatus, widest: usize, now: WallTime, colour: Colour) -> String {
    let name = short(&g.name, NAME_MOST);
    let verdict = format!("{:<11}", title(g.verdict.word));
    let since = since(g.verdict.since_ms, now);
    let about = condition(g);
    let tail = |most: usize, since: &str| {
        [topology(g, most), about.clone(), since.to_owned()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("   ")
    };
    let room = COLUMNS - (widest + 3 + verdict.len() + 2);
    let clock = since.rsplit_once(" (").map_or(since.as_str(), |(clock, _)| clock);
    let candidates = [
        tail(NAME_MOST, &since),
        tail(NAME_MOST, clock),
        tail(NAME_SHORT, clock),
        tail(NAME_SHORT, ""),
        topology(g, NAME_SHORT),
    ];
    let last = candidates.len() - 1;
    let fits = candidates.iter().position(|tail| tail.chars().count() <= room).unwrap_or(last);
    format!(
        "{name:<widest$}   {}  {}\n",
        colour.paint(&verdict, Some(g.verdict.word)),
        candidates[fits]
    )
}

/// This node and its peer with what belongs to each: the primary first, otherwise in the order of their names.
fn ends<'a, T>(g: &'a GroupStatus, peer: &'a PeerStatus, here: T, there: T) -> [(&'a str, T); 2] {
    let leads = (g.role == Role::Primary, serves(peer));
    let (node, peer) = ((g.node.as_str(), here), (peer.name.as_str(), there));
    match leads {
        (true, false) => [node, peer],
        (false, true) => [peer, node],
        _ if node.0 < peer.0 => [node, peer],
        _ => [peer, node],
    }
}

/// Whether the peer is primary, or was when it was connected last.
fn serves(peer: &PeerStatus) -> bool {
    peer.role == Some(Role::Primary)
}

/// A node with what belongs to it.
fn end(name: &str, most: usize, (primary, failed): (bool, bool)) -> String {
    let star = if primary { "*" } else { "" };
    let failed = if failed { "(failed)" } else { "" };
    format!("{}{star}{failed}", short(name, most))
}

/// `paris* => lyon`, or `paris*` if the group has only one node: `*` is a primary, `=>` in sync, `->` connected, `-x-` not connected, `|` refused.
pub(crate) fn topology(g: &GroupStatus, most: usize) -> String {
    let here = (g.role == Role::Primary, g.fault.is_some());
    let Some(peer) = &g.peer else { return end(&g.node, most, here) };
    let there = (serves(peer), peer.fault.is_some());
    let primaries = (here.0, there.0);
    let link = match peer.connection {
        Connection::Connected if g.verdict.word == Verdict::Ok => "=>",
        Connection::Connected if primaries == (false, false) => "--",
        Connection::Connected => "->",
        Connection::Refused => "|",
        Connection::Connecting | Connection::None => "-x-",
    };
    let [first, second] = ends(g, peer, here, there).map(|(name, about)| end(name, most, about));
    format!("{first} {link} {second}")
}

/// The mode and what is special, in a few words.
fn condition(g: &GroupStatus) -> String {
    let connected = g.is_connected();
    if g.peer.is_none() {
        return String::new();
    }
    match (g.verdict.word, g.state) {
        (Verdict::Ok, _) => {
            let mode = g.mode.effective.unwrap_or(g.mode.requested);
            let lag = match g.lag.bytes {
                Bytes::ZERO => "0".to_owned(),
                bytes => bytes.to_string(),
            };
            format!("{mode}   lag {lag}")
        }
        (Verdict::SplitBrain, _) => "both wrote".to_owned(),
        (Verdict::DiskFailed | Verdict::NoPrimary | Verdict::Unknown, _) => String::new(),
        (Verdict::AtRisk, _) if g.seeding.is_some() => "seeding".to_owned(),
        (Verdict::AtRisk, _) if g.role == Role::Secondary && !connected => "not updated".to_owned(),
        (Verdict::AtRisk, _) if !connected => format!("{}, unreplicated", g.mode.requested),
        (Verdict::AtRisk, _) if is_unsteady(g) => "unsteady link".to_owned(),
        (Verdict::AtRisk, State::Syncing) => match &g.sync {
            Some(sync) => format!("resync {} %", progress::share(sync, 100)),
            None => "resync".to_owned(),
        },
        (Verdict::AtRisk, State::CatchingUp) => "catching up".to_owned(),
        (Verdict::AtRisk, State::NeedsSync) => "inconsistent".to_owned(),
        (Verdict::AtRisk, State::NeedsRoom) => "resync waits for space".to_owned(),
        (Verdict::AtRisk, State::Replicating | State::Periodic) => "copies differ".to_owned(),
        (Verdict::AtRisk, State::Logging | State::Queuing) => "unreplicated".to_owned(),
    }
}

/// Whether connections begin and none lasts.
fn is_unsteady(g: &GroupStatus) -> bool {
    let attempts = g.peer.as_ref().and_then(|peer| peer.attempts.as_ref());
    attempts.is_some_and(|attempts| attempts.unsteady.is_some())
}

/// Whether both are of the same day (UTC, as times are shown). If not, a time is shown with its date.
const fn same_day(one: WallTime, other: WallTime) -> bool {
    const DAY_MS: u64 = 86_400_000;
    one.0 / DAY_MS == other.0 / DAY_MS
}

/// `since 16:07Z (3 min)`, with the date if it is not today's.
fn since(then: WallTime, now: WallTime) -> String {
    let text = then.to_string();
    let (date, time) = text.split_once(' ').unwrap_or((&text, ""));
    let day = if same_day(then, now) { "" } else { &date[5..] };
    let space = if day.is_empty() { "" } else { " " };
    let age = Duration::from_millis(now.0.saturating_sub(then.0));
    format!("since {day}{space}{}Z ({})", &time[..5.min(time.len())], coarse(age))
}

/// With its date, if that is not today's.
fn last_write(at: WallTime, now: WallTime) -> String {
    if same_day(at, now) {
        format!(", last write {}", at.time())
    } else {
        format!(", last write {at}")
    }
}

/// A span in its largest unit.
fn coarse(span: Duration) -> String {
    match span.as_secs() {
        s @ 0..60 => format!("{s} s"),
        s @ 60..3600 => format!("{} min", s / 60),
        s @ 3600..86_400 => format!("{} h", s / 3600),
        s => format!("{} d", s / 86_400),
    }
}

/// A name of at most so many characters, shortened in the middle.
fn short(name: &str, most: usize) -> String {
    let all: Vec<char> = name.chars().collect();
    if all.len() <= most {
        return name.to_owned();
    }
    let head = most / 2;
    let tail = most - head - 1;
    all[..head].iter().chain(&['…']).chain(&all[all.len() - tail..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_api::AttemptsStatus;

    fn sample() -> Status {
        serde_json::from_str(include_str!("../render_sample.json")).expect("the sample is a status")
    }

    fn shown(change: impl Fn(&mut GroupStatus)) -> String {
        let mut status = sample();
        change(&mut status.groups[0]);
        group(&status.groups[0], status.at_ms, Colour::default())
    }

    fn peer(g: &mut GroupStatus) -> &mut PeerStatus {
        g.peer.as_mut().expect("the sample has one")
    }

    fn in_sync(g: &mut GroupStatus) {
        (g.verdict.word, g.verdict.why) =
            (Verdict::Ok, "every acknowledged write is on lyon".into());
        peer(g).connection = Connection::Connected;
        g.state = State::Replicating;
        (g.lag.bytes, g.next) = (Bytes::ZERO, "nothing".into());
    }

    #[test]
    fn attempts_that_failed_are_counted_and_a_link_on_which_none_lasts_is_unsteady() {
        let tried = AttemptsStatus {
            count: Items(14),
            since_ms: WallTime(36_131_000),
            reason: "Connection refused".into(),
            unsteady: None,
            next_seconds: Some(Duration::from_millis(1600)),
        };
        let away = shown(|g| {
            peer(g).connection = Connection::Connecting;
            peer(g).reason = "cut".into();
            peer(g).attempts = Some(tried.clone());
        });
        let told = away.split_whitespace().collect::<Vec<_>>().join(" ");
        let row = "link cut; 14 attempts since 1970-01-01 10:02:11Z, the next in 1.6 s; the last: Connection refused";
        assert!(told.contains(row), "{away}");
        let unsteady = shown(|g| {
            in_sync(g);
            g.verdict.word = Verdict::AtRisk;
            peer(g).attempts =
                Some(AttemptsStatus { unsteady: Some("ends".into()), ..tried.clone() });
        });
        assert!(unsteady.contains("   unsteady link   "), "{unsteady}");
    }

    #[test]
    fn three_lines_name_the_state_the_risk_and_the_next_step() {
        let text = shown(|_| {});
        let expected = "\
db   AT RISK      paris* -x- lyon   async, unreplicated   since 21:36Z (1 min)
     why          no message from lyon for 75 s
     do           nothing; the queued writes are sent when the link returns
     not on lyon  at most 12 MiB in 1536 writes
     link         lyon gave no sign of progress for 2.0 s
";
        assert_eq!(text, expected);
        let ok = shown(in_sync);
        assert!(
            ok.starts_with("db   OK           paris* => lyon   async   lag 0   since "),
            "{ok}"
        );
    }

    #[test]
    fn the_last_drill_is_a_line_and_a_failed_one_names_the_last_success() {
        let end = |ago_s: u64, failure: Option<&str>| DrillResult {
            at_ms: WallTime(sample().at_ms.0 - ago_s * 1000),
            duration_seconds: Duration::from_secs(12),
            failure: failure.map(str::to_owned),
            exit_status: None,
            generation: None,
            position: None,
        };
        let drilled = |last: DrillResult, last_success: Option<DrillResult>| {
            let drills = DrillStatus { last, last_success };
            let text = shown(|g| {
                in_sync(g);
                g.drill = Some(drills.clone());
            });
            text.lines().skip(3).map(str::trim).collect::<Vec<_>>().join(" ")
        };
        let good = end(3 * 3600, None);
        let text = drilled(good.clone(), Some(good.clone()));
        assert_eq!(text, "drill        succeeded 3 h ago, in 12 s");
        let failed =
            "drill        failed 1 min ago, after 12 s: the command ended with exit status 3;";
        let bad = end(60, Some("the command ended with exit status 3"));
        assert_eq!(drilled(bad.clone(), Some(good)), format!("{failed} last success 3 h ago"));
        assert_eq!(drilled(bad, None), format!("{failed} no drill succeeded yet"));
    }

    #[test]
    fn a_group_of_one_node_has_a_line_without_peer_mode_and_lag() {
        let only = |verdict| {
            shown(move |g| {
                g.verdict.word = verdict;
                g.verdict.why = "it is so".into();
                (g.peer, g.next) = (None, "nothing".into());
            })
        };
        let rest = "\n     why          it is so\n     do           nothing\n";
        for (verdict, title) in [(Verdict::Ok, "OK         "), (Verdict::AtRisk, "AT RISK    ")] {
            let expected = format!("db   {title}  paris*   since 21:36Z (1 min){rest}");
            assert_eq!(only(verdict), expected);
        }
    }

    #[test]
    fn both_nodes_draw_the_same_line() {
        let here = shown(in_sync);
        let there = shown(|g| {
            in_sync(g);
            g.role = Role::Secondary;
            peer(g).role = Some(Role::Primary);
            g.node = "lyon".into();
            peer(g).name = "paris".into();
        });
        assert_eq!(here.lines().next(), there.lines().next());
    }

    #[test]
    fn a_split_brain_says_what_each_node_alone_has() {
        let text = shown(|g| {
            g.verdict.word = Verdict::SplitBrain;
            let there = peer(g);
            there.connection = Connection::Refused;
            (there.role, there.only_there_bytes) = (Some(Role::Primary), Some(Bytes::mib(2)));
            g.last_write_ms = Some(WallTime(61_000));
        });
        assert!(
            text.starts_with("db   SPLIT BRAIN  lyon* | paris*   both wrote   since "),
            "{text}"
        );
        assert!(text.contains(
            "\n     only lyon    at most 2 MiB, as it reported last\n     only paris   at most 12 MiB, last write 1970-01-01 00:01:01Z\n"
        ));
    }

    #[test]
    fn no_line_is_longer_than_a_terminal_and_long_names_keep_both_their_ends() {
        for length in [1, 12, 40, 64] {
            let text = shown(|g| {
                g.name = "g".repeat(length);
                g.node = format!("a{}z", "n".repeat(length));
                peer(g).name = format!("b{}y", "m".repeat(length));
                peer(g).fault = Some("failed".into());
                g.next = "word ".repeat(60);
            });
            for line in text.lines() {
                assert!(
                    line.chars().count() <= COLUMNS,
                    "{} columns: {line}",
                    line.chars().count()
                );
            }
        }
        assert_eq!(short("production-database-7", 8), "prod…e-7");
    }

    #[test]
    fn a_command_is_not_broken_over_two_lines() {
        let text = "restore the link or start paris; if paris is lost: `helio promote db --force`, then look";
        let mut out = String::new();
        under(&mut out, "do", text);
        let lines: Vec<&str> = out.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "do           restore the link or start paris; if paris is lost:",
                "`helio promote db --force`, then look"
            ]
        );
    }

    #[test]
    fn the_worst_group_comes_first_and_colour_marks_the_verdict_alone() {
        let mut status = sample();
        let mut good = status.groups[0].clone();
        in_sync(&mut good);
        good.name = "mail".into();
        status.groups.insert(0, good);
        let text = list(&status, Colour(true));
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("db     \x1b[1;33mAT RISK    \x1b[0m  paris* -x- lyon"),
            "{text}"
        );
        assert!(
            lines[1].starts_with("mail   \x1b[1;32mOK         \x1b[0m  paris* => lyon"),
            "{text}"
        );
        assert_eq!(Verdict::ALL.map(check_code), [2, 2, 2, 3, 1, 0]);
    }

    #[test]
    fn a_time_of_another_day_has_its_date() {
        let now = WallTime(1_795_210_640_554);
        let ago = |s: u64| since(WallTime(now.0 - s * 1000), now);
        assert_eq!(ago(75), "since 21:36Z (1 min)");
        assert_eq!(ago(90_000), "since 11-19 20:37Z (1 d)");
        let day = |hours: u64| WallTime(1_795_132_800_000 + hours * 3_600_000);
        let (evening, night) = (day(23), day(25));
        assert_eq!(since(evening, night), "since 11-20 23:00Z (2 h)");
        assert_eq!(last_write(evening, night), ", last write 2026-11-20 23:00:00Z");
        assert_eq!(last_write(day(1), evening), ", last write 01:00:00Z");
    }
}

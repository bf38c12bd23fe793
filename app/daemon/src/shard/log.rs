// SPDX-License-Identifier: Apache-2.0
//! The log of one group, and of the connections that are refused. Lines that repeat while nothing changes, such as those
//! of a peer that is refused at every connection, are logged once, and then every ten minutes with the number of those that
//! were left out.

use helio_engine::{Loudness, Note};
use helio_units::{Moment, State};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// A line that repeats is logged again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(600);
/// Different lines that are held; the oldest makes room for another one, and is logged again if it comes back.
const LINES_MAX: usize = 64;
/// Different refusals of one host that are told apart.
const HOST_LINES_MAX: usize = 32;

/// Writes what a group reports to the daemon's log.
#[derive(Debug)]
pub(crate) struct GroupLog {
    group: String,
    /// The peer, if the group has one.
    peer: Option<String>,
    state: Option<State>,
    repeats: Repeats,
}

impl GroupLog {
    pub(crate) fn new(group: &str, peer: Option<&str>) -> Self {
        Self {
            group: group.to_owned(),
            peer: peer.map(str::to_owned),
            state: None,
            repeats: Repeats::default(),
        }
    }

    /// Logs what the engine reports in this state. Lines that repeat are left out until the state is another one. A state that changes
    /// because no connection lasts is none: what repeats with each connection is left out, too.
    pub(crate) fn note(&mut self, note: &Note, state: Option<State>, now: Moment) {
        if std::mem::replace(&mut self.state, state) != state && state.is_some() {
            self.repeats.clear();
        }
        let Some(Admitted { left_out }) = self.repeats.admit(&note.text, now) else { return };
        let (group, peer) = (&self.group, self.peer.as_ref().map(tracing::field::display));
        match note.loudness {
            Loudness::Info => tracing::info!(%group, peer, left_out, "{}", note.text),
            Loudness::Warning => tracing::warn!(%group, peer, left_out, "{}", note.text),
        }
    }

    /// Logs the end of a connection.
    pub(crate) fn connection_ended(&mut self, why: &str, now: Moment) {
        let Some(Admitted { left_out }) = self.repeats.admit(&format!("ended: {why}"), now) else {
            return;
        };
        let peer = self.peer.as_ref().map(tracing::field::display);
        tracing::info!(group = %self.group, peer, why, left_out, "connection ended");
    }
}

/// Where connections come in that anybody may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Peers,
    Clients,
    Control,
}

/// Writes to the daemon's log which connections were refused at a port, or broke its rules. Others choose how many
/// there are.
#[derive(Debug)]
pub(crate) struct RefusalLog {
    port: Port,
    repeats: Repeats,
}

impl RefusalLog {
    pub(crate) fn new(port: Port) -> Self {
        Self { port, repeats: Repeats::default() }
    }

    /// Logs why a connection was refused. Every connection has a port of its own, so only the host tells repeats.
    pub(crate) fn refused(&mut self, from: Option<SocketAddr>, why: &str, now: Moment) {
        let from = from.map(|from| from.ip());
        let host = format!("{from:?}: ");
        // A host may give another reason at every connection: with another key, for example. Garbage has other numbers each time.
        let mut line = format!("{host}{}", without_numbers(why));
        if self.repeats.others_begin_with(&host, &line) >= HOST_LINES_MAX {
            line = format!("{host}another reason");
        }
        // And a network has more hosts than can be told apart.
        if !self.repeats.has_room_for(&line, now) {
            line = String::from("another host");
        }
        let Some(Admitted { left_out }) = self.repeats.admit(&line, now) else { return };
        let from = from.map(tracing::field::display);
        match self.port {
            Port::Peers => {
                tracing::warn!(from, why, left_out, "a connection to the peers' port was refused");
            }
            Port::Clients => tracing::info!(from, why, left_out, "an NBD client was disconnected"),
            Port::Control => {
                tracing::warn!(from, why, left_out, "a control connection was refused");
            }
        }
    }

    /// Logs that a client was refused an export because the maximum number of clients is connected.
    pub(crate) fn full(&mut self, clients: u32, now: Moment) {
        let Some(Admitted { left_out }) = self.repeats.admit("full", now) else { return };
        tracing::warn!(
            clients,
            left_out,
            "too many NBD clients; raise `clients` of the node, or disconnect some"
        );
    }

    /// Logs that the kernel could not give a connection. It is asked again every second.
    pub(crate) fn not_accepted(&mut self, why: &str, now: Moment) {
        let line = format!("not accepted: {why}");
        let Some(Admitted { left_out }) = self.repeats.admit(&line, now) else { return };
        let port = self.port;
        tracing::error!(
            ?port,
            why,
            left_out,
            "a connection could not be accepted; trying again every second"
        );
    }

    /// A connection of a host was accepted: its refusals are logged the next time.
    pub(crate) fn accepted(&mut self, from: Option<SocketAddr>) {
        let host = format!("{:?}: ", from.map(|from| from.ip()));
        self.repeats.lines.retain(|line| !line.text.starts_with(&host));
    }
}

/// One line that was logged.
#[derive(Debug)]
struct Logged {
    text: String,
    logged: Moment,
    left_out: u64,
}

/// A line that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Admitted {
    /// How often the same line was left out before, if it was.
    left_out: Option<u64>,
}

/// The lines of one log since something changed.
#[derive(Debug, Default)]
struct Repeats {
    lines: VecDeque<Logged>,
}

impl Repeats {
    /// Whether a line is logged now.
    fn admit(&mut self, text: &str, now: Moment) -> Option<Admitted> {
        let text = without_times(text);
        let Some(line) = self.lines.iter_mut().find(|line| line.text == text) else {
            if self.lines.len() == LINES_MAX {
                self.lines.pop_front();
            }
            self.lines.push_back(Logged { text, logged: now, left_out: 0 });
            return Some(Admitted { left_out: None });
        };
        if now - line.logged < AGAIN_AFTER {
            line.left_out += 1;
            return None;
        }
        line.logged = now;
        let left_out = std::mem::take(&mut line.left_out);
        Some(Admitted { left_out: (left_out > 0).then_some(left_out) })
    }

    /// Whether a line needs no place of one that was logged lately.
    fn has_room_for(&self, line: &str, now: Moment) -> bool {
        let line = without_times(line);
        let passed = |line: &Logged| now - line.logged >= AGAIN_AFTER;
        self.lines.len() < LINES_MAX
            || self.lines.iter().any(|it| it.text == line)
            || self.lines.front().is_some_and(passed)
    }

    /// How many lines begin with that, but for one.
    fn others_begin_with(&self, begin: &str, but: &str) -> usize {
        let but = without_times(but);
        let others = self.lines.iter().filter(|line| line.text != but);
        others.filter(|line| line.text.starts_with(begin)).count()
    }

    /// Something changed: every line is logged the next time.
    fn clear(&mut self) {
        self.lines.clear();
    }
}

/// A text without its times, such as 2.6 s in "no message for 2.6 s": they differ from line to line.
fn without_times(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let is_time = |at: usize| {
        let is_number = words[at].parse::<f64>().is_ok();
        is_number && words.get(at + 1).is_some_and(|unit| unit.trim_end_matches([',', ';']) == "s")
    };
    let kept = (0..words.len()).filter(|at| !is_time(*at)).map(|at| words[at]);
    kept.collect::<Vec<_>>().join(" ")
}

/// A text without its numbers, such as those in "the first byte is 0xf7" and "an option with 3738477127 bytes". A name may have digits.
fn without_numbers(text: &str) -> String {
    let is_number = |word: &&str| {
        let bare = word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
        bare.starts_with("0x") || (!bare.is_empty() && bare.bytes().all(|it| it.is_ascii_digit()))
    };
    text.split(' ').filter(|word| !is_number(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Option<Admitted> = Some(Admitted { left_out: None });

    #[test]
    fn a_line_that_repeats_is_logged_once_in_ten_minutes_with_the_number_left_out() {
        let mut repeats = Repeats::default();
        let at = |seconds| Moment::ZERO + Duration::from_secs(seconds);
        assert_eq!(repeats.admit("no message for 2.6 s", at(0)), FIRST);
        for second in [5, 10, 599] {
            assert_eq!(repeats.admit("no message for 2.7 s", at(second)), None);
        }
        assert_eq!(repeats.admit("no message from 10.0.0.1", at(599)), FIRST, "another line");
        assert_eq!(repeats.admit("1.5 MiB may be lost", at(599)), FIRST);
        assert_eq!(repeats.admit("2.5 MiB may be lost", at(599)), FIRST, "a quantity counts");
        assert_eq!(
            repeats.admit("no message for 2.6 s", at(600)),
            Some(Admitted { left_out: Some(3) })
        );
        repeats.clear();
        assert_eq!(repeats.admit("no message for 2.6 s", at(601)), FIRST, "something changed");
    }

    #[test]
    fn refused_connections_repeat_if_host_and_reason_are_the_same() {
        let (mut log, from) = (RefusalLog::new(Port::Peers), |text: &str| text.parse().ok());
        log.refused(from("192.0.2.1:40001"), "no hello", Moment::ZERO);
        log.refused(from("192.0.2.1:40002"), "no hello", Moment::ZERO);
        assert_eq!(log.repeats.lines.len(), 1, "another port of the same host");
        assert_eq!(log.repeats.lines[0].left_out, 1);
        log.refused(from("192.0.2.2:40001"), "no hello", Moment::ZERO);
        log.refused(from("192.0.2.1:40003"), "no group web", Moment::ZERO);
        assert_eq!(log.repeats.lines.len(), 3);
        log.accepted(from("192.0.2.1:40004"));
        assert_eq!(log.repeats.lines.len(), 1, "those of the other host are kept");
    }

    #[test]
    fn a_host_that_gives_another_reason_at_every_connection_does_not_fill_the_log() {
        let (mut log, from) = (RefusalLog::new(Port::Peers), "192.0.2.1:40001".parse().ok());
        for n in 0..100 {
            log.refused(from, &format!("no group g{n} on this node"), Moment::ZERO);
        }
        assert_eq!(log.repeats.lines.len(), HOST_LINES_MAX + 1);
        assert_eq!(log.repeats.lines[HOST_LINES_MAX].left_out, 99 - HOST_LINES_MAX as u64);
    }

    #[test]
    fn reasons_that_differ_in_a_number_are_one() {
        let (mut log, from) = (RefusalLog::new(Port::Clients), "192.0.2.1:40001".parse().ok());
        for n in 0..100 {
            log.refused(from, &format!("no TLS (its first byte is {n:#04x})"), Moment::ZERO);
            log.refused(from, &format!("an option ({n}) with {n} bytes"), Moment::ZERO);
        }
        assert_eq!(log.repeats.lines.len(), 2);
        assert!(log.repeats.lines.iter().all(|line| line.left_out == 99));
    }

    #[test]
    fn a_network_of_hosts_does_not_fill_the_log() {
        let mut log = RefusalLog::new(Port::Clients);
        let later = Moment::ZERO + AGAIN_AFTER;
        for n in 0..1000_u16 {
            let from = Some(SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 40001)));
            log.refused(from, "no NBD", Moment::ZERO);
        }
        let others = log.repeats.lines.back().expect("there are lines");
        assert_eq!(
            (others.text.as_str(), others.left_out),
            ("another host", 999 - LINES_MAX as u64)
        );
        assert!(log.repeats.has_room_for("192.0.2.1: no NBD", later), "ten minutes have passed");
    }

    #[test]
    fn as_many_lines_as_there_is_room_for_are_held() {
        let mut repeats = Repeats::default();
        for n in 0..=LINES_MAX {
            assert_eq!(repeats.admit(&format!("line {n}"), Moment::ZERO), FIRST);
        }
        assert_eq!(repeats.lines.len(), LINES_MAX);
        assert_eq!(repeats.admit("line 0", Moment::ZERO), FIRST, "the oldest made room");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Where the stories went: rows of the recovery table, states, standings, misfortunes, each with how often.
//!
//! What can happen is listed here and in the engine; what was seen beside the lists is told, so that a list cannot
//! grow stale unnoticed.

use crate::kinds::Kind;
use helio_recovery as recovery;
use helio_units::State;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// From a state to another, as one node shows them.
pub type Change = (&'static str, &'static str);

/// Every change of state that can happen while a process lives, as seen between two steps.
const STATES: &[(State, State)] = {
    use State::{
        CatchingUp as C, Logging as L, NeedsRoom as M, NeedsSync as N, Periodic as P, Queuing as Q,
        Replicating as R, Syncing as S,
    };
    &[
        (C, L),
        (C, M),
        (C, N),
        (C, P),
        (C, Q),
        (C, R),
        (C, S),
        (L, C),
        (L, M),
        (L, N),
        (L, P),
        (L, Q),
        (L, R),
        (L, S),
        (M, L),
        (M, N),
        (M, P),
        (M, S),
        (N, C),
        (N, L),
        (N, M),
        (N, P),
        (N, Q),
        (N, S),
        (P, C),
        (P, L),
        (P, M),
        (P, N),
        (P, Q),
        (P, R),
        (P, S),
        (Q, C),
        (Q, L),
        (Q, M),
        (Q, N),
        (Q, R),
        (Q, S),
        (R, C),
        (R, L),
        (R, N),
        (R, P),
        (R, Q),
        (R, S),
        (S, C),
        (S, L),
        (S, M),
        (S, N),
        (S, P),
        (S, Q),
        (S, R),
    ]
};

/// Every change of standing that can happen while a process lives, as seen between two steps.
const STANDINGS: &[Change] = &[
    ("accepting", "closing"),
    ("accepting", "returning"),
    ("accepting", "secondary"),
    ("asking", "closing"),
    ("asking", "promoting"),
    ("asking", "returning"),
    ("asking", "secondary"),
    ("handing", "closing"),
    ("handing", "promoting"),
    ("handing", "secondary"),
    ("leaving", "handing"),
    ("leaving", "primary"),
    ("leaving", "promoting"),
    ("leaving", "returning"),
    ("leaving", "secondary"),
    ("primary", "leaving"),
    ("promoting", "closing"),
    ("promoting", "leaving"),
    ("promoting", "primary"),
    ("promoting", "returning"),
    ("promoting", "secondary"),
    ("returning", "accepting"),
    ("returning", "asking"),
    ("returning", "closing"),
    ("returning", "promoting"),
    ("returning", "secondary"),
    ("secondary", "accepting"),
    ("secondary", "asking"),
    ("secondary", "closing"),
    ("secondary", "promoting"),
];

/// Changes of state or standing that take several misfortunes within one round trip, each with which. They are counted
/// and told, and no walk is asked for a number of them.
const SELDOM: &[(&str, &str)] = &[
    ("accepting -> closing", "the daemon is stopped while a suspect copy is written again"),
    ("promoting -> closing", "a stop waits for a promotion, whose record then cannot be written"),
    (
        "needs-sync -> queuing",
        "power fails at a secondary between its last item of an update and its record of it",
    ),
    (
        "queuing -> needs-room",
        "a primary without its own disk whose peer has no room hangs up, leaves, and drops its queue",
    ),
    (
        "queuing -> needs-sync",
        "a primary without its own disk leaves while neither node's metadata can be written",
    ),
    ("promoting -> closing", "a stop waits for a promotion, whose record then cannot be written"),
    ("replicating -> needs-sync", "the same, and its peer has just said that it has everything"),
];

/// How often a story went where.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    rows: BTreeMap<&'static str, u64>,
    states: BTreeMap<Change, u64>,
    standings: BTreeMap<Change, u64>,
    faults: BTreeMap<&'static str, u64>,
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// `row`, `state`, `standing` or `fault`.
    pub kind: &'static str,
    /// Which.
    pub name: String,
    /// How often.
    pub count: u64,
    /// The lists know it.
    pub listed: bool,
}

impl Coverage {
    /// Adds another story's.
    pub fn add(&mut self, other: &Self) {
        sum(&mut self.rows, &other.rows);
        sum(&mut self.states, &other.states);
        sum(&mut self.standings, &other.standings);
        sum(&mut self.faults, &other.faults);
    }

    /// How much went wrong.
    pub(crate) fn misfortunes(&self) -> u64 {
        self.faults.values().sum()
    }

    /// How often that happened.
    #[must_use]
    pub fn count(&self, fault: &str) -> u64 {
        self.faults.get(fault).copied().unwrap_or_default()
    }

    pub(crate) fn struck(&mut self, fault: &'static str) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub(crate) fn changed_state(&mut self, from: State, to: State) {
        *self.states.entry((from.word(), to.word())).or_default() += 1;
    }

    pub(crate) fn changed_standing(&mut self, from: &'static str, to: &'static str) {
        *self.standings.entry((from, to)).or_default() += 1;
    }

    /// A node says something; where two met, a row is counted.
    pub(crate) fn heard(&mut self, note: &str) {
        if note.starts_with("block-size: ") {
            self.struck("larger-blocks-refused");
        }
        if let Some(label) = row_of(note) {
            *self.rows.entry(label).or_default() += 1;
        }
    }

    /// What can happen, and what did: a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let mut lines = listed("row", recovery::labels(), &self.rows, |label| (*label).to_owned());
        let words = |(from, to): &Change| format!("{from} -> {to}");
        let states = STATES.iter().map(|(from, to)| (from.word(), to.word()));
        lines.extend(listed("state", states, &self.states, words));
        lines.extend(listed("standing", STANDINGS.iter().copied(), &self.standings, words));
        let faults = Kind::common().flat_map(|kind| kind.labels().iter().copied());
        let faults = faults.chain(crate::faulty_peer::LABELS).chain(crate::sets::LABELS);
        lines.extend(listed("fault", faults, &self.faults, |label| (*label).to_owned()));
        lines
    }

    /// What can happen and did so fewer than `least` times, and what happened and is in no list.
    #[must_use]
    pub fn shortfall(&self, least: u64) -> Vec<Line> {
        let seldom = |line: &Line| SELDOM.iter().any(|(name, _)| *name == line.name);
        let short = |line: &Line| !line.listed || (line.count < least && !seldom(line));
        self.lines().into_iter().filter(short).collect()
    }

    /// The report as JSON: an object per kind, with a count per name.
    #[must_use]
    pub fn json(&self) -> String {
        let mut json = String::new();
        let mut kind = "";
        for line in self.lines() {
            let opening = match (kind == line.kind, kind.is_empty()) {
                (true, _) => ",",
                (false, true) => "{",
                (false, false) => "},",
            };
            if kind != line.kind {
                let _never = write!(json, "{opening}\"{}\":{{", line.kind);
            } else {
                json += opening;
            }
            kind = line.kind;
            let _never = write!(json, "\"{}\":{}", line.name, line.count);
        }
        json + "}}"
    }
}

impl core::fmt::Display for Line {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let unlisted = if self.listed { "" } else { "  (in no list)" };
        write!(f, "{:>9} {:<44} {:>9}{unlisted}", self.kind, self.name, self.count)
    }
}

/// The row of the recovery table that fired, in what a node says where two met: as which they connected, or by which one refused the
/// other.
pub(crate) fn row_of(note: &str) -> Option<&'static str> {
    recovery::labels().find(|label| {
        note.strip_prefix(label).is_some_and(|rest| rest.starts_with(": "))
            || note.strip_suffix(label).is_some_and(|rest| rest.ends_with(" connected as "))
    })
}

fn sum<K: Ord + Copy>(into: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, count) in from {
        *into.entry(*key).or_default() += count;
    }
}

fn listed<K: Ord + Copy>(
    kind: &'static str,
    known: impl Iterator<Item = K>,
    seen: &BTreeMap<K, u64>,
    name: impl Fn(&K) -> String,
) -> Vec<Line> {
    let mut all: BTreeMap<K, bool> = seen.keys().map(|key| (*key, false)).collect();
    all.extend(known.map(|key| (key, true)));
    let line = |(key, listed)| {
        let count = seen.get(&key).copied().unwrap_or_default();
        Line { kind, name: name(&key), count, listed }
    };
    all.into_iter().map(line).collect()
}

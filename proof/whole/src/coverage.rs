// SPDX-License-Identifier: Apache-2.0
//! What met what: how often a fault was in effect, or struck, while a request waited for its response, and while a role changed.
//!
//! Requests are those of clients and the orders of the operator. Those that no walk has to meet are in [`SELDOM`].

use crate::client::{BREAK_OFF, LABELS};
use crate::pair::{Luck, Order};
use std::collections::BTreeMap;
use std::fmt;

/// A change of roles, or of what runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// The peer agrees, or is not needed.
    Promote,
    /// Although the peer does not agree.
    ForcePromote,
    Demote,
    Switch,
    /// A node becomes primary while the daemon of the one that clients used does not run.
    Failover,
    /// A daemon starts.
    Start,
    /// A daemon stops, until it ends cleanly.
    Stop,
}

impl Change {
    /// Every kind.
    pub(crate) const ALL: [Self; 7] = [
        Self::Promote,
        Self::ForcePromote,
        Self::Demote,
        Self::Switch,
        Self::Failover,
        Self::Start,
        Self::Stop,
    ];
}

/// What a fault meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Met {
    /// A request of a client, of `LABELS`.
    Client(&'static str),
    Order(Order),
    Change(Change),
}

impl Met {
    fn all() -> impl Iterator<Item = Self> {
        let clients = LABELS.into_iter().map(Self::Client);
        let orders = Order::ALL.into_iter().map(Self::Order);
        clients.chain(orders).chain(Change::ALL.into_iter().map(Self::Change))
    }
}

impl fmt::Display for Met {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(label) => write!(f, "request {label}"),
            Self::Order(order) => write!(f, "order {order:?}"),
            Self::Change(change) => write!(f, "change {change:?}"),
        }
    }
}

/// Pairs that take several accidents at one moment, each with the reason: no number of them is required. None is impossible.
const SELDOM: &[(Met, Luck, &str)] = &[
    (Met::Change(Change::Promote), Luck::Kill, CONSENT),
    (Met::Change(Change::Promote), Luck::PowerCut, CONSENT),
    (Met::Change(Change::Switch), Luck::Kill, BOTH),
    (Met::Change(Change::Switch), Luck::PowerCut, BOTH),
    (Met::Change(Change::Switch), Luck::Cut, BOTH),
    (Met::Change(Change::Switch), Luck::Reset, BOTH),
    (Met::Change(Change::Switch), Luck::CutWay, BOTH),
    (Met::Change(Change::Promote), Luck::Reset, CONSENT),
    (Met::Change(Change::Promote), Luck::CutWay, CONSENT),
    (Met::Client(BREAK_OFF), Luck::Reset, NO_WAIT),
    (Met::Client(BREAK_OFF), Luck::Calendar, NO_WAIT),
    (Met::Client(BREAK_OFF), Luck::Devices, NO_WAIT),
    (Met::Order(Order::SpoilFile), Luck::Reset, AT_ONCE),
    (Met::Order(Order::SpoilFile), Luck::Calendar, AT_ONCE),
    (Met::Order(Order::SpoilFile), Luck::Devices, AT_ONCE),
];
const CONSENT: &str = "the peer has to agree, so this would strike between that and the response";
const BOTH: &str = "both nodes and the link are needed, so it would strike between the last message and the response";
const AT_ONCE: &str = "the response to a file that is invalid takes no time, and this strikes once";
const NO_WAIT: &str = "a client that breaks off waits for nothing, and this strikes once";

fn is_seldom(met: Met, luck: Luck) -> bool {
    SELDOM.iter().any(|(a, b, _)| (*a, *b) == (met, luck))
}

/// A set of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lucks(u64);

impl Lucks {
    pub(crate) fn add(&mut self, luck: Luck) {
        self.0 |= 1 << luck as u64;
    }

    fn each(self) -> impl Iterator<Item = Luck> {
        Luck::ALL.into_iter().filter(move |luck| self.0 >> *luck as u64 & 1 == 1)
    }
}

impl FromIterator<Luck> for Lucks {
    fn from_iter<I: IntoIterator<Item = Luck>>(all: I) -> Self {
        let mut lucks = Self::default();
        all.into_iter().for_each(|luck| lucks.add(luck));
        lucks
    }
}

/// How often each pair was met.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    pairs: BTreeMap<(Met, Luck), u64>,
}

/// One line of the report.
#[derive(Clone, Debug)]
pub struct Line {
    met: Met,
    luck: Luck,
    count: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { met, luck, count } = self;
        let pair = format!("{met} x {luck:?}");
        let seldom = if is_seldom(*met, *luck) { "  (seldom)" } else { "" };
        write!(f, "{pair:<48} {count:>9}{seldom}")
    }
}

impl Coverage {
    /// Adds another story's.
    pub fn add(&mut self, other: &Self) {
        for (pair, count) in &other.pairs {
            *self.pairs.entry(*pair).or_default() += count;
        }
    }

    pub(crate) fn met(&mut self, met: Met, lucks: Lucks) {
        for luck in lucks.each() {
            *self.pairs.entry((met, luck)).or_default() += 1;
        }
    }

    /// Every pair: a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let all = Met::all().flat_map(|met| Luck::ALL.into_iter().map(move |luck| (met, luck)));
        let count = |pair| self.pairs.get(&pair).copied().unwrap_or_default();
        all.map(|(met, luck)| Line { met, luck, count: count((met, luck)) }).collect()
    }

    /// Pairs that are not seldom and were met fewer than `least` times.
    #[must_use]
    pub fn shortfall(&self, least: u64) -> Vec<Line> {
        let short = |line: &Line| line.count < least && !is_seldom(line.met, line.luck);
        self.lines().into_iter().filter(short).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Met = Met::Client("read");

    fn met(pairs: &[(Met, Luck)]) -> Coverage {
        let mut coverage = Coverage::default();
        pairs.iter().for_each(|(met, luck)| coverage.met(*met, [*luck].into_iter().collect()));
        coverage
    }

    #[test]
    fn every_pair_is_required_but_for_those_that_are_listed() {
        let pairs = (LABELS.len() + Order::ALL.len() + Change::ALL.len()) * Luck::ALL.len();
        let nothing = Coverage::default();
        assert_eq!(nothing.lines().len(), pairs);
        assert_eq!(nothing.shortfall(1).len(), pairs - SELDOM.len(), "each is listed once");
    }

    #[test]
    fn counts_of_stories_add_up() {
        let mut all = met(&[(READ, Luck::Cut)]);
        let is_short = |all: &Coverage| {
            all.shortfall(2).iter().any(|line| (line.met, line.luck) == (READ, Luck::Cut))
        };
        assert!(is_short(&all));
        all.add(&met(&[(READ, Luck::Cut)]));
        assert!(!is_short(&all));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What met what: how often a fault was in effect, or struck, while a request waited for its response, and while a role changed.
//!
//! Requests are those of clients and the orders of the operator. Every pair can be met, but for those in [`SELDOM`].

use crate::client::LABELS;
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

/// How seldom a pair is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rarity {
    /// It takes several accidents at one moment: no number of them is required.
    Seldom,
    /// It cannot be: a walk that requires something fails if it happens.
    Impossible,
}

/// Pairs that are seldom or cannot be, each with the reason. No fault stands for each one.
const SELDOM: &[(Met, Option<Luck>, Rarity, &str)] = &[];

fn rarity(met: Met, luck: Luck) -> Option<Rarity> {
    let found = SELDOM.iter().find(|(a, b, ..)| *a == met && b.is_none_or(|b| b == luck));
    found.map(|(.., rarity, _)| *rarity)
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
        let rarity = rarity(*met, *luck).map(|rarity| format!("  ({rarity:?})"));
        write!(f, "{pair:<48} {count:>9}{}", rarity.unwrap_or_default())
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
        let short = |line: &Line| line.count < least && rarity(line.met, line.luck).is_none();
        self.lines().into_iter().filter(short).collect()
    }

    /// Pairs that are listed as impossible, and were met.
    pub fn impossible(&self) -> impl Iterator<Item = String> {
        let listed =
            |line: &Line| line.count > 0 && rarity(line.met, line.luck) == Some(Rarity::Impossible);
        let lines = self.lines().into_iter().filter(listed);
        lines.map(|line| format!("{} x {:?}", line.met, line.luck))
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
        let listed = Coverage::default().lines().len() - Coverage::default().shortfall(1).len();
        assert_eq!(Coverage::default().lines().len(), pairs);
        let listed_for = |(.., luck, _, _): &(Met, Option<Luck>, Rarity, &str)| match luck {
            Some(_) => 1,
            None => Luck::ALL.len(),
        };
        assert_eq!(listed, SELDOM.iter().map(listed_for).sum::<usize>(), "each is listed once");
        assert!(SELDOM.iter().all(|(.., why)| !why.is_empty()));
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

    #[test]
    fn what_cannot_be_is_reported_if_it_happens() {
        let cannot =
            |(.., rarity, _): &&(Met, Option<Luck>, Rarity, &str)| *rarity == Rarity::Impossible;
        for (met_by, luck, ..) in SELDOM.iter().filter(cannot) {
            let luck = luck.unwrap_or(Luck::Kill);
            assert_eq!(met(&[(*met_by, luck)]).impossible().count(), 1);
        }
        assert_eq!(met(&[(READ, Luck::Cut)]).impossible().count(), 0);
    }
}

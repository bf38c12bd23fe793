// SPDX-License-Identifier: Apache-2.0
//! The groups of a status as rows, and their order.

use super::history::{History, Series, Track, fill};
use crate::render;
use helio_api::{FailedGroup, GroupStatus, Status};
use helio_units::Role;
use std::cmp::Reverse;

/// By what the groups are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// The worst first.
    #[default]
    Verdict,
    Name,
    /// The fastest first.
    Rate,
    /// The largest first.
    Lag,
    /// The fullest first.
    Queue,
}

impl Sort {
    pub(crate) const fn next(self) -> Self {
        match self {
            Self::Verdict => Self::Name,
            Self::Name => Self::Rate,
            Self::Rate => Self::Lag,
            Self::Lag => Self::Queue,
            Self::Queue => Self::Verdict,
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Verdict => "verdict",
            Self::Name => "name",
            Self::Rate => "rate",
            Self::Lag => "lag",
            Self::Queue => "queue",
        }
    }
}

/// A group that is served, or not.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Row<'a> {
    Served(&'a GroupStatus),
    Failed(&'a FailedGroup),
}

impl<'a> Row<'a> {
    /// All groups of a status in an order.
    pub(crate) fn sorted(
        status: &'a Status,
        history: &History,
        sort: Sort,
        reversed: bool,
    ) -> Vec<Self> {
        let failed = status.failed.iter().map(Self::Failed);
        let mut rows: Vec<Self> = failed.chain(status.groups.iter().map(Self::Served)).collect();
        rows.sort_by_key(|row| row.name());
        let measure = |row: &Self| match (row, sort) {
            (Self::Failed(_), _) => u64::MAX,
            (Self::Served(g), Sort::Rate) => {
                history.of(&g.name).map_or(0, |track| rate(g, track).last())
            }
            (Self::Served(g), Sort::Lag) => g.lag.bytes.0,
            (Self::Served(g), Sort::Queue) => fill(g),
            (Self::Served(_), Sort::Verdict | Sort::Name) => 0,
        };
        match sort {
            Sort::Name => {}
            Sort::Verdict => rows.sort_by_key(|row| match row {
                Self::Failed(_) => None,
                Self::Served(g) => Some(g.verdict.word),
            }),
            Sort::Rate | Sort::Lag | Sort::Queue => rows.sort_by_key(|row| Reverse(measure(row))),
        }
        if reversed {
            rows.reverse();
        }
        rows
    }

    pub(crate) fn name(&self) -> &'a str {
        match self {
            Self::Served(group) => &group.name,
            Self::Failed(failed) => &failed.name,
        }
    }

    /// The verdict for people.
    pub(crate) fn title(&self) -> &'static str {
        match self {
            Self::Served(group) => render::title(group.verdict.word),
            Self::Failed(_) => "NOT SERVED",
        }
    }
}

/// What clients write on a primary; on a secondary, what it receives. In bytes per second.
pub(crate) fn rate<'a>(g: &GroupStatus, track: &'a Track) -> &'a Series {
    match g.role {
        Role::Primary => track.written(),
        Role::Secondary => track.received(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn groups_are_sorted_by_each_measure_and_reversed() {
        let status = sample::three();
        let order = |sort, reversed| {
            let rows = Row::sorted(&status, &History::default(), sort, reversed);
            rows.iter().map(Row::name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(order(Sort::Verdict, false), "db web mail");
        assert_eq!(order(Sort::Name, false), "db mail web");
        assert_eq!(order(Sort::Name, true), "web mail db");
        assert_eq!(order(Sort::Lag, false), "web db mail");
        let mut sort = Sort::default();
        for _ in 0..5 {
            sort = sort.next();
        }
        assert_eq!(sort, Sort::default());
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The requests that a client is to make: those of a script, and again those that lost their connection.

use super::workload::Plan;
use helio_units::Moment;
use std::collections::VecDeque;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// In the order of their moments. Those that are made again have the first moment of all.
    plans: VecDeque<(Moment, Plan)>,
    /// The client makes no others.
    scripted: bool,
}

impl Due {
    /// What a script has, in the order of its moments.
    pub(super) fn of_script(plans: VecDeque<(Moment, Plan)>) -> Self {
        Self { plans, scripted: true }
    }

    /// These got no response, and are made again.
    pub(super) fn again(&mut self, unanswered: Vec<Plan>) {
        let at = self.plans.partition_point(|(at, _)| *at == Moment::ZERO);
        let later = self.plans.split_off(at);
        self.plans.extend(unanswered.into_iter().map(|plan| (Moment::ZERO, plan)));
        self.plans.extend(later);
    }

    /// None is made any more.
    pub(super) fn clear(&mut self) {
        self.plans.clear();
    }

    /// Takes the first one.
    pub(super) fn take(&mut self) -> Option<Plan> {
        self.plans.pop_front().map(|(_, plan)| plan)
    }

    /// How many of a script are left.
    pub(super) fn left(&self) -> Option<usize> {
        self.scripted.then_some(self.plans.len())
    }

    /// When the next request is made: at the moment that a script says, otherwise at the one that was drawn.
    pub(super) fn next(&self, drawn: Moment) -> Moment {
        let first = self.plans.front().filter(|_| self.scripted);
        first.map_or(drawn, |(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::Kind;
    use super::*;
    use helio_units::Extent;

    fn read(offset: u64) -> Plan {
        Plan { kind: Kind::Read, extent: Extent::new(offset, 512), fua: false }
    }

    #[test]
    fn unanswered_requests_come_before_those_whose_moment_comes_later() {
        let mut due = Due::of_script([(Moment(5), read(0)), (Moment(9), read(512))].into());
        assert_eq!((due.left(), due.next(Moment(1))), (Some(2), Moment(5)));
        let first = due.take().expect("two are due");
        due.again(vec![first]);
        due.again(vec![read(1024)]);
        assert_eq!((due.left(), due.next(Moment(1))), (Some(3), Moment::ZERO));
        let taken: Vec<u64> =
            std::iter::from_fn(|| due.take()).map(|it| it.extent.offset).collect();
        assert_eq!(taken, [0, 1024, 512]);
    }

    #[test]
    fn without_a_script_what_was_drawn_counts() {
        let mut due = Due::default();
        due.again(vec![read(0)]);
        assert_eq!((due.left(), due.next(Moment(7))), (None, Moment(7)));
        assert_eq!(due.take(), Some(read(0)));
        assert_eq!(due.take(), None);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Which groups have something to do: those something happened to, and those whose time has come.
//!
//! A turn looks at no other, so a thousand quiet groups cost a busy one only a walk over their moments, which lie side
//! by side: 8 KB, less than a microsecond.

use helio_units::Moment;

/// One for all groups of a shard.
#[derive(Debug)]
pub(crate) struct Rota {
    /// When each group has something to do although nothing happens.
    due: Vec<Moment>,
    stirred: Vec<bool>,
    /// Those of which `stirred` says so, in the order it happened.
    list: Vec<usize>,
}

impl Rota {
    /// Every group begins with something to do.
    pub(crate) fn new(groups: usize) -> Self {
        Self {
            due: vec![Moment::NEVER; groups],
            stirred: vec![true; groups],
            list: (0..groups).collect(),
        }
    }

    /// One group more; it begins with something to do.
    pub(crate) fn add(&mut self) {
        self.due.push(Moment::NEVER);
        self.stirred.push(false);
        self.stir(self.due.len() - 1);
    }

    /// Something happened to a group.
    pub(crate) fn stir(&mut self, group: usize) {
        if !std::mem::replace(&mut self.stirred[group], true) {
            self.list.push(group);
        }
    }

    /// The groups to look at now, each once.
    pub(crate) fn take(&mut self, now: Moment) -> Vec<usize> {
        for group in 0..self.due.len() {
            if now >= self.due[group] {
                self.stir(group);
            }
        }
        for group in &self.list {
            self.stirred[*group] = false;
        }
        std::mem::take(&mut self.list)
    }

    /// A group was looked at; this is when it must be again.
    pub(crate) fn looked_at(&mut self, group: usize, due: Moment) {
        self.due[group] = due;
    }

    /// Gives the list of [`Rota::take`] back for its memory.
    pub(crate) fn give_back(&mut self, mut list: Vec<usize>) {
        if self.list.is_empty() {
            list.clear();
            self.list = list;
        }
    }

    /// When the next look is due: at once where something happened since the last.
    pub(crate) fn deadline(&self) -> Moment {
        if !self.list.is_empty() {
            return Moment::ZERO;
        }
        self.due.iter().copied().min().unwrap_or(Moment::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn only_the_stirred_and_the_due_are_looked_at() {
        let mut rota = Rota::new(4);
        assert_eq!(rota.take(at(0)), [0, 1, 2, 3], "all at first");
        for (group, due) in [(0, at(5)), (1, at(9)), (2, Moment::NEVER), (3, at(7))] {
            rota.looked_at(group, due);
        }
        assert_eq!((rota.deadline(), rota.take(at(4))), (at(5), Vec::new()));
        rota.stir(2);
        rota.stir(2);
        rota.stir(0);
        assert_eq!(rota.deadline(), Moment::ZERO);
        assert_eq!(rota.take(at(7)), [2, 0, 3], "each once, and one whose time has come");
        rota.looked_at(0, at(20));
        rota.looked_at(3, Moment::NEVER);
        assert_eq!((rota.deadline(), rota.take(at(8))), (at(9), Vec::new()));
    }

    #[test]
    fn a_group_that_comes_is_looked_at() {
        let mut rota = Rota::new(1);
        rota.take(at(0));
        rota.add();
        assert_eq!((rota.deadline(), rota.take(at(0))), (Moment::ZERO, vec![1]));
    }

    #[test]
    fn a_group_stirred_while_it_is_looked_at_is_looked_at_again() {
        let mut rota = Rota::new(1);
        let list = rota.take(at(0));
        rota.stir(0);
        rota.give_back(list);
        rota.looked_at(0, Moment::NEVER);
        assert_eq!((rota.deadline(), rota.take(at(0))), (Moment::ZERO, vec![0]));
    }
}

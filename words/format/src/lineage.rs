// SPDX-License-Identifier: Apache-2.0
//! Where an image comes from: its generation, and the generations that one forked from.
//!
//! On disk and wire: generation (number u64, tag u64), count u8, then per ancestor, newest first, its generation
//! and the last position of it that the next newer one contains (u64). Valid if and only if the count is at most
//! [`ANCESTORS_MAX`], and every number and position is below 2^63.

use crate::cursor::{Reader, Short, Writer};
use helio_units::{Generation, Sequence};

/// Ancestors remembered. A node further behind than this many forks is not recognised any more and is refused
/// as unrelated; every fork is an operator's act or a crash, so sixteen is months.
pub const ANCESTORS_MAX: usize = 16;

/// A generation and how much of it its successor contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ancestor {
    /// Which generation.
    pub generation: Generation,
    /// Its last position that the successor contains.
    pub fork: Sequence,
}

/// A generation with its ancestors, newest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The generation written or followed.
    pub generation: Generation,
    count: u8,
    ancestors: [Ancestor; ANCESTORS_MAX],
}

/// How one lineage stands to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The other never took part.
    New,
    /// The same generation.
    Same,
    /// The other is this one's parent, forked at that position.
    Parent(Sequence),
    /// The other is an older ancestor, forked at that position.
    Older(Sequence),
    /// This one is an ancestor of the other, which forked at that position.
    Descendant(Sequence),
    /// Both forked from the same generation, and neither contains the other: up to that position both hold the same.
    Sibling(Sequence),
    /// They never shared a history.
    Unrelated,
}

impl Lineage {
    /// Ancestors, newest first.
    #[must_use]
    pub fn ancestors(&self) -> &[Ancestor] {
        &self.ancestors[..usize::from(self.count)]
    }

    /// The lineage of a generation that forks from this one at `fork`. The oldest ancestor is forgotten beyond
    /// [`ANCESTORS_MAX`]; a node that never took part leaves no ancestor.
    #[must_use]
    pub fn fork(&self, generation: Generation, fork: Sequence) -> Self {
        let mut child = Self { generation, ..Self::default() };
        if self.generation != Generation::NONE {
            let kept = usize::from(self.count).min(ANCESTORS_MAX - 1);
            child.ancestors[0] = Ancestor { generation: self.generation, fork };
            child.ancestors[1..=kept].copy_from_slice(&self.ancestors[..kept]);
            child.count = kept as u8 + 1;
        }
        child
    }

    /// The lineage of one of its generations: itself, or what an ancestor's was, as far as it is remembered.
    #[must_use]
    pub fn back_to(&self, generation: Generation) -> Option<Self> {
        if generation == self.generation {
            return Some(*self);
        }
        let (at, _) = self.fork_of(generation)?;
        let older = &self.ancestors()[at + 1..];
        let mut lineage = Self { generation, count: older.len() as u8, ..Self::default() };
        lineage.ancestors[..older.len()].copy_from_slice(older);
        Some(lineage)
    }

    /// Whether it has no room for another ancestor: older ones may have been forgotten.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.ancestors().len() == self.ancestors.len()
    }

    /// The last position of an ancestor that this lineage contains.
    #[must_use]
    pub fn fork_from(&self, ancestor: Generation) -> Option<Sequence> {
        self.fork_of(ancestor).map(|(_, fork)| fork)
    }

    fn fork_of(&self, generation: Generation) -> Option<(usize, Sequence)> {
        let at = self.ancestors().iter().position(|a| a.generation == generation)?;
        Some((at, self.ancestors[at].fork))
    }

    /// How `other` stands to this one.
    #[must_use]
    pub fn relation_of(&self, other: &Self) -> Relation {
        if other.generation == Generation::NONE {
            Relation::New
        } else if other.generation == self.generation {
            Relation::Same
        } else if let Some((at, fork)) = self.fork_of(other.generation) {
            if at == 0 { Relation::Parent(fork) } else { Relation::Older(fork) }
        } else if let Some((_, fork)) = other.fork_of(self.generation) {
            Relation::Descendant(fork)
        } else {
            let parted = |own: &Ancestor| Some(own.fork.min(other.fork_from(own.generation)?));
            self.ancestors().iter().find_map(parted).map_or(Relation::Unrelated, Relation::Sibling)
        }
    }

    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        w.generation(self.generation);
        w.u8(self.count);
        for ancestor in self.ancestors() {
            w.generation(ancestor.generation);
            w.sequence(ancestor.fork);
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, Short> {
        let mut lineage = Self { generation: r.generation()?, count: r.u8()?, ..Self::default() };
        let count = usize::from(lineage.count);
        for ancestor in lineage.ancestors.get_mut(..count).ok_or(Short)? {
            *ancestor = Ancestor { generation: r.generation()?, fork: r.sequence()? };
        }
        Ok(lineage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(number: u64) -> Generation {
        Generation { number, tag: number * 7 }
    }

    #[test]
    fn relations_are_told_from_both_sides() {
        let none = Lineage::default();
        let first = none.fork(generation(1), Sequence(0));
        let second = first.fork(generation(2), Sequence(10));
        let third = second.fork(generation(3), Sequence(20));
        let rival = first.fork(Generation { number: 2, tag: 99 }, Sequence(8));
        assert!(first.ancestors().is_empty(), "a node that never took part is nobody's ancestor");
        assert_eq!(third.back_to(generation(2)), Some(second));
        assert_eq!(third.back_to(generation(3)), Some(third));
        assert_eq!(third.back_to(generation(9)), None);
        assert_eq!(third.relation_of(&none), Relation::New);
        assert_eq!(third.relation_of(&third), Relation::Same);
        assert_eq!(third.relation_of(&second), Relation::Parent(Sequence(20)));
        assert_eq!(third.relation_of(&first), Relation::Older(Sequence(10)));
        assert_eq!(first.relation_of(&third), Relation::Descendant(Sequence(10)));
        assert_eq!(third.relation_of(&rival), Relation::Sibling(Sequence(8)));
        assert_eq!(rival.relation_of(&third), Relation::Sibling(Sequence(8)));
        let stranger = none.fork(Generation { number: 1, tag: 5 }, Sequence(0));
        assert_eq!(third.relation_of(&stranger), Relation::Unrelated);
    }

    #[test]
    fn the_oldest_ancestor_is_forgotten_and_never_an_overflow() {
        let mut lineage = Lineage::default();
        for n in 1..=40 {
            lineage = lineage.fork(generation(n), Sequence(n));
        }
        assert_eq!(lineage.ancestors().len(), ANCESTORS_MAX);
        assert_eq!(lineage.ancestors()[0].generation, generation(39));
        assert_eq!(lineage.ancestors()[15].generation, generation(24));
    }
}

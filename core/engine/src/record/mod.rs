// SPDX-License-Identifier: Apache-2.0
//! What is durable before what: the superblock, pages of the bitmap, hot extents.

pub(crate) mod ages;
pub(crate) mod keep;
pub(crate) mod save;

use alloc::collections::VecDeque;
use helio_format::superblock::Superblock;
use keep::Keeping;
use save::Goal;

/// What this node has on record, and what it is about to record.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Drawn anew at every start of the process.
    incarnation: u64,
    /// What is durable.
    superblock: Superblock,
    saving: Option<(Goal, Superblock)>,
    to_save: VecDeque<Goal>,
    keeping: Keeping,
}

impl Record {
    /// As the last process left it.
    pub(crate) fn starting(superblock: Superblock, keeping: Keeping, incarnation: u64) -> Self {
        Self { incarnation, superblock, saving: None, to_save: VecDeque::new(), keeping }
    }

    pub(crate) const fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// What is durable.
    #[inline]
    pub(crate) const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    #[cfg(test)]
    pub(crate) fn superblock_mut(&mut self) -> &mut Superblock {
        &mut self.superblock
    }

    #[cfg(test)]
    pub(crate) fn saving(&self) -> Option<Goal> {
        self.saving.as_ref().map(|(goal, _)| *goal)
    }

    #[inline]
    pub(crate) const fn keeping(&self) -> &Keeping {
        &self.keeping
    }

    pub(crate) fn keeping_mut(&mut self) -> &mut Keeping {
        &mut self.keeping
    }

    /// What was not begun is not recorded any more.
    pub(crate) fn want_nothing(&mut self) {
        self.to_save.clear();
    }

    /// A superblock is on its way, or waits for its turn.
    #[inline]
    pub(crate) fn is_saving(&self) -> bool {
        self.saving.is_some() || !self.to_save.is_empty()
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What is durable before what: the superblock, pages of the bitmap, hot extents.

pub(crate) mod ages;
pub(crate) mod invalid;
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

    /// The age of the metadata that this node reports. A new node reports 0, however often its file was changed: the peer may have a
    /// lost metadata file on record, and must not take the new one for it.
    pub(crate) fn reported_age(&self) -> u64 {
        if self.superblock.is_new() { 0 } else { self.keeping.ages().age() }
    }

    /// Pings are exchanged with the peer. Returns the age that they report.
    pub(crate) fn report_age(&mut self) -> u64 {
        if !self.superblock.is_new() {
            self.keeping.ages_mut().agree();
        }
        self.reported_age()
    }

    /// Asks for a record, behind those asked for before.
    pub(crate) fn want(&mut self, goal: Goal) {
        self.to_save.push_back(goal);
    }

    /// Whether such a record is on its way, or waits for its turn.
    pub(crate) fn wants(&self, such: impl FnMut(&Goal) -> bool) -> bool {
        self.saving.iter().map(|(goal, _)| goal).chain(&self.to_save).any(such)
    }

    /// The record that is to be made next, unless one is on its way.
    #[inline]
    pub(crate) fn next_goal(&mut self) -> Option<Goal> {
        if self.to_save.is_empty() || self.saving.is_some() {
            None
        } else {
            self.to_save.pop_front()
        }
    }

    /// A superblock is on its way.
    pub(crate) fn begin(&mut self, goal: Goal, superblock: Superblock) {
        self.saving = Some((goal, superblock));
    }

    /// It has ended, either way.
    pub(crate) fn end(&mut self) -> Option<(Goal, Superblock)> {
        self.saving.take()
    }

    /// It is durable.
    pub(crate) fn saved(&mut self, superblock: Superblock) {
        self.keeping.ages_mut().recorded(superblock.reported);
        self.superblock = superblock;
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

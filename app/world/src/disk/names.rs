// SPDX-License-Identifier: Apache-2.0
//! The names in the folders of a disk. A change of names is durable once its folder is flushed; of the other changes a power cut
//! leaves the first few.

use helio_netmodel::Dice;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

/// The number of a file or folder on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Inode(pub(crate) u64);

/// A name in a folder.
type Name = (Inode, OsString);

/// What names stand for.
#[derive(Clone, Debug, Default)]
struct Table(BTreeMap<Name, Inode>);

impl Table {
    fn apply(&mut self, change: &[(Name, Option<Inode>)]) {
        for (name, inode) in change {
            match inode {
                Some(inode) => self.0.insert(name.clone(), *inode),
                None => self.0.remove(name),
            };
        }
    }
}

/// Names that a change gives to files and folders, or takes away. All of it happens at once.
type Changes = Vec<(Name, Option<Inode>)>;

/// All names of a disk.
#[derive(Debug, Default)]
pub(crate) struct Names {
    now: Table,
    /// The files and folders that have one.
    named: BTreeSet<Inode>,
    durable: Table,
    /// Changes that are not durable, in order.
    later: Vec<Changes>,
}

impl Names {
    /// What a name stands for.
    pub(crate) fn find(&self, folder: Inode, name: &OsStr) -> Option<Inode> {
        self.now.0.get(&(folder, name.to_owned())).copied()
    }

    /// The names in a folder.
    pub(crate) fn list(&self, folder: Inode) -> Vec<OsString> {
        let all = self.now.0.range((folder, OsString::new())..);
        let here = all.take_while(|((parent, _), _)| *parent == folder);
        here.map(|((_, name), _)| name.clone()).collect()
    }

    /// Whether a file or folder has a name.
    pub(crate) fn is_named(&self, inode: Inode) -> bool {
        self.named.contains(&inode)
    }

    /// Whether a file or folder may have a name after a power cut.
    pub(crate) fn may_return(&self, inode: Inode) -> bool {
        let given = |change: &Changes| change.iter().any(|(_, other)| *other == Some(inode));
        self.durable.0.values().any(|other| *other == inode) || self.later.iter().any(given)
    }

    /// Changes names.
    pub(crate) fn change(&mut self, changes: Changes) {
        self.now.apply(&changes);
        self.later.push(changes);
        self.note_named();
    }

    fn note_named(&mut self) {
        self.named = self.now.0.values().copied().collect();
    }

    /// Makes the names in a folder durable, with the earlier changes that they need.
    pub(crate) fn flush(&mut self, folder: Inode) {
        let mut needed: BTreeSet<Name> = BTreeSet::new();
        let mut chosen = vec![false; self.later.len()];
        for (changes, chosen) in self.later.iter().zip(&mut chosen).rev() {
            let concerns = |(name, inode): &(Name, Option<Inode>)| {
                name.0 == folder || needed.contains(name) || *inode == Some(folder)
            };
            if changes.iter().any(concerns) {
                *chosen = true;
                needed.extend(changes.iter().map(|(name, _)| name.clone()));
            }
        }
        let (ended, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.later)
            .into_iter()
            .zip(chosen)
            .partition(|(_, chosen)| *chosen);
        ended.iter().for_each(|(changes, _)| self.durable.apply(changes));
        self.later = later.into_iter().map(|(changes, _)| changes).collect();
    }

    /// The power is cut. Returns how many changes were lost.
    pub(crate) fn cut(&mut self, dice: &mut Dice) -> usize {
        let left = dice.below(self.later.len() as u64 + 1) as usize;
        let lost = self.later.len() - left;
        self.later.drain(..).take(left).for_each(|changes| self.durable.apply(&changes));
        self.now = self.durable.clone();
        self.note_named();
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: Inode = Inode(1);
    const OTHER: Inode = Inode(2);

    fn name(folder: Inode, name: &str) -> Name {
        (folder, name.into())
    }

    fn find(names: &Names, folder: Inode, name: &str) -> Option<u64> {
        names.find(folder, OsStr::new(name)).map(|inode| inode.0)
    }

    #[test]
    fn a_power_cut_leaves_a_prefix_of_what_was_not_flushed() {
        let mut seen = BTreeSet::new();
        for seed in 0..50 {
            let mut names = Names::default();
            names.change(vec![(name(TOP, "a"), Some(Inode(7)))]);
            names.flush(TOP);
            names.change(vec![(name(TOP, "b"), Some(Inode(8)))]);
            names.change(vec![(name(TOP, "b"), None), (name(TOP, "a"), Some(Inode(8)))]);
            assert_eq!((find(&names, TOP, "a"), find(&names, TOP, "b")), (Some(8), None));
            names.cut(&mut Dice::new(seed));
            seen.insert((find(&names, TOP, "a"), find(&names, TOP, "b")));
        }
        let all = [(Some(7), None), (Some(7), Some(8)), (Some(8), None)];
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
    }

    #[test]
    fn a_flushed_folder_brings_along_the_changes_that_its_names_need_and_no_others() {
        let mut names = Names::default();
        names.change(vec![(name(TOP, "a"), Some(Inode(7)))]);
        names.change(vec![(name(TOP, "c"), Some(Inode(9)))]);
        names.change(vec![(name(TOP, "a"), None), (name(OTHER, "a"), Some(Inode(7)))]);
        names.flush(OTHER);
        assert_eq!(names.later.len(), 1);
        assert!(names.may_return(Inode(9)));
        let seed = (0..50).find(|seed| Dice::new(*seed).below(2) == 0).expect("one loses it");
        assert_eq!(names.cut(&mut Dice::new(seed)), 1);
        assert_eq!((find(&names, TOP, "a"), find(&names, OTHER, "a")), (None, Some(7)));
        assert!(!names.may_return(Inode(9)) && !names.is_named(Inode(9)));
    }
}

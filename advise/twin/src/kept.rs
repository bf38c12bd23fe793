// SPDX-License-Identifier: Apache-2.0
//! Hot extents and marks of a node, kept in order.

use helio_engine::{Keep, Kept};
use helio_format::copying::PageBits;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// See above.
#[derive(Clone, Debug, Default)]
pub struct KeptStore {
    /// Hot.
    pub hot: BTreeSet<u64>,
    /// Marks.
    pub marks: BTreeMap<u32, PageBits>,
    /// Count.
    pub sequence: u64,
    pub(crate) queue: VecDeque<Keep>,
}

impl KeptStore {
    pub(crate) fn apply(&mut self) -> Kept {
        self.sequence += 1;
        match self.queue.pop_front() {
            Some(Keep::Hot { ticket, add, remove }) => {
                remove.iter().for_each(|n| {
                    self.hot.remove(n);
                });
                self.hot.extend(add);
                Kept::Hot { ticket }
            }
            Some(Keep::Marks { page, bits }) => {
                self.marks.insert(page, bits);
                Kept::Marks { page }
            }
            None => panic!("nothing to keep"),
        }
    }
}

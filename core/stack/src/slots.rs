// SPDX-License-Identifier: Apache-2.0
//! Names of what is under way, used again once it has ended.

use alloc::vec::Vec;

/// What is under way, by name.
#[derive(Clone, Debug)]
pub(crate) struct Slots<T> {
    taken: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slots<T> {
    pub(crate) const fn new() -> Self {
        Self { taken: Vec::new(), free: Vec::new() }
    }

    /// Names it.
    pub(crate) fn put(&mut self, what: T) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.taken.push(None);
            (self.taken.len() - 1) as u32
        });
        self.taken[slot as usize] = Some(what);
        u64::from(slot)
    }

    /// What is under way under that name.
    ///
    /// # Panics
    /// Where it ended, or never began.
    pub(crate) fn get(&self, name: u64) -> &T {
        match self.taken.get(name as usize) {
            Some(Some(what)) => what,
            _ => panic!("operation {name} of a layer is not under way"),
        }
    }

    /// It ended.
    ///
    /// # Panics
    /// Where it ended twice, or never began.
    pub(crate) fn take(&mut self, name: u64) -> T {
        let Some(what) = self.taken.get_mut(name as usize).and_then(Option::take) else {
            panic!("operation {name} of a layer ended twice or never began")
        };
        self.free.push(name as u32);
        what
    }

    /// Nothing is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.taken.len()
    }
}

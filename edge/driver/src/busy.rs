// SPDX-License-Identifier: Apache-2.0
//! Which files have operations that block, and which of these files are stuck.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// A file none of whose operations ended for this long is stuck.
const STUCK: Duration = Duration::from_secs(1);

/// Files with operations under way that block a thread, here or in the kernel.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    files: BTreeMap<RawFd, Under>,
}

#[derive(Debug)]
struct Under {
    way: usize,
    /// When the first began, or the last one ended.
    since: Instant,
}

impl Busy {
    /// An operation on that file begins.
    pub(crate) fn began(&mut self, file: RawFd, now: Instant) {
        self.files.entry(file).or_insert(Under { way: 0, since: now }).way += 1;
    }

    /// One of them ended.
    pub(crate) fn ended(&mut self, file: RawFd, now: Instant) {
        let Some(under) = self.files.get_mut(&file) else { return };
        (under.way, under.since) = (under.way - 1, now);
        if under.way == 0 {
            self.files.remove(&file);
        }
    }

    /// How many are under way.
    pub(crate) fn count(&self, file: RawFd) -> usize {
        self.files.get(&file).map_or(0, |under| under.way)
    }

    /// Operations are under way on that file, and none ended for a while.
    pub(crate) fn is_stuck(&self, file: RawFd, now: Instant) -> bool {
        self.files.get(&file).is_some_and(|under| now.duration_since(under.since) > STUCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_stuck_while_none_of_its_operations_ends() {
        let mut busy = Busy::default();
        let now = Instant::now();
        let later = now + STUCK + Duration::from_millis(1);
        assert!(!busy.is_stuck(5, later), "nothing is under way");
        busy.began(5, now);
        busy.began(5, now);
        assert!(!busy.is_stuck(5, now) && busy.is_stuck(5, later) && !busy.is_stuck(6, later));
        busy.ended(5, later);
        assert!(!busy.is_stuck(5, later), "one ended just now");
        busy.ended(5, later);
        assert_eq!((busy.count(5), busy.is_stuck(5, later + STUCK * 2)), (0, false));
    }
}

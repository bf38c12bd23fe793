// SPDX-License-Identifier: Apache-2.0
//! Two members of volume `data` on a node, of which the second one lies on a store that can fail.

use crate::stage::{PATIENCE, wait};
use helio_testkit::{Failing, FaultyStore, Pair, eventually};
use helio_units::Extent;
use serde_json::Value;
use std::path::Path;

/// What happens to a store.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// Every write fails.
    Writes,
    /// The next flush fails, and drops what was not durable.
    Flush,
    /// No request completes.
    Silence,
}

impl Trouble {
    /// Lets it happen.
    pub fn strike(self, store: &FaultyStore) {
        match self {
            Self::Writes => store.fail_extent(Extent::new(0, u64::MAX), true),
            Self::Flush => store.fail(Failing::FLUSH),
            Self::Silence => store.hang(),
        }
    }
}

/// Waits until a node shows its two members in these states, and none is left to merge.
///
/// # Panics
/// As `wait`.
#[track_caller]
pub fn wait_members(pair: &Pair, node: &str, states: [&str; 2]) -> Value {
    wait(pair, node, &format!("members {states:?}"), |shown| {
        let volume = &shown["volumes"][0];
        let member = |n: usize| volume["members"][n]["state"] == states[n];
        member(0) && member(1) && volume["unmerged_bytes"] == 0
    })
}

/// Adds a member that works again, once the operations that were given up have completed.
///
/// # Panics
/// If it is refused for another reason, or they do not complete.
#[track_caller]
pub fn add_member(pair: &Pair, node: &str, path: &Path) {
    let path = path.display().to_string();
    eventually(PATIENCE, "the end of the operations that were given up", || {
        let told = pair.helio(node, &["member", "add", "db/data", &path]);
        let is_late = told.stderr.contains("has not completed");
        (!is_late).then(|| told.expect_success())
    });
}

// SPDX-License-Identifier: Apache-2.0
//! What a primary may acknowledge that was lawfully succeeded, and was not told yet.
//!
//! The peer took over by its hold lease; or by force, while this node's process was paused for longer than the peer
//! timeout by its own clock: then it was fenced, as far as anybody could tell. From then on it acknowledges only what its
//! heir holds, until an attempt to reach that heir failed which began after both: a node that cannot reach its heir goes
//! on, and docs/reference/recovery.md names that limit.

use super::history::Write;
use super::{Key, Oracle};
use crate::promise::{Promise, Violation, hold};
use helio_twin::{Cluster, Side};
use helio_units::Moment;

impl Oracle {
    /// A node began to lead: the other one was succeeded, if it leads and could not know.
    pub(super) fn note_succession(&mut self, cluster: &Cluster, heir: Side, leased: bool) {
        let (side, now) = (heir.other(), cluster.now());
        self.succeeded[heir.index()] = None;
        let node = cluster.node(side);
        if !node.engine.as_ref().is_some_and(|engine| engine.view().holds_line()) {
            return;
        }
        let paused = node.pause_counted(now).filter(|time| *time > node.peer_timeout);
        self.succeeded[side.index()] = match paused {
            _ if leased => Some(now),
            Some(_) => Some(node.paused_until()),
            None => None,
        };
    }

    /// A node does not lead any more: whoever it succeeded may go on.
    pub(super) fn leads_no_more(&mut self) {
        self.succeeded = [None; 2];
    }

    pub(super) fn dial_failed(&mut self, side: Side, began: Moment) {
        self.succeeded[side.index()].take_if(|since| began >= *since);
    }

    pub(super) fn judge_succeeded(
        &self,
        side: Side,
        (at, index): (Key, u32),
    ) -> Result<(), Violation> {
        let heir = &self.copies[side.other().index()];
        if self.succeeded[side.index()].is_none() || !heir.serving {
            return Ok(());
        }
        let (Some(history), Some(heir)) =
            (self.histories.get(&at), self.histories.get(&heir.generation))
        else {
            return Ok(());
        };
        let write: &Write = &history.writes[index as usize];
        let lacking = history.lacks(write, &heir.base);
        hold(lacking.is_none(), Promise::Succeeded, || {
            format!(
                "{side} was succeeded and acknowledges {:?}, which its heir lacks in {lacking:?}",
                write.stamp
            )
        })
    }
}

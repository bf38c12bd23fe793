// SPDX-License-Identifier: Apache-2.0
//! What an operator commands of a primary alone, and whether it may leave.

use crate::config::Config;
use crate::event::CommandId;
use crate::lead::Primary;
use crate::local::Local;
use crate::peer::link::Session;
use crate::peer::permit::Permit;
use crate::record::Record;
use crate::refusal::{Refusal, until_complete};
use crate::resync::Resync;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;

/// Clients use what a command is about to replace.
pub(crate) fn in_use() -> Refusal {
    Refusal::later(
        "in-use",
        "clients use the volumes, and the data that they use is about to be replaced",
        "stop the clients, then repeat",
    )
}

impl Primary {
    /// Refuses a command while this node's copy is being rebuilt from the peer.
    pub(crate) fn refuse_lacking(&self, verb: &str, config: &Config) -> Result<(), Refusal> {
        if !self.is_lacking() {
            return Ok(());
        }
        let Config { node, peer, group, .. } = config;
        Err(Refusal::later(
            "lacking",
            format!(
                "`helio {verb} {group}` must wait: the copy of {node} is not complete, and {peer} is served in its place"
            ),
            until_complete(group),
        ))
    }

    /// Marks all regions for a full resync. If a seed is under way, cancels it, which copies everything, too, and returns the text
    /// for the operator.
    pub(crate) fn copy_all(
        &mut self,
        session: &Session,
        resync: &mut Resync,
        record: &mut Record,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> Option<String> {
        if resync.seed().is_under_way(record.superblock()) {
            return Some(self.cancel_seed(session, resync, record, local, permit, turn));
        }
        self.drop_queue("the operator requested a full resync", local, permit, turn);
        self.marks.set_all();
        local.hot_mut().bitmap_changed();
        None
    }

    /// Copies dirty regions to the peer, or continues to rebuild this node's copy from it. Returns no text if the command is
    /// answered later.
    pub(crate) fn resync(
        &mut self,
        command: CommandId,
        session: &Session,
        record: &Record,
        resync: &mut Resync,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Result<Option<String>, Refusal> {
        if let Some(text) = self.pull_on(local, turn)? {
            return Ok(Some(text));
        }
        self.forgive();
        resync.seed().refuse_update(record.superblock(), turn.config())?;
        self.refuse_while_suspect(local, turn.config())?;
        self.end_pause();
        self.mark_differing(resync.verify_mut(), local);
        if self.is_updating() {
            self.copier.go_on();
            return Ok(Some(String::from("the resync is running")));
        }
        if self.streams() {
            self.mend(local, turn);
            return Ok(Some(String::from(if self.marks.none_dirty() {
                "nothing to resync: writes are sent in order"
            } else {
                "dirty regions are copied, in order with new writes"
            })));
        }
        if session.peer().is_none() {
            resync.update_mut().want();
            return Ok(Some(String::from(
                "the peer is not connected; the resync starts when it is",
            )));
        }
        if resync.update().is_awaiting() {
            resync.update_mut().want();
            return Ok(Some(String::from(
                "the resync starts when the nodes have exchanged their bitmaps",
            )));
        }
        Ok(self.sync_or_ask(Some(command), record, resync, local, turn))
    }

    /// Replaces this node's copy by the peer's: dirty regions, or all (`full`). The command is answered once that is recorded.
    pub(crate) fn reverse(
        &mut self,
        (command, full): (CommandId, bool),
        session: &Session,
        resync: &mut Resync,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> Result<Option<String>, Refusal> {
        // An answer that is held back is about what is replaced, too.
        let quiet = self.is_quiet() && permit.pause().is_quiet();
        if !quiet || local.reads_under_way() {
            return Err(in_use());
        }
        if local.metadata_failed() {
            return Err(turn.metadata_refusal());
        }
        self.drop_queue("the operator requested a reverse resync", local, permit, turn);
        if full {
            self.marks.set_all();
        }
        local.hot_mut().bitmap_changed();
        self.release_front(turn);
        self.lack_all(command, session.peer().map(|peer| peer.incarnation));
        self.suspect_step(local, turn);
        resync.verify_mut().rewind();
        if let Some(waiting) = resync.update_mut().give_up() {
            let text =
                "the resync is no longer requested: a reverse resync was requested meanwhile";
            turn.done(waiting, Ok(String::from(text)));
        }
        let peer = &turn.config().peer;
        turn.info(format!("the operator replaces the copy of this node by the copy of {peer}"));
        Ok(None)
    }

    /// Nothing is sent until the operator resumes.
    pub(crate) fn pause_commanded(
        &mut self,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> String {
        self.forget_refusal();
        self.drop_queue("paused by an operator", local, permit, turn);
        self.pause();
        local.hot_mut().bitmap_changed();
        let group = &turn.config().group;
        format!(
            "{group} is paused: dirty regions are recorded and nothing is sent; `helio resume {group}` ends the pause"
        )
    }

    /// Whether the peer is still to make durable what it is sent in order.
    pub(crate) fn owes_items(&self) -> bool {
        self.streams()
            && !self.owed().is_image_out_of_order()
            && self.cursors().durable() < self.line.head()
    }

    pub(crate) fn reset_queue_marks(&mut self, turn: &Turn) -> String {
        self.queue.reset_marks(turn.now());
        self.requests.forget_times();
        format!(
            "the high-water marks, counters and latency histograms of {} are reset",
            turn.config().group
        )
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Whether another disk may take the place of one that is lost, while this node runs (`local/replace.rs` has the rules).

use crate::config::Config;
use crate::lead::Primary;
use crate::refusal::Refusal;
use crate::role::{Following, Leading, Stage, busy, recording};
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use helio_units::{Role, State, VolumeIndex};

impl View<'_> {
    /// Whether another disk may take the place of that volume's now: nothing is issued to the one there, and nothing will
    /// be until [`crate::Command::Replace`], told before anything else.
    ///
    /// # Errors
    /// The disk is not lost, or nobody could fill another one now.
    pub fn may_replace(&self, volume: VolumeIndex) -> Result<(), Refusal> {
        if self.local.metadata_failed() {
            return Err(self.turn.metadata_refusal());
        }
        if self.record.is_saving() {
            return Err(recording());
        }
        if self.local.replacing().is_some() {
            return Err(busy());
        }
        match self.standing.stage() {
            Stage::Leading(Leading::Primary) => self.may_replace_leading(volume)?,
            Stage::Following(Following::Secondary) => self.may_replace_following(volume)?,
            // It was primary, and may have writes that its peer lacks: nothing is overwritten before the peer is primary.
            Stage::Following(Following::Returning) => {
                self.may_lead_from_copy(false)?;
                return Err(self.not_lost(volume));
            }
            _ => return Err(busy()),
        }
        // A follower begins anew as a whole, a primary's other volumes go on.
        let on = self.standing.leads().then_some(volume);
        if self.local.works_on(on) {
            return Err(Refusal::later(
                "busy",
                "operations on the old disk are still in progress",
                "repeat; if that disk never completes them, restart the daemon",
            ));
        }
        Ok(())
    }

    fn may_replace_leading(&self, volume: VolumeIndex) -> Result<(), Refusal> {
        let peer = &self.turn.config().peer;
        let Some(primary) = self.standing.primary() else { return Err(busy()) };
        if !primary.is_lost(volume) {
            return Err(self.not_lost(volume));
        }
        if !primary.is_lack_recorded() {
            return Err(busy());
        }
        if !primary.streams() {
            return Err(Refusal::later(
                "peer-lost",
                format!("{peer}, which has the data for the new disk, is not connected"),
                format!(
                    "repeat when `helio status {}` shows it connected",
                    self.turn.config().group
                ),
            ));
        }
        Ok(())
    }

    fn may_replace_following(&self, volume: VolumeIndex) -> Result<(), Refusal> {
        let failed = self.standing.failed();
        if failed.is_none_or(|(failed, _)| failed != volume) {
            return Err(self.not_lost(volume));
        }
        let Config { group, peer, node, .. } = self.turn.config();
        let last =
            self.show.last_decision().filter(|last| !last.as_source).map(|last| &last.source);
        let source = self.peer.session().peer().filter(|hello| hello.serving).or(last);
        // A primary that copies while this copy is complete, or has a fault itself, may need what only this copy has.
        let session = self.peer.session();
        let told = session.told().and_then(|(ping, _)| ping.state);
        let faulty = session.report().is_some_and(|report| !report.fault.is_empty());
        if self.record.superblock().consistent && (faulty || told == Some(State::Syncing)) {
            return Err(Refusal::new(
                "no-whole-copy",
                format!("{peer} may lack regions that only this disk has"),
                format!(
                    "if `helio status {group}` on {peer} shows a fault or a resync: repair it, or wait for its end, then repeat; \
                     otherwise repair the disk on {node}, and restart the daemon of {node}"
                ),
            ));
        }
        if source.is_none_or(|hello| !hello.consistent || hello.suspect) {
            return Err(Refusal::new(
                "no-whole-copy",
                format!(
                    "{peer} has not connected with a complete copy: this disk may hold the only one"
                ),
                format!(
                    "start {peer} as primary with all of its disks, none of them suspect, and connect it to this node"
                ),
            ));
        }
        if self.local.pool_failed() && !self.keeper.is_empty() {
            return Err(Refusal::new(
                "before-failed",
                "the before-image file failed, and its content belongs to the old disk",
                "repair its file system, then restart the daemon",
            ));
        }
        Ok(())
    }

    /// What a replacement of the failed disk of this secondary discards besides its copy: the writes for which the peer refuses
    /// this node. They cannot be saved.
    #[must_use]
    pub fn lost_with_disk(&self) -> Option<String> {
        let Config { group, peer, node, .. } = self.turn.config();
        self.is_refused_for_writes().then(|| {
            format!(
                "all writes of {group} that exist only on {node}: {peer} may never have received them. They cannot be saved, \
                 since a disk of {node} failed. To keep them, repair that disk and restart the daemon of {node}; then \
                 `helio resolve {group} --discard {node}` saves them"
            )
        })
    }

    /// A secondary is on another disk than its record names, and copies everything to it without a replacement.
    fn is_copied_to(&self, what: &str) -> Refusal {
        let Config { group, peer, node, autosync, .. } = self.turn.config();
        let hint = if self.peer_role() == Some(Role::Secondary) {
            match self.peer_that_may_fill() {
                Some(peer) => format!(
                    "`helio promote {group}` on {peer}, which then copies everything to this disk"
                ),
                None => format!("put the right disk back on {node} and restart its daemon"),
            }
        } else if *autosync {
            format!(
                "nothing; {peer} copies everything to this disk when it is connected as primary"
            )
        } else {
            format!("`helio resync {group}` on {peer}, which copies everything to this disk")
        };
        Refusal::new("disk-in-use", format!("{group}: {what}; it is used in its place"), hint)
    }

    /// The disk of a volume is in use.
    fn not_lost(&self, volume: VolumeIndex) -> Refusal {
        if let Some(what) = self.local.members().fault() {
            return self.is_copied_to(&what);
        }
        let (group, peer) = (&self.turn.config().group, &self.turn.config().peer);
        let name = self.turn.config().name_of(volume);
        let faulted = self.standing.primary().and_then(Primary::fault);
        if self.is_lacking() {
            return Refusal::new(
                "disk-in-use",
                format!(
                    "the disk of volume {name} is in use; its data is being copied from {peer}"
                ),
                format!("nothing; `helio status {group}` shows the progress"),
            );
        }
        match faulted {
            Some((failed, fault)) if failed == volume => Refusal::new(
                "disk-in-use",
                format!(
                    "the disk of volume {name} failed ({fault}), and is not served from {peer}"
                ),
                format!(
                    "`helio switch {group}`, then repeat this here; the setting `on-error = \"serve-from-peer\"` makes that \
                     unnecessary while {peer} is in sync"
                ),
            ),
            _ => Refusal::new(
                "disk-in-use",
                format!("the disk of volume {name} did not fail"),
                "to move the volume to another disk, stop the daemon of the secondary, change `members` in the configuration \
                 and start it: everything is copied to the new disk",
            ),
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Whether an operator may take a suspect copy for what it reads as (`role/accept.rs` has the drawing).

use crate::local::suspect::Rewriting;
use crate::refusal::Refusal;
use crate::role::{Following, Stage, busy, recording};
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use helio_units::{Bytes, VolumeIndex};

impl View<'_> {
    /// Whether an operator may accept the copy of that volume as it is, and what is at stake.
    ///
    /// # Errors
    /// It is not suspect, or a better copy takes its place already, or it is in use.
    pub fn may_accept(&self, volume: VolumeIndex) -> Result<String, Refusal> {
        let (group, peer) = (&self.turn.config().group, &self.turn.config().peer);
        if usize::from(volume.0) >= self.turn.config().volumes.len()
            || !self.local.suspect().is(volume)
        {
            return Err(Refusal::new(
                "not-suspect",
                format!(
                    "the copy of volume {} of {group} on this node is not suspect",
                    self.turn.config().name_of(volume)
                ),
                format!("nothing; `helio status {group}` shows the state of each copy"),
            ));
        }
        let follows =
            self.peer.session().peer().is_some_and(|hello| hello.serving && !hello.suspect);
        if self.is_lacking() || (!self.standing.leads() && follows) {
            return Err(Refusal::new(
                "better-copy",
                format!(
                    "{peer} serves volume {} of {group}, and this copy is rebuilt from there",
                    self.turn.config().name_of(volume)
                ),
                format!("`helio resync {group}` on the primary continues that"),
            ));
        }
        if self.standing.serves() {
            return Err(Refusal::new(
                "leads",
                format!(
                    "{group} is primary on this node: all of volume {} must be rewritten before the copy is accepted, while no \
                     client uses it",
                    self.turn.config().name_of(volume)
                ),
                match self.turn.config().peer_name() {
                    Some(peer) => format!(
                        "`helio demote {group}`, repeat this, then `helio promote {group} --force` if {peer} cannot agree"
                    ),
                    None => {
                        format!("`helio demote {group}`, repeat this, then `helio promote {group}`")
                    }
                },
            ));
        }
        if self.local.metadata_failed() {
            return Err(self.turn.metadata_refusal());
        }
        self.may_lead_from_disk()?;
        let rests = matches!(
            self.standing.stage(),
            Stage::Following(Following::Secondary | Following::Returning)
        );
        if self.record.is_saving() {
            return Err(recording());
        }
        if !rests
            || self.local.replacing().is_some()
            || self.local.works_on(None)
            || !self.keeper.is_idle()
        {
            return Err(busy());
        }
        let also = self.turn.config().peer_name().map_or_else(String::new, |peer| {
            format!("; {peer} may have them, and a resync from this node overwrites them there")
        });
        Ok(format!(
            "writes of volume {} that were acknowledged before the flush failed and are missing from this copy{also}",
            self.turn.config().name_of(volume)
        ))
    }

    /// How far the acceptance is, for people.
    pub(crate) fn accepting_text(&self) -> Option<String> {
        let Stage::Following(Following::Accepting { volume, stage, .. }) = self.standing.stage()
        else {
            return None;
        };
        let size = self.turn.config().volumes[usize::from(volume.0)];
        let next = match stage {
            Rewriting::Copying { next, .. } => Bytes(next),
            Rewriting::Flushing | Rewriting::Saving => size,
        };
        Some(format!(
            "the suspect copy of volume {} is being written again: {next} of {size}",
            self.turn.config().name_of(volume)
        ))
    }
}

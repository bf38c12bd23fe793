// SPDX-License-Identifier: Apache-2.0
//! Another disk takes the place of one that is lost: what waits for a record, and what follows from it.

use crate::event::CommandId;
use crate::follow::before::Keeper;
use crate::lead::Primary;
use crate::local::Local;
use crate::local::replace::Replacing;
use crate::peer::hang_up::HangUp;
use crate::record::Record;
use crate::record::save::Goal;
use crate::refusal::Refusal;
use crate::role::{Following, Standing};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_format::message::Parting;
use helio_stack::StoreFault;
use helio_units::VolumeIndex;

impl Standing {
    /// Another disk is there in the place of a volume's.
    pub(crate) fn replace(
        &mut self,
        (command, volume): (CommandId, VolumeIndex),
        (identity, block): (u128, u32),
        keeper: &mut Keeper,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Option<HangUp> {
        let leads = self.leads();
        local.members_mut().put(volume, &turn.config().name_of(volume), identity, leads);
        local.blocks_mut().put(volume, block);
        if leads {
            record.want(Goal::Replaced { command, volume });
            return None;
        }
        // Nothing of the new disk goes to what was kept of the one before.
        let failed = self.failed();
        self.reset_follower(keeper, record, turn);
        if let (Some((volume, fault)), Some(follower)) = (failed, self.follower_mut()) {
            follower.stop_applying(volume, fault);
        }
        local.replace(Replacing { command, volume });
        Some(HangUp::new(Parting::VolumeFailed, "its disk is being replaced"))
    }

    /// Moves a secondary's replacement on as far as it can go now.
    pub(crate) fn replace_step(
        &self,
        keeper: &mut Keeper,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let Some(Replacing { command, volume }) = local.replacing() else { return };
        let settled = self.is(Following::Secondary) && keeper.is_idle();
        // Its own record is among those.
        if !settled || record.is_saving() {
            return;
        }
        if !keeper.is_empty() && !local.pool_failed() {
            return keeper.end(local, turn);
        }
        if !keeper.is_empty() || local.metadata_failed() {
            local.end_replacing();
            let text = String::from("the preserved copy could not be dropped");
            let hint =
                "repair the before-image file and the metadata file, then restart the daemon";
            return turn.done(command, Err(Refusal::new("before-failed", text, hint)));
        }
        record.want(Goal::Replaced { command, volume });
    }

    /// The record is durable: the new disk is the volume's.
    pub(crate) fn replaced(
        &mut self,
        (command, volume): (CommandId, VolumeIndex),
        keeper: &mut Keeper,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let (group, peer) = (turn.config().group.clone(), turn.config().peer.clone());
        let name = turn.config().name_of(volume);
        local.end_replacing();
        // What is being cut, and was not listed before, was to hold what lay on the disk before.
        let fault = self.primary().and_then(Primary::fault).or_else(|| self.failed());
        let fault = fault.filter(|(failed, _)| *failed == volume);
        local.fail_cut(volume, fault.map_or(StoreFault::Io, |(_, fault)| fault), turn);
        if local.suspect().is(volume) {
            // It is the disk that failed: it may read as written what it does not hold.
            local.suspect_mut().all_of(volume, turn.config());
        }
        let text = match self.primary_mut() {
            Some(primary) => {
                let marked = primary.marks().dirty_bytes();
                primary.use_again(volume);
                primary.copier_mut().progress_mut().begin(marked, turn.now());
                format!(
                    "volume {name} of {group} has another disk; {marked} are copied from {peer}"
                )
            }
            None => {
                self.reset_follower(keeper, record, turn);
                record.keeping_mut().line_changed(local.hot_mut(), turn.now());
                format!("volume {name} of {group} has another disk; {peer} copies everything to it")
            }
        };
        turn.warn(text.clone());
        turn.done(command, Ok(text));
    }
}

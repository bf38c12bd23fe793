// SPDX-License-Identifier: Apache-2.0
//! What an operator commands.

use crate::engine::Engine;
use crate::event::{Command, CommandId};
use crate::peer::hang_up::HangUp;
use crate::record::save::Leave;
use crate::role::busy;
use crate::show::view::View;
use alloc::string::String;
use helio_format::message::Parting;

impl Engine {
    pub(crate) fn command(&mut self, id: CommandId, command: Command) {
        let Self { standing, peer, record, resync, copies, local, permit, turn, .. } = self;
        let result = match command {
            _ if turn.refuses_without_peer(id, command) => return,
            Command::Promote { force } => self.promote(id, force, false),
            Command::Restore { force } => self.promote(id, force, true),
            Command::Demote => {
                let last_copy = self.view().last_copy();
                let (record, turn) = (&mut self.record, &self.turn);
                self.standing.leave(Some(id), Leave::Secondary, last_copy, record, turn)
            }
            Command::Yield { generation, last_copy } => {
                let lineage = self.view().may_give_up(generation, last_copy);
                lineage.map(|lineage| self.standing.give_up(id, lineage, &mut self.record))
            }
            Command::Switch => self.view().may_switch().and_then(|way| {
                self.standing.switch(id, way, &mut self.asked, &mut self.record, &mut self.turn)
            }),
            Command::Stop => self.stop(id),
            Command::Pause => standing.pause(local, permit, turn),
            // Ends a pause as a resync does, and nothing else.
            Command::Resume => standing.resume(id, peer.session(), record, resync, local, turn),
            Command::Resync => standing.resync(id, peer.session(), record, resync, local, turn),
            Command::FullResync => {
                standing.full_resync(id, peer.session(), (resync, record), local, permit, turn)
            }
            Command::Reverse(wish) => self.view().reversal_stake(wish).and_then(|_| {
                let Self { standing, peer, resync, local, permit, turn, .. } = self;
                let primary = standing.primary_mut().ok_or_else(busy)?;
                primary.reverse((id, wish.full), peer.session(), resync, local, permit, turn)
            }),
            Command::Replace { volume, identity, block } => {
                self.view().may_replace(volume).map(|()| {
                    let Self { standing, keeper, record, local, turn, .. } = self;
                    let (what, disk) = ((id, volume), (identity, block));
                    let wish = standing.replace(what, disk, keeper, record, local, turn);
                    self.hang_up(wish);
                    None
                })
            }
            Command::Accept { volume } => self.view().may_accept(volume).map(|_| {
                self.hang_up(HangUp::new(Parting::RoleChanged, "a suspect copy is being accepted"));
                self.standing.accept((id, volume), &mut self.keeper, &self.record, &mut self.turn);
                None
            }),
            Command::GiveUpSafeCopy => {
                standing.give_up_safe_copy(local, permit, turn);
                standing.resync(id, peer.session(), record, resync, local, turn)
            }
            Command::Mode(mode) => standing.set_mode(mode, peer.session_mut(), local, permit, turn),
            Command::ResetQueueMarks => standing.reset_queue_marks(turn),
            Command::Verify(wish) => standing.verify(wish, resync.verify_mut(), local, turn),
            Command::StopVerify => Ok(Some(String::from(resync.verify_mut().stop_wanted()))),
            Command::SeedBegin { at } => self.view().may_ship_disk().map(|()| {
                let Self { standing, record, resync, local, permit, turn, .. } = self;
                let primary = standing.primary_mut()?;
                let wish = primary.ship_disk((id, at), record, resync, local, permit, turn);
                self.hang_up(wish);
                None
            }),
            Command::SeedEnd => standing.seed_end(id, peer.session(), record, resync, local, turn),
            Command::Set(op) => return local.ask_set(id, op, turn),
            // What it marks would be cleared.
            Command::RestoreSnapshot(_) if resync.seed().is_beginning() => Err(busy()),
            Command::Snapshot(_) | Command::SnapshotHere(_) | Command::RestoreSnapshot(_) => {
                let asked = (id, command, self.dice.roll(turn.now()));
                standing.on_snapshots(asked, copies, (record, permit), local, turn)
            }
        };
        // What it asks for is begun before it is answered.
        self.begin_record();
        result.transpose().into_iter().for_each(|result| self.turn.done(id, result));
    }
}

impl View<'_> {
    /// Whether the link is free for a new conversation.
    pub(crate) fn is_link_down(&self) -> bool {
        self.peer.session().is_down()
    }
}

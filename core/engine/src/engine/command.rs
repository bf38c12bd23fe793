// SPDX-License-Identifier: Apache-2.0
//! What an operator commands.

use crate::engine::Engine;
use crate::event::{Command, CommandId};
use crate::record::save::Leave;
use crate::refusal::Refusal;
use crate::role::busy;
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use helio_units::Mode;

impl Engine {
    pub(crate) fn command(&mut self, id: CommandId, command: Command) {
        let result = match command {
            Command::Promote { force } => self.promote(id, force, false),
            Command::Restore { force } => self.promote(id, force, true),
            Command::Demote => {
                let last_copy = self.view().last_copy();
                self.standing.leave(
                    Some(id),
                    Leave::Secondary,
                    last_copy,
                    &mut self.record,
                    &self.turn,
                )
            }
            Command::Yield { generation } => self.view().may_give_up(generation).map(|lineage| {
                self.standing.give_up(id, lineage, &mut self.record);
                None
            }),
            Command::Switch => self.view().may_switch().and_then(|way| {
                let (asked, record) = (&mut self.asked, &mut self.record);
                self.standing.switch(id, way, asked, record, &mut self.turn)
            }),
            Command::Stop => self.stop(id),
            Command::Pause => self.view().may_pause().map(|()| {
                let primary = self.standing.primary_mut()?;
                Some(primary.pause_commanded(&mut self.local, &self.permit, &mut self.turn))
            }),
            // Ends a pause as a resync does, and nothing else.
            Command::Resume => self.view().may_resume().and_then(|()| self.resync(id)),
            Command::Resync => self.resync(id),
            Command::FullResync => self.full_resync(id),
            Command::Reverse { full } => self.reverse(id, full),
            Command::Replace { volume, identity, block } => {
                self.replace(id, volume, (identity, block))
            }
            Command::Accept { volume } => self.accept(id, volume),
            Command::GiveUpSafeCopy => {
                if let Some(primary) = self.standing.primary_mut() {
                    primary.give_up_safe_copy(&mut self.local, &self.permit, &mut self.turn);
                }
                self.resync(id)
            }
            Command::Mode(mode) => self.view().may_change_mode(mode).map(|text| {
                self.turn.set_mode(mode);
                if let Some(primary) = self.standing.primary_mut() {
                    primary.mode_changed(&self.local, &self.permit, &mut self.turn);
                }
                self.peer.session_mut().ping_by(self.permit.lease().ping_at(self.turn.now()));
                Some(text)
            }),
            Command::ResetQueueMarks => match self.standing.primary_mut() {
                Some(primary) => Ok(Some(primary.reset_queue_marks(&self.turn))),
                None => Err(self.view().not_primary("queue reset")),
            },
            Command::Verify(wish) => self.verify(wish),
            Command::StopVerify => Ok(Some(String::from(self.resync.verify_mut().stop_wanted()))),
            Command::SeedBegin { at } => self.seed_begin(id, at),
            Command::SeedEnd => self.seed_end(id),
        };
        // What it asks for is begun before it is answered.
        self.begin_record();
        match result {
            Ok(None) => {}
            Ok(Some(text)) => self.turn.done(id, Ok(text)),
            Err(refusal) => self.turn.done(id, Err(refusal)),
        }
    }

    fn resync(&mut self, id: CommandId) -> Result<Option<String>, Refusal> {
        if self.standing.is_leaving() {
            return Err(busy());
        }
        if let Some(primary) = self.standing.primary_mut() {
            if let Some(text) = primary.pull_on(&self.local, &self.turn)? {
                return Ok(Some(text));
            }
            primary.forgive();
            self.resync.seed().refuse_update(self.record.superblock(), self.turn.config())?;
        }
        self.view().refuse_while_suspect()?;
        let Some(primary) = self.standing.primary_mut() else {
            return Err(self.view().not_primary("resync"));
        };
        primary.end_pause();
        primary.mark_differing(self.resync.verify_mut(), &mut self.local);
        if primary.is_updating() {
            primary.copier_mut().go_on();
            return Ok(Some(String::from("the resync is running")));
        }
        if primary.streams() {
            primary.mend(&self.local, &self.turn);
            return Ok(Some(String::from(if primary.marks().none_dirty() {
                "nothing to resync: writes are sent in order"
            } else {
                "dirty regions are copied, in order with new writes"
            })));
        }
        if self.peer.session().peer().is_none() {
            self.resync.update_mut().want();
            return Ok(Some(String::from(
                "the peer is not connected; the resync starts when it is",
            )));
        }
        if self.resync.update().is_awaiting() {
            self.resync.update_mut().want();
            return Ok(Some(String::from(
                "the resync starts when the nodes have exchanged their bitmaps",
            )));
        }
        Ok(primary.sync_or_ask(
            Some(id),
            &self.record,
            &mut self.resync,
            &self.local,
            &mut self.turn,
        ))
    }

    /// Compares or copies everything, whatever is marked.
    fn full_resync(&mut self, id: CommandId) -> Result<Option<String>, Refusal> {
        if self.standing.is_leaving() {
            return Err(busy());
        }
        if self.view().is_lacking() {
            return Err(self.view().lacks("resync"));
        }
        self.view().refuse_while_suspect()?;
        if self.standing.leads() && self.resync.seed().is_under_way(self.record.superblock()) {
            return self.seed_given_up().map(Some);
        }
        let Some(primary) = self.standing.primary_mut() else {
            return Err(self.view().not_primary("resync --full"));
        };
        primary.drop_queue(
            "the operator requested a full resync",
            &mut self.local,
            &self.permit,
            &mut self.turn,
        );
        primary.marks_mut().set_all();
        self.local.hot_mut().bitmap_changed();
        self.resync(id)
    }
}

impl View<'_> {
    fn may_pause(&self) -> Result<(), Refusal> {
        if self.standing.is_leaving() {
            return Err(busy());
        }
        if self.is_lacking() {
            return Err(self.lacks("pause"));
        }
        if self.standing.leads() { Ok(()) } else { Err(self.not_primary("pause")) }
    }

    fn may_resume(&self) -> Result<(), Refusal> {
        let Some(primary) = self.standing.primary() else {
            return Err(self.not_primary("resume"));
        };
        if primary.owed().is_paused() {
            return Ok(());
        }
        let group = &self.turn.config().group;
        Err(Refusal::new(
            "not-paused",
            format!("{group} is not paused"),
            format!(
                "`helio resync {group}` copies dirty regions; `helio status {group}` shows the state"
            ),
        ))
    }

    /// The primary's mode is the mode of the group, and its secondary takes it over. A secondary without a primary may be promoted next.
    /// Returns what the change means.
    fn may_change_mode(&self, mode: Mode) -> Result<String, Refusal> {
        let (group, peer) = (&self.turn.config().group, &self.turn.config().peer);
        if self.standing.leads() {
            return Ok(format!(
                "the mode of {group} is {mode} until a restart; to keep it, change the file"
            ));
        }
        if self.peer.session().peer().is_some_and(|peer| peer.serving) {
            return Err(Refusal::new(
                "not-primary",
                format!("{peer} is primary of {group}, and its mode is the mode of the group"),
                format!("`helio mode {group} {mode}` on {peer}"),
            ));
        }
        Ok(format!("the mode of {group} is {mode} if this node is promoted next"))
    }

    pub(crate) fn not_primary(&self, verb: &str) -> Refusal {
        let (group, peer) = (&self.turn.config().group, &self.turn.config().peer);
        Refusal::new(
            "not-primary",
            format!("{group} is {} on this node", self.standing.stage().name()),
            format!("`helio {verb} {group}` on the primary, which may be {peer}"),
        )
    }

    /// Whether the link is free for a new conversation.
    pub(crate) fn is_link_down(&self) -> bool {
        self.peer.session().is_down()
    }
}

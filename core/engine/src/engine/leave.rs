// SPDX-License-Identifier: Apache-2.0
//! A primary or secondary that leaves, among the other rooms: how a stop begins, and what follows once the record is saved.

use crate::effect::{Done, Effect};
use crate::engine::Engine;
use crate::event::CommandId;
use crate::lead::Primary;
use crate::peer::hang_up::HangUp;
use crate::record::save::Leave;
use crate::refusal::Refusal;
use crate::role::switch::ANSWER_PATIENCE;
use crate::role::{Following, Leading, Stage, busy};
use alloc::format;
use alloc::string::String;
use helio_format::message::{Message, Parting};
use helio_format::roles::Roles;
use helio_recovery::Delivered;
use helio_units::Bytes;

impl Engine {
    pub(crate) fn stop(&mut self, id: CommandId) -> Result<Option<String>, Refusal> {
        match self.standing.stage() {
            Stage::Leading(Leading::Primary) => {
                if self.asked.stop_waits(self.view().last_copy(), &mut self.turn) {
                    self.asked.stop_later(id);
                    return Ok(None);
                }
                let last_copy = self.view().last_copy();
                self.standing.leave(Some(id), Leave::Stop, last_copy, &mut self.record, &self.turn)
            }
            Stage::Following(Following::Secondary | Following::Returning)
            | Stage::Following(Following::Handing { .. }) => {
                self.end_handing(self.view().handed_unheard());
                let up = self.peer.session().peer().is_some();
                self.permit.lease_mut().is_not_needed(up, self.turn.effects());
                self.hang_up(HangUp::new(Parting::Stopping, "the daemon stops"));
                self.standing.stand(Following::Closing { command: id, saving: false });
                self.standing.hurry();
                Ok(None)
            }
            Stage::Following(Following::Stopped) => Ok(Some(String::from("stopped already"))),
            Stage::Following(Following::Closing { .. }) => Err(busy()),
            // A change of role under way ends first: a stop that was asked for happens.
            _ => {
                self.asked.stop_later(id);
                Ok(None)
            }
        }
    }

    pub(crate) fn left(&mut self, to: Leave) {
        let Stage::Leading(Leading::Leaving { command, .. }) = self.standing.stage() else {
            return;
        };
        let behind = self
            .standing
            .primary()
            .map_or(Bytes::ZERO, |p| p.lacks_when_left(self.turn.now(), &self.local));
        // What this node knows of the peer's copy stays known.
        if let Some(consistent) = self.standing.primary().and_then(Primary::left_consistent) {
            self.peer.session_mut().stream_left(consistent);
        }
        let next = match to {
            Leave::Secondary => Following::Secondary,
            Leave::Hand => Following::Handing { command, until: self.turn.now() + ANSWER_PATIENCE },
            Leave::Stop => Following::Stopped,
        };
        self.standing.lay_line_down(
            next,
            self.resync.verify_mut(),
            &mut self.record,
            &mut self.local,
            &mut self.keeper,
            &mut self.turn,
        );
        self.permit.laid_down(&mut self.turn);
        let delivered = Delivered::of(self.record.superblock()) == Delivered::Everything;
        let text = match self.turn.config().peer_name() {
            None => format!("`helio promote {}` serves it again", self.turn.config().group),
            Some(peer) if delivered => format!("{peer} has everything"),
            Some(peer) if behind == Bytes::ZERO => {
                format!("{peer} does not have everything, as far as this node knows")
            }
            Some(peer) => {
                format!("{peer} does not have everything: up to {behind} exist only on this node")
            }
        };
        match to {
            Leave::Secondary => {
                if let Some(id) = command {
                    let text = format!("secondary now; {text}");
                    let result = Ok(Done { text, peer_behind: !delivered });
                    self.turn.push(Effect::CommandDone { id, result });
                }
                self.hang_up(HangUp::new(Parting::RoleChanged, "no longer primary"));
            }
            Leave::Hand => {
                let b = self.record.superblock();
                if b.clean && b.equal && self.peer.session().peer().is_some() {
                    // The record says secondary, and the peer has everything: it is asked to be primary.
                    let (generation, head) = (b.lineage.generation, b.head);
                    self.turn.send(Message::Roles(Roles::Invite { generation, head }));
                    // What it says from before that proves nothing of what it does then.
                    self.peer.session_mut().prove_anew(self.turn.now());
                } else {
                    self.end_handing(self.view().handed_back("it disconnected, or is not in sync"));
                }
            }
            Leave::Stop => {
                self.hang_up(HangUp::new(Parting::Stopping, "the daemon stops"));
                self.standing.stop_now(command, &mut self.record, &self.local, &mut self.turn);
            }
        }
    }
}

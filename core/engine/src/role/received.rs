// SPDX-License-Identifier: Apache-2.0
//! What a node does with what arrives, by its role.

use crate::local::Local;
use crate::record::Record;
use crate::role::{Following, Stage, Standing};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_format::message::{Item, Message, Start};

impl Standing {
    /// The peer sent an item.
    ///
    /// # Errors
    /// None is to be sent here, or not this one: the connection must end.
    pub(crate) fn peer_item(
        &mut self,
        item: Item,
        local: &Local,
        turn: &mut Turn,
    ) -> Result<(), String> {
        let secondary = self.is(Following::Secondary);
        let Some(follower) = self.follower_mut().filter(|_| secondary) else {
            turn.release_stray(&Message::Item(item));
            return Err(format!(
                "item {} arrived at a node that is not the secondary",
                item.sequence
            ));
        };
        if follower.failed().is_some() {
            turn.release_stray(&Message::Item(item));
            return Ok(());
        }
        let result = follower.receive(item, local, turn);
        if result.is_err() {
            turn.release_stray(&Message::Item(item));
        }
        result
    }

    /// An acknowledgement arrived at a node that leads no line.
    ///
    /// # Errors
    /// None is to be sent here: the connection must end.
    pub(crate) fn stray_ack(&self) -> Result<(), String> {
        // What the one that was asked to take over says of the stream that just ended.
        if matches!(self.stage(), Stage::Following(Following::Handing { .. })) {
            return Ok(());
        }
        Err(String::from("an acknowledgement arrived at a node that sends nothing"))
    }

    /// Received items are to become durable at once.
    pub(crate) fn hurry(&mut self) {
        if let Some(follower) = self.follower_mut() {
            follower.hurry();
        }
    }

    /// No more items are accepted.
    pub(crate) fn refuse_items(&mut self, turn: &mut Turn) {
        if let Some(follower) = self.follower_mut() {
            follower.refuse(turn);
        }
    }

    /// The record says that this node follows.
    pub(crate) fn adopted(
        &mut self,
        start: Start,
        record: &mut Record,
        local: &mut Local,
        turn: &Turn,
    ) {
        record.keeping_mut().line_changed(local.hot_mut(), turn.now());
        if !start.consistent {
            self.mark_unsettled(record, local);
        }
        if let Some(follower) = self.follower_mut() {
            follower.adopted(start);
        }
    }

    /// The record says that this node's image is consistent again.
    pub(crate) fn marker_saved(&mut self, turn: &mut Turn) {
        if let Some(follower) = self.follower_mut() {
            follower.marker_saved(turn);
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What was asked of a node's role and waits: a stop, a change of roles that the primary was asked for, and who here cannot do
//! without the role.

use crate::event::CommandId;
use crate::refusal::Refusal;
use crate::role::leave::{STOP_PATIENCE, last_copy_refusal};
use crate::turn::Turn;
use alloc::format;
use alloc::string::{String, ToString};
use helio_units::{Bytes, Moment};

#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// A stop that waits for a change of role to end, or for the peer.
    stop: Option<CommandId>,
    /// It does not wait longer for a peer that is away.
    stop_until: Option<Moment>,
    /// The command of a secondary that asked its primary to change roles, and until when it waits for that.
    switch: Option<(CommandId, Moment)>,
    /// Who here cannot do without this node's role.
    held: Option<String>,
}

impl Asked {
    /// That stop waits.
    pub(crate) fn stop_later(&mut self, command: CommandId) {
        self.stop = Some(command);
    }

    /// Whether a stop waits.
    pub(crate) fn stops(&self) -> bool {
        self.stop.is_some()
    }

    /// The stop that waited, which happens now.
    pub(crate) fn take_stop(&mut self) -> Option<CommandId> {
        self.stop.take()
    }

    /// Until when a stop waits for the peer, if that was set.
    pub(crate) fn stop_until(&self) -> Option<Moment> {
        self.stop_until
    }

    /// The primary was asked to change roles.
    pub(crate) fn switch_later(&mut self, command: CommandId, until: Moment) {
        self.switch = Some((command, until));
    }

    /// Whether the primary was asked to change roles.
    pub(crate) fn switches(&self) -> bool {
        self.switch.is_some()
    }

    /// When that is given up.
    pub(crate) fn switch_until(&self) -> Moment {
        self.switch.map_or(Moment::NEVER, |(_, until)| until)
    }

    /// The command that asked for it: it ends now.
    pub(crate) fn take_switch(&mut self) -> Option<CommandId> {
        self.switch.take().map(|(command, _)| command)
    }

    /// Who cannot do without this node's role, as operators know them.
    pub(crate) fn hold(&mut self, by: Option<String>) {
        self.held = by;
    }

    pub(crate) fn held(&self) -> Option<&str> {
        self.held.as_deref()
    }

    /// Whether a stop waits for the peer, which lacks that much of what was answered; the first question sets until when.
    pub(crate) fn stop_waits(&mut self, last_copy: Option<Bytes>, turn: &mut Turn) -> bool {
        let Some(bytes) = last_copy else { return false };
        let now = turn.now();
        if self.stop_until.is_none() {
            let words = last_copy_refusal(bytes, turn.config()).text;
            turn.warn(format!("the stop waits {} s: {words}", STOP_PATIENCE.as_secs()));
        }
        let until = *self.stop_until.get_or_insert(now + STOP_PATIENCE);
        if now < until {
            return true;
        }
        let peer = &turn.config().peer;
        turn.warn(format!(
            "stopping without {peer}: up to {bytes} of acknowledged writes may be lost"
        ));
        false
    }

    /// The primary does not change roles, and says why.
    pub(crate) fn switch_denied(&mut self, text: &str, turn: &mut Turn) {
        if let Some(command) = self.take_switch() {
            let peer = &turn.config().peer;
            let text = format!("{peer} refused the switch: {text}");
            let hint = format!("`helio status {}` on both nodes shows why", turn.config().group);
            turn.done(command, Err(Refusal::later("not-switched", text, hint)));
        }
    }

    /// Nothing came of asking the primary.
    pub(crate) fn switch_unheard(&mut self, why: &str, turn: &mut Turn) {
        if let Some(command) = self.take_switch() {
            let (peer, group) = (&turn.config().peer, &turn.config().group);
            let hint = format!("`helio status {group}` here and on {peer} shows which is primary");
            turn.done(command, Err(Refusal::new("unsure", why.to_string(), hint)));
        }
    }

    /// Gives up waiting for the primary's word when it is time.
    pub(crate) fn switch_deadline(&mut self, turn: &mut Turn) {
        if turn.now() >= self.switch_until() {
            self.switch_unheard("the primary did not complete the switch in time", turn);
        }
    }
}

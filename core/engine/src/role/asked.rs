// SPDX-License-Identifier: Apache-2.0
//! What was asked of a node's role and waits: a stop, a change of roles that the primary was asked for, and who here cannot do
//! without the role.

use crate::event::CommandId;
use alloc::string::String;
use helio_units::Moment;

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

    /// A stop waits for the peer, until `until` unless that was set before.
    pub(crate) fn wait_for_peer(&mut self, until: Moment) -> Moment {
        *self.stop_until.get_or_insert(until)
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
}

// SPDX-License-Identifier: Apache-2.0
//! A planned change of roles, without loss, from either side.
//!
//! ```text
//!   old primary                                              new primary
//!       │ <──────────────── SwitchWanted ──────────────────────── │   only where the command was given there
//!       │ clients are let go, everything is delivered, flushed,   │
//!       │ and the record says secondary                           │
//!       │ ───────────────────── Invite ─────────────────────────> │
//!       │                                                         │ everything is durable: the record says primary
//!       │ <───────────── connects anew, hello: it serves ──────── │
//! ```
//! Until the record says secondary the old primary just goes on if anything is in the way. From the invitation on,
//! only the peer's next hello tells what became of it: a peer whose generation is still ours surely did not take over,
//! for it says hello in a settled role, and an invitation dies with its connection; and it answers a ping, so that the
//! hello is not one of before. Where no hello comes in time the
//! old primary stays secondary, since a primary too many is worse than none, and says so.

use crate::effect::Effect;
use crate::event::CommandId;
use crate::record::Record;
use crate::record::save::Leave;
use crate::refusal::Refusal;
use crate::role::Standing;
use crate::role::asked::Asked;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use helio_format::message::Message;
use helio_format::roles::Roles;

/// How long the queue may take to drain; writers wait for that long at most.
pub(crate) const SWITCH_PATIENCE: Duration = Duration::from_secs(10);
/// How long the peer may take to say that it serves.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// How long the side that asked waits for the whole of it.
pub(crate) const ASKED_PATIENCE: Duration = Duration::from_secs(25);

/// From which side a change of roles begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    /// This node is primary, and hands the role over.
    HandOver,
    /// This node is secondary, and asks its primary.
    Ask,
}

/// What became of a role that was handed over.
#[derive(Clone, Debug)]
pub(crate) enum Handed {
    /// This node is secondary, and its command ends with that result.
    Over(Result<String, Refusal>),
    /// The peer did not become primary. `unfit`: neither can this node.
    Back { refusal: Refusal, unfit: bool },
    /// The peer has not responded.
    Unheard(Refusal),
}

impl Standing {
    /// Begins a change of roles.
    pub(crate) fn switch(
        &mut self,
        command: CommandId,
        way: Switch,
        asked: &mut Asked,
        record: &mut Record,
        turn: &mut Turn,
    ) -> Result<Option<String>, Refusal> {
        match way {
            Switch::HandOver => self.hand_over(Some(command), record, turn),
            Switch::Ask => {
                asked.switch_later(command, turn.now() + ASKED_PATIENCE);
                turn.send(Message::Roles(Roles::SwitchWanted));
                Ok(None)
            }
        }
    }

    /// This primary begins to hand its role over.
    pub(crate) fn hand_over(
        &mut self,
        command: Option<CommandId>,
        record: &mut Record,
        turn: &mut Turn,
    ) -> Result<Option<String>, Refusal> {
        if let Some((volume, fault)) = self.primary().and_then(|p| p.fault()) {
            let volume = turn.config().name_of(volume);
            turn.info(format!("volume {volume} failed on this node ({fault}); switching"));
        }
        turn.push(Effect::DismissClients);
        // The last copy goes to the peer: only a demotion is refused for it.
        self.leave(command, Leave::Hand, None, record, turn)
    }
}

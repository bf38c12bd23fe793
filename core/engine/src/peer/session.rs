// SPDX-License-Identifier: Apache-2.0
//! How the conversation with the peer ends: refused, parted, given up (`link.rs` has its state).
//!
//! ```text
//!   Down ──connected──> Waiting ──role settled, hello sent──> Greeting ──the peer's hello──> Up
//!    ^                     │                                     │                           │
//!    └──── hung up ────────┴──────── another peer, lost ─────────┴── refused, lost, parted ──┘
//! ```
//! The link is up before the recovery table is asked: a refusal is told on it.
//! `engine/conversation.rs` says when a peer is lost.

use crate::effect::Effect;
use crate::peer::hang_up::HangUp;
use crate::peer::link::Session;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use helio_format::message::{Message, Parting};
use helio_recovery::{LastDecision, Meaning, meaning_of};

pub(crate) fn out_of_turn(message: &Message) -> String {
    format!("an unexpected message of kind {}", message.code())
}

/// What is logged once a connection lasts where several did not.
pub(crate) fn lasts(peer: &str) -> String {
    format!("the connection to {peer} lasts")
}

/// The peer sent what it may not send. Returns how the conversation is to end.
pub(crate) fn broken_by(offence: &str, turn: &mut Turn) -> HangUp {
    let why = format!("{} broke the protocol: {offence}", turn.config().peer);
    turn.warn(why.clone());
    HangUp::new(Parting::Protocol, why)
}

impl Session {
    /// The sender of the hello is not this group's peer, or cannot be it. Returns why the conversation is to end.
    pub(crate) fn refuse_wrong_peer(&mut self, wrong: &str, turn: &mut Turn) -> String {
        let peer = &turn.config().peer;
        let why = format!("the node at the address of {peer} cannot be the peer: {wrong}");
        turn.warn(why.clone());
        let hint = String::from("use the same configuration file on both nodes");
        self.refuse("wrong-peer", hint);
        why
    }

    /// Refuses the peer by that row of the table. Returns why the conversation is to end.
    pub(crate) fn refuse_by(
        &mut self,
        label: &'static str,
        last: Option<&LastDecision>,
        turn: &mut Turn,
    ) -> String {
        let Some(last) = last else { panic!("{label} refuses without a decision") };
        let Meaning { meaning: text, hint, .. } = meaning_of(last, &turn.config().group);
        let hint = hint.unwrap_or_default();
        turn.warn(format!("{label}: {text}; {hint}"));
        self.refuse(label, hint);
        format!("{label}: {text}")
    }

    /// The peer ends the conversation. Returns why.
    pub(crate) fn parted(&mut self, parting: Parting, text: String, turn: &mut Turn) -> String {
        let peer = turn.config().peer.clone();
        let closed = format!("{peer} closed the connection: {text}");
        let why = if matches!(parting, Parting::RoleChanged | Parting::Stopping) {
            closed
        } else {
            turn.warn(closed);
            format!("{peer} refused: {text}")
        };
        if parting == Parting::VolumeFailed {
            let hint = format!("`helio status {}` on {peer} shows what to do", turn.config().group);
            self.peer_failed(text, hint);
        }
        if parting == Parting::Refused && self.refused().is_none() {
            let hint = format!("`helio status` on {peer} and its log show what to do");
            self.refuse("refused-by-peer", hint);
        }
        turn.push(Effect::Hangup { why: why.clone(), refused: parting == Parting::Refused });
        why
    }

    /// Gives a silent peer up. Returns why, if it is one. `outstanding`: see [`Session::silent`].
    pub(crate) fn give_up(&self, outstanding: Option<Duration>, turn: &mut Turn) -> Option<String> {
        let silent = self.silent(outstanding, turn.config(), turn.now())?;
        let peer = &turn.config().peer;
        let why = format!("{peer} made no progress for {:.1} s", silent.as_secs_f64());
        turn.warn(why.clone());
        turn.push(Effect::Hangup { why: why.clone(), refused: false });
        Some(why)
    }
}

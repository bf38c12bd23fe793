// SPDX-License-Identifier: Apache-2.0
//! What an operator commands of a primary, and which node may carry it out.

use crate::config::{Config, SafeCopy};
use crate::event::CommandId;
use crate::lead::Primary;
use crate::local::Local;
use crate::peer::link::Session;
use crate::peer::permit::Permit;
use crate::record::Record;
use crate::refusal::Refusal;
use crate::resync::Resync;
use crate::role::{Standing, busy};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_units::Mode;

impl Standing {
    /// The primary, which alone carries a command out.
    pub(crate) fn commanded(
        &mut self,
        verb: &str,
        config: &Config,
    ) -> Result<&mut Primary, Refusal> {
        match self {
            _ if self.is_leaving() => Err(busy()),
            Self::Leading { primary, .. } => Ok(primary),
            Self::Following { .. } => Err(self.not_primary(verb, config)),
        }
    }

    pub(crate) fn not_primary(&self, verb: &str, config: &Config) -> Refusal {
        let group = &config.group;
        Refusal::new(
            "not-primary",
            format!("{group} is {} on this node", self.stage().name()),
            match config.peer_name() {
                Some(peer) => format!("`helio {verb} {group}` on the primary, which may be {peer}"),
                None => format!("`helio promote {group}` first"),
            },
        )
    }

    /// Starts a resync on the primary. Returns no text if the command is answered later.
    pub(crate) fn resync(
        &mut self,
        command: CommandId,
        session: &Session,
        record: &Record,
        resync: &mut Resync,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Result<Option<String>, Refusal> {
        let primary = self.commanded("resync", turn.config())?;
        primary.resync(command, session, record, resync, local, turn)
    }

    /// Copies everything, if a full resync may start. Returns no text if the command is answered later.
    pub(crate) fn full_resync(
        &mut self,
        command: CommandId,
        session: &Session,
        (resync, record): (&mut Resync, &mut Record),
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> Result<Option<String>, Refusal> {
        let config = turn.config();
        let primary = self.commanded("resync --full", config)?;
        primary.refuse_lacking("resync", config)?;
        primary.refuse_while_suspect(local, config)?;
        // What the record of a seed is about to clear must not be marked before.
        if resync.seed().is_being_recorded() {
            return Err(busy());
        }
        match primary.copy_all(session, resync, record, local, permit, turn) {
            None => primary.resync(command, session, record, resync, local, turn),
            seed_cancelled => Ok(seed_cancelled),
        }
    }

    /// Nothing is sent until the operator resumes.
    pub(crate) fn pause(
        &mut self,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> Result<Option<String>, Refusal> {
        let primary = self.commanded("pause", turn.config())?;
        primary.refuse_lacking("pause", turn.config())?;
        Ok(Some(primary.pause_commanded(local, permit, turn)))
    }

    /// Ends a pause as a resync does.
    pub(crate) fn resume(
        &mut self,
        command: CommandId,
        session: &Session,
        record: &Record,
        resync: &mut Resync,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Result<Option<String>, Refusal> {
        let Some(primary) = self.primary() else {
            return Err(self.not_primary("resume", turn.config()));
        };
        if primary.owed().is_paused() {
            return self.resync(command, session, record, resync, local, turn);
        }
        let group = &turn.config().group;
        Err(Refusal::new(
            "not-paused",
            format!("{group} is not paused"),
            format!(
                "`helio resync {group}` copies dirty regions; `helio status {group}` shows the state"
            ),
        ))
    }

    /// The next resync preserves nothing on the peer.
    pub(crate) fn give_up_safe_copy(
        &mut self,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        if let Some(primary) = self.primary_mut() {
            primary.give_up_safe_copy(local, permit, turn);
        }
    }

    /// The primary's mode is the mode of the group, and its secondary takes it over. A secondary without a primary may be
    /// promoted next. Returns what the change means.
    pub(crate) fn set_mode(
        &mut self,
        mode: Mode,
        session: &mut Session,
        local: &Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> Result<Option<String>, Refusal> {
        if mode == Mode::Periodic {
            may_be_periodic(turn.config())?;
        }
        let (group, peer) = (&turn.config().group, &turn.config().peer);
        let text = if self.leads() {
            format!("the mode of {group} is {mode} until a restart; to keep it, change the file")
        } else if session.peer().is_some_and(|peer| peer.serving) {
            return Err(Refusal::new(
                "not-primary",
                format!("{peer} is primary of {group}, and its mode is the mode of the group"),
                format!("`helio mode {group} {mode}` on {peer}"),
            ));
        } else {
            format!("the mode of {group} is {mode} if this node is promoted next")
        };
        turn.set_mode(mode);
        if let Some(primary) = self.primary_mut() {
            primary.mode_changed(local, permit, turn);
        }
        session.ping_by(permit.lease().ping_at(turn.now()));
        Ok(Some(text))
    }

    /// Begins the figures of a primary's queue again.
    pub(crate) fn reset_queue_marks(&mut self, turn: &Turn) -> Result<Option<String>, Refusal> {
        match self {
            Self::Leading { primary, .. } => Ok(Some(primary.reset_queue_marks(turn))),
            Self::Following { .. } => Err(self.not_primary("queue reset", turn.config())),
        }
    }
}

/// Refuses mode periodic where it cannot do what it promises.
fn may_be_periodic(config: &Config) -> Result<(), Refusal> {
    let group = &config.group;
    let refuse = |text: String, hint: &str| Err(Refusal::new("periodic", text, hint));
    match config.safe_copy {
        SafeCopy::Off => refuse(
            format!("mode periodic needs a safe copy, and `safe-copy` of {group} is off"),
            "set `safe-copy` in the configuration file, then `helio apply` on both nodes",
        ),
        SafeCopy::On { .. } if !config.hold.is_zero() => refuse(
            format!("mode periodic grants no hold lease, and `hold` of {group} is set"),
            "remove `hold` from the configuration file, then `helio apply` on both nodes",
        ),
        SafeCopy::On { .. } => Ok(()),
    }
}

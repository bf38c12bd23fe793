// SPDX-License-Identifier: Apache-2.0
//! How a shard stops: its groups stop cleanly, but for those whose disk is silent. Such a disk, of a member or of metadata, may
//! never complete what is under way on it. Once no group waits for anything else, and the engines have had their time to send
//! what is queued, the shard ends without that disk, as if this node had crashed.

use super::Shard;
use crate::shard::group::Group;
use crate::shard::isolate::Health;
use anyhow::{Result, bail};
use helio_driver::Driver;
use helio_engine::{Command, STOP_PATIENCE};
use helio_units::{MemberState, Moment};
use std::time::Duration;
use tokio::sync::oneshot;

/// A silent disk that alone keeps the shard from its end gets this much more time: longer than a stop sends what is queued.
const SILENT_PATIENCE: Duration = STOP_PATIENCE.saturating_add(Duration::from_secs(5));

/// How far a shard's stop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It serves.
    No,
    /// Its groups stop.
    Begun,
    /// Since then every group that has not stopped has a silent disk.
    HeldUp(Moment),
}

impl Stop {
    /// When a shard that is held up ends.
    pub(super) fn deadline(self) -> Moment {
        match self {
            Self::No | Self::Begun => Moment::NEVER,
            Self::HeldUp(since) => since + SILENT_PATIENCE,
        }
    }
}

impl Group {
    /// The names of the volumes whose disks are in a state.
    fn with_disks(&self, wanted: MemberState, now: Moment) -> Vec<&str> {
        let status = self.engine.view().status(now);
        let all = self.volumes.iter().zip(status.members);
        all.filter(|(_, state)| *state == wanted).map(|(volume, _)| volume.name.as_str()).collect()
    }

    /// The silent disks without which it cannot stop. None if it waits for the peer.
    fn held_up_by(&self, now: Moment) -> Vec<String> {
        if self.engine.view().stop_wants_peer() {
            return Vec::new();
        }
        let members = self.with_disks(MemberState::Silent, now).into_iter();
        let members = members.map(|volume| format!("the disk of {}/{volume} is silent", self.name));
        let silent = |file| format!("the disk of the metadata file {file} is silent");
        members.chain(self.metadata.silent().map(silent)).collect()
    }
}

impl<D: Driver> Shard<D> {
    /// Begins to stop everything.
    pub(super) fn stop(&mut self, now: Moment) {
        if self.stop != Stop::No {
            return;
        }
        self.stop = Stop::Begun;
        for listener in self.client_listeners.iter().chain(&self.peer_listener) {
            self.driver.cancel(listener);
        }
        self.clients.dismiss(None, &mut self.driver);
        self.attached.dismiss(None, "the daemon stops", &mut self.driver);
        for (index, group) in self.groups.iter_mut().enumerate() {
            self.rota.stir(index);
            let (reply, _nobody_waits) = oneshot::channel();
            group.guarded(|group| group.command(now, Command::Stop, reply));
        }
    }

    /// Whether it ends now.
    pub(super) fn ends(&mut self, now: Moment) -> bool {
        if self.stop == Stop::No || self.leaving.iter().any(Option::is_some) {
            return false;
        }
        let is_done = |group: &&Group| group.at_rest() && !group.finishes_writes(now);
        let mut waiting = self.groups.iter().filter(|group| !is_done(group)).peekable();
        if waiting.peek().is_none() {
            return true;
        }
        let held_up = waiting.all(|group| !group.held_up_by(now).is_empty());
        self.stop = match self.stop {
            _ if !held_up => Stop::Begun,
            Stop::HeldUp(since) => Stop::HeldUp(since),
            Stop::No | Stop::Begun => Stop::HeldUp(now),
        };
        now >= self.stop.deadline()
    }

    /// Logs on which disks operations are still under way.
    ///
    /// # Errors
    /// Groups that did not stop cleanly, and why.
    pub(super) fn ended(&self, now: Moment) -> Result<()> {
        let mut held_up = Vec::new();
        // Nothing of a group that panicked is looked at again.
        for group in self.groups.iter().filter(|group| group.health == Health::Sound) {
            let name = |volume: &&str| format!("{}/{volume}", group.name);
            if group.at_rest() {
                let late = group.with_disks(MemberState::GivenUp, now);
                for volume in late.iter().map(name) {
                    tracing::warn!(
                        "the daemon ends with operations on the disk of {volume} that have not completed\n  hint: check \
                         the disk; `helio resync {}` rewrites it from the peer after the next start",
                        group.name
                    );
                }
                let members = group.late_members();
                for (volume, path) in members.iter().filter(|(volume, _)| !late.contains(volume)) {
                    tracing::warn!(
                        "the daemon ends with operations on {path} of {} that have not completed\n  hint: check the disk",
                        name(volume)
                    );
                }
            } else {
                let disks = group.held_up_by(now).join(", ");
                held_up.push(format!("group {} did not stop cleanly: {disks}", group.name));
            }
        }
        if held_up.is_empty() {
            return Ok(());
        }
        bail!(
            "{}. The next start recovers as after a crash; acknowledged writes on the disk are kept\n  hint: check the disk, then \
             start the daemon",
            held_up.join("; ")
        )
    }
}

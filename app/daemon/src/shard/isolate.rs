// SPDX-License-Identifier: Apache-2.0
//! A panic in one group ends that group and no other.
//!
//! ```text
//!   guarded step ──panic──> failed ──its next turn──> clients, devices and the peer's connection are dropped
//! ```
//! Nothing of the group is run again: what its engine held is in no known state. What is under way on its members ends
//! and is passed over; their buffers are shared, and go back once the last operation has let go. NBD clients get no answer
//! and lose their connection. An attached device gets I/O errors, as from a disk that failed: such a write or flush may
//! or may not have been done. The members stay open and locked, so that no other process writes them while operations
//! of this one are under way.

use crate::failed;
use crate::shard::Shard;
use crate::shard::group::{Group, Wanted};
use crate::shard::payloads::Payloads;
use crate::shard::release::Releasing;
use helio_driver::Driver;
use helio_engine::Refusal;
use helio_units::Moment;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How far the end of a group is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Health {
    #[default]
    Sound,
    /// It panicked with these words.
    Failed(String),
    /// Nobody is served from it any more.
    Ended,
}

impl Group {
    /// Runs a step of a group; none, and never again, once one panicked. It is unwind safe since nothing of the group is
    /// looked at afterwards, and a panic inside the driver ends the daemon.
    pub(crate) fn guarded<T>(&mut self, step: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.health != Health::Sound {
            return None;
        }
        match catch_unwind(AssertUnwindSafe(|| step(self))) {
            Ok(done) => Some(done),
            Err(panicked) => {
                self.health = Health::Failed(failed::of_panic(panicked));
                None
            }
        }
    }

    /// Whether clients, peers and operators find it.
    pub(crate) fn is_served(&self) -> bool {
        self.health == Health::Sound && !self.is_released()
    }

    /// Everything of it that waits for something is let go; nothing more is begun.
    fn let_go(&mut self) {
        self.discard_effects();
        self.payloads = Payloads::default();
        self.tap = None;
        let refusal = || {
            let text = format!("group {} failed on this node", self.name);
            Refusal::new("group-failed", text, "see `helio status` and the log")
        };
        let refused = refusal();
        let commands = std::mem::take(&mut self.commands).into_values();
        for reply in commands.chain(self.merges.take()) {
            // An asker that has gone wants no answer.
            let _gone = reply.send(Err(refused.clone()));
        }
        if let Releasing::Stopping { reply, .. } = std::mem::take(&mut self.releasing) {
            let _gone = reply.send(Err(refused));
        }
    }
}

impl<D: Driver> Shard<D> {
    /// Ends a group that panicked. Returns whether it is one.
    pub(super) fn end_failed(&mut self, index: usize, now: Moment) -> bool {
        let group = &mut self.groups[index];
        let why = match std::mem::replace(&mut group.health, Health::Ended) {
            Health::Sound => {
                group.health = Health::Sound;
                return false;
            }
            Health::Ended => return true,
            Health::Failed(why) => why,
        };
        // What was to be answered is not known to be right; connections to be parted end without last words.
        for wanted in std::mem::take(&mut self.wanted) {
            if let Wanted::Part { socket, .. } = wanted {
                self.driver.cancel(&socket);
            }
        }
        let parted = catch_unwind(AssertUnwindSafe(|| group.link.part(true, true, now)));
        if let Ok(Some((socket, _))) = parted {
            self.driver.cancel(&socket);
        }
        group.let_go();
        let name = group.name.clone();
        let Self { clients, attached, requests, driver, .. } = self;
        clients.abandon(index, requests, driver);
        attached.abandon((index, &format!("group {name} failed")), requests, driver);
        let hint = "restart the daemon: this group then recovers as after a crash; report this bug with the log";
        self.failures.add(&name, (why, hint.to_owned()), true);
        self.watch.failed(index, &self.groups[index], &self.failures, &self.clock);
        true
    }
}

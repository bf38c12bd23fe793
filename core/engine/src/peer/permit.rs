// SPDX-License-Identifier: Apache-2.0
//! What may be answered without the peer's word: its lease must have run out, and a pause must have been checked.

use crate::config::Config;
use crate::peer::lease::Lease;
use crate::peer::pause::Pause;
use alloc::string::String;
use helio_units::Moment;

#[derive(Clone, Debug, Default)]
pub(crate) struct Permit {
    /// What was granted, and who may take over without being asked.
    pub(crate) lease: Lease,
    /// Whether this process must check that it was not succeeded while it was paused.
    pub(crate) pause: Pause,
}

impl Permit {
    pub(crate) fn starting(lease: Lease) -> Self {
        Self { lease, pause: Pause::default() }
    }

    /// Whether an answer without the peer's word must wait.
    pub(crate) fn withholds(&self, now: Moment) -> bool {
        self.lease.withholds(now) || self.pause.withholds()
    }

    /// What that means for a primary's clients.
    pub(crate) fn text(&self, config: &Config, now: Moment) -> Option<String> {
        self.lease.text(&config.peer, now).or_else(|| self.pause.text(config))
    }
}

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
    lease: Lease,
    /// Whether this process must check that it was not succeeded while it was paused.
    pause: Pause,
}

impl Permit {
    pub(crate) fn starting(lease: Lease) -> Self {
        Self { lease, pause: Pause::default() }
    }

    #[inline]
    pub(crate) const fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) const fn lease_mut(&mut self) -> &mut Lease {
        &mut self.lease
    }

    #[inline]
    pub(crate) const fn pause(&self) -> &Pause {
        &self.pause
    }

    pub(crate) const fn pause_mut(&mut self) -> &mut Pause {
        &mut self.pause
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

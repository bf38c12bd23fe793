// SPDX-License-Identifier: Apache-2.0
//! What is shown of a primary.

use crate::lead::Primary;
use core::time::Duration;
use helio_units::Bytes;
use helio_units::Moment;
use helio_units::Rate;

/// An update under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncStatus {
    /// Bytes to copy when it began.
    pub to_copy: Bytes,
    /// Bytes compared or sent, and durable at the peer.
    pub copied: Bytes,
    /// Bytes that had to be sent for that.
    pub shipped: Bytes,
    /// For how long it runs.
    pub running: Duration,
    /// Bytes copied per second, over the last seconds.
    pub rate: Rate,
    /// When what is left now ends, at this rate.
    pub eta: Option<Duration>,
    /// What is left becomes less: at this rate of clients' writes it ends.
    pub converges: bool,
    /// The peer is asked for digests first; otherwise most differs, and regions are sent whole.
    pub by_digests: bool,
}

impl Primary {
    pub(crate) fn sync_status(&self, now: Moment) -> Option<SyncStatus> {
        let progress = self.copier.progress();
        ((self.copier.is_running() || self.lack.is_some()) && self.target.streams()).then(|| {
            SyncStatus {
                to_copy: progress.to_copy(),
                copied: progress.copied(),
                shipped: progress.shipped(),
                running: progress.running(now),
                rate: progress.rate(now),
                eta: progress.eta(now),
                converges: progress.converges(),
                by_digests: self.copier.compares(),
            }
        })
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What is shown of a primary.

use crate::lead::Primary;
use crate::show::status::SyncStatus;
use helio_units::Moment;

impl Primary {
    pub(crate) fn sync_status(&self, now: Moment) -> Option<SyncStatus> {
        let progress = &self.copier.progress;
        ((self.copier.is_running() || self.lack.is_some()) && self.flow.is_some()).then(|| {
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

// SPDX-License-Identifier: Apache-2.0
//! What lies in the metadata file beside the superblock, among the other rooms: what fails because it cannot be kept, and when it is due.

use crate::engine::Engine;
use crate::event::StoreOutcome;
use crate::show::view::View;
use helio_bitmap::Bitmap;
use helio_stack::StoreFault;
use helio_units::Moment;

impl Engine {
    /// Nothing can be covered any more: what waits for it fails, and was never issued to the store.
    pub(crate) fn fail_parked(&mut self, fault: StoreFault) {
        for parked in self.local.hot_mut().give_up() {
            self.store_done(Some((parked.io, StoreOutcome::Failed(fault))));
        }
    }
}

impl<'a> View<'a> {
    /// The marks, whoever holds them now.
    pub(crate) fn marks(&self) -> &'a Bitmap {
        self.standing.marks(self.record)
    }

    /// When pages are due.
    pub(crate) fn keep_deadline(&self) -> Moment {
        let short = !self.standing.leads()
            && self.local.hot().is_short()
            && self.turn.now() < self.record.keeping().stuck_at();
        let stuck = if short { self.record.keeping().stuck_at() } else { Moment::NEVER };
        if self.record.keeping().keeps_pages()
            || self.local.metadata_failed()
            || !self.marks().has_unsaved()
        {
            stuck
        } else {
            stuck.min(self.record.keeping().pages_due())
        }
    }
}

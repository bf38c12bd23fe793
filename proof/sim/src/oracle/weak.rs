// SPDX-License-Identifier: Apache-2.0
//! The oracle of a story in which a disk lied: what was called flushed may be gone, so nothing is asked of the images but
//! that in the end a verify finds what differs. Requests are answered once all the same.
//!
//! So it is where an operator restores volumes from a copy, except that in the end the images must be equal without a verify. That a
//! restore is all or nothing, the layers' own simulator judges.

use super::{Oracle, View};
use crate::promise::{Promise, Violation, hold};
use helio_twin::{Cluster, Happening, Side};

impl Oracle {
    /// A disk begins to lie.
    pub(crate) fn expect_less(&mut self) {
        self.weak = true;
        self.copies.iter_mut().for_each(|copy| copy.restored = false);
    }

    /// Volumes are restored from a copy: what was answered before counts no more, or does.
    pub(crate) const fn is_rewritten(&mut self) {
        self.rewritten = true;
    }

    /// Whether they were.
    pub(crate) const fn was_rewritten(&self) -> bool {
        self.rewritten
    }

    /// Whether a disk lied in this story.
    pub(crate) fn expects_less(&self) -> bool {
        self.weak
    }

    pub(super) fn observe_weakly(
        &mut self,
        cluster: &Cluster,
        journal: &[Happening],
    ) -> Result<(), Violation> {
        for happening in journal {
            match happening {
                Happening::Changed { side, place, stamp, .. } => {
                    self.note_difference(*side, *place, *stamp);
                }
                Happening::Replied { side, request, .. } => {
                    let asked = self.asked.remove(request);
                    hold(asked.is_some_and(|a| a.side == *side), Promise::AnsweredOnce, || {
                        format!("{side} answers request {} that waits for no answer", request.0)
                    })?;
                }
                Happening::Lied { places, .. } => self.lied(places),
                Happening::Died { side, .. } => self.asked.retain(|_, asked| asked.side != *side),
                Happening::Accused { side, words } => {
                    return Err(Violation::new(Promise::Civil, format!("{side}: {words}")));
                }
                _ => {}
            }
        }
        self.before = Side::BOTH.map(|side| View::of(cluster, side));
        self.judge_passes(cluster)
    }
}

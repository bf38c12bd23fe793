// SPDX-License-Identifier: Apache-2.0
//! The record of the members is older than what happened to them.
//!
//! | a member that is | is from then on |
//! |---|---|
//! | full, and believed | full: the only one |
//! | full | copying: all of it is compared with the one that is believed |
//! | copying | copying: all of it, from the beginning |
//! | removed, whatever its bitmap says | removed without a bitmap: a command returns it, and all of it is copied |
//!
//! What a removed member was written may not be durable, and one that a command removed may be a backup: so neither is compared,
//! nor used at a start.

use super::Set;
use crate::member::{Copying, Lacks, Response, State};
use crate::op::{Op, members};
use helio_bitmap::Bitmap;
use helio_plant::{Plant, planted};

impl Set {
    /// See the module.
    pub(crate) fn doubt_members(&mut self) {
        let (size, region, tick) = (self.place.size, self.place.region, self.count());
        let all =
            |compares| State::Copying(Copying::all(Bitmap::new(&[size], region), tick, compares));
        let believed = self.believed();
        for (n, member) in self.members.iter_mut().enumerate() {
            let Some(member) = member.as_mut().filter(|_| Some(n) != believed) else { continue };
            let doubted = match member.state() {
                State::Full => all(true),
                State::Copying(_) | State::Removed(Lacks::Known { .. })
                    if planted(Plant::OldBitmaps) =>
                {
                    continue;
                }
                State::Copying(copying) => all(copying.compares()),
                State::Removed(Lacks::Known { .. }) => State::Removed(Lacks::Failed),
                State::Removed(Lacks::Unknown | Lacks::Failed) => continue,
            };
            *member.state_mut() = doubted;
        }
    }

    /// The full member that is believed: the first one that responds, and of which nothing under way failed.
    fn believed(&self) -> Option<usize> {
        let failed = self.ops.values().map(Op::failed).fold(0, |all, failed| all | failed);
        let responds = self.which(|member| member.response() == Response::Responds);
        let full = self.full();
        [responds & !failed, !failed, u8::MAX].iter().find_map(|of| members(full & of).next())
    }
}

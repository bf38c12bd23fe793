// SPDX-License-Identifier: Apache-2.0
//! The record of the members is older than what happened to them.
//!
//! | a member that is | is from then on |
//! |---|---|
//! | full, and believed | full: the only one |
//! | any other | removed without a bitmap: a command returns it, and all of it is copied |
//!
//! No member is compared, not even an unproven one: that is what the host calls a member that the record does not name. A flush of it may
//! have failed since. Data that such a flush did not make durable can still be read until the power is cut, and no later flush proves it.
//!
//! The record does not tell which member was removed since. So the one that is believed may be the old one, and another one may be the
//! only one that holds the last writes: nothing is written to it before an administrator says so.

use super::Set;
use crate::member::{Lacks, Response, State};
use crate::op::{Op, members};
use helio_plant::{Plant, planted};

impl Set {
    /// See the module.
    pub(crate) fn doubt_members(&mut self) {
        let believed = self.believed();
        for (n, member) in self.members.iter_mut().enumerate() {
            let Some(member) = member.as_mut().filter(|_| Some(n) != believed) else { continue };
            let has_bitmap =
                matches!(member.state(), State::Copying(_) | State::Removed(Lacks::Known { .. }));
            if !(has_bitmap && planted(Plant::OldBitmaps)) {
                *member.state_mut() = State::Removed(Lacks::Failed);
            }
        }
        // What was written in blank regions since is only on the member that is believed.
        self.touch_all();
    }

    /// The full member that is believed: the first one that responds, and of which nothing under way failed.
    fn believed(&self) -> Option<usize> {
        let failed = self.ops.values().map(Op::failed).fold(0, |all, failed| all | failed);
        let responds = self.which(|member| member.response() == Response::Responds);
        let full = self.full();
        [responds & !failed, !failed, u8::MAX].iter().find_map(|of| members(full & of).next())
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Which member of a volume holds what clients read, so that its bytes may be used without the layers.

use crate::contract::RollbackStatus;
use crate::set::Duty;
use crate::stack::Stack;
use helio_plant::{Plant, planted};
use helio_units::{Bytes, MemberIndex, VolumeIndex};

/// Why no member of a volume may be used without the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsettled {
    /// A rollback is not written to the members yet.
    RollingBack(RollbackStatus),
    /// Full members may differ in so many bytes.
    Unmerged(Bytes),
    /// No member is full.
    NoFullMember,
}

impl Stack {
    /// The first member that holds all of a volume as it is read, but for changes under way and for regions that nothing was ever written to
    /// or read from.
    ///
    /// # Errors
    /// Why none does.
    pub fn settled_member(&self, volume: VolumeIndex) -> Result<MemberIndex, Unsettled> {
        if planted(Plant::HandOutUnfit) {
            return Ok(MemberIndex(0));
        }
        if let Some(rollback) = self.rollback() {
            return Err(Unsettled::RollingBack(rollback));
        }
        // Without a set there is one member, which has everything.
        let Some(set) = self.set_status(volume) else { return Ok(MemberIndex(0)) };
        if set.unmerged > Bytes::ZERO {
            return Err(Unsettled::Unmerged(set.unmerged));
        }
        let mut members = (0..).map(MemberIndex).zip(&set.members);
        let full = members.find(|(_, it)| it.is_some_and(|member| member.duty == Duty::Full));
        full.map(|(member, _)| member).ok_or(Unsettled::NoFullMember)
    }
}

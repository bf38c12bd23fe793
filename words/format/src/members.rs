// SPDX-License-Identifier: Apache-2.0
//! The body of the page of member states: what each member of each volume is worth.
//!
//! | bytes of the body | field |
//! |---|---|
//! | 0..3072 | 64 volumes of 6 members of 8 bytes: the state, and 7 zeros |
//! | 3072..4064 | zero |
//!
//! | state | meaning |
//! |---|---|
//! | 0 | the volume has no such member |
//! | 1 | good: the member holds all of the volume |
//! | 2 | suspect: a flush of it failed, and its blocks were not written again since |
//! | 3 | copying: the member is written, and gets what its bitmap and the hot extents say that it lacks |
//! | 4 | removed: the member is not used; it lacks what its bitmap and the hot extents say, and nothing else |
//! | 5 | unproven: the member is not used; what it lacks is not known, so it lacks everything |
//! | 6 | failed: as unproven, and the member may hold data that is not durable, so it is not compared |
//!
//! A body is valid if and only if every zero and every state is as these tables say, and volumes that the group does not
//! have have no members. The page is written before any other page that changes with it, and flushed: what is built on
//! a member is never recorded before its state. Page, write order and version: [`crate::page`].

use crate::message::VOLUMES_MAX;
use crate::page::{BODY_BYTES, PageError};
use alloc::vec::Vec;

/// Most members of a volume.
pub const MEMBERS_MAX: usize = 6;
/// Bytes of one member.
const ENTRY: usize = 8;

/// What a member is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyHealth {
    /// It holds all of the volume.
    Good,
    /// A flush of it failed, and its blocks were not written again since.
    Suspect,
    /// It is written, and gets what its bitmap and the hot extents say that it lacks.
    Copying,
    /// It is not used; it lacks what its bitmap and the hot extents say.
    Removed,
    /// It is not used; what it lacks is not known.
    Unproven,
    /// The same, and it may hold data that is not durable.
    Failed,
}

/// Every state with its code; a member that the volume does not have has code zero.
const CODES: [(CopyHealth, u8); 6] = [
    (CopyHealth::Good, 1),
    (CopyHealth::Suspect, 2),
    (CopyHealth::Copying, 3),
    (CopyHealth::Removed, 4),
    (CopyHealth::Unproven, 5),
    (CopyHealth::Failed, 6),
];

/// The members of a volume, by their number.
pub type VolumeMembers = [Option<CopyHealth>; MEMBERS_MAX];

/// The body of the page for these volumes.
///
/// # Panics
/// On more volumes than a group has.
#[must_use]
pub fn encode(volumes: &[VolumeMembers]) -> [u8; BODY_BYTES] {
    assert!(volumes.len() <= VOLUMES_MAX, "a group of {} volumes", volumes.len());
    let mut body = [0; BODY_BYTES];
    for (entry, member) in body.chunks_exact_mut(ENTRY).zip(volumes.iter().flatten()) {
        let code = CODES.iter().find(|(state, _)| Some(*state) == *member);
        entry[0] = code.map_or(0, |(_, code)| *code);
    }
    body
}

/// Reads the states of a group that has that many volumes.
///
/// # Errors
/// A byte of it is not as the tables say.
pub fn decode(body: &[u8; BODY_BYTES], volumes: usize) -> Result<Vec<VolumeMembers>, PageError> {
    let mut found = Vec::from_iter((0..volumes).map(|_| [None; MEMBERS_MAX]));
    let mut members = found.iter_mut().flatten();
    for entry in body.chunks_exact(ENTRY) {
        let [code, 0, 0, 0, 0, 0, 0, 0] = *entry else { return Err(PageError::Damaged) };
        let state = CODES.iter().find(|(_, known)| *known == code).map(|(state, _)| *state);
        if state.is_none() && code != 0 {
            return Err(PageError::Damaged);
        }
        match members.next() {
            Some(member) => *member = state,
            None if state.is_none() => {}
            None => return Err(PageError::Damaged),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back_and_stand_where_the_table_says() {
        let mut volumes = [[None; MEMBERS_MAX]; VOLUMES_MAX];
        volumes[0][0] = Some(CopyHealth::Good);
        volumes[1][5] = Some(CopyHealth::Suspect);
        volumes[63][5] = Some(CopyHealth::Good);
        for (member, (state, code)) in CODES.iter().enumerate() {
            volumes[2][member] = Some(*state);
            assert_eq!(encode(&volumes)[8 * (12 + member)], *code);
        }
        let body = encode(&volumes);
        assert_eq!((body[0], body[8 * 11], body[3064], body[3072]), (1, 2, 1, 0));
        assert_eq!(decode(&body, VOLUMES_MAX).as_deref(), Ok(&volumes[..]));
    }

    #[test]
    fn what_the_tables_do_not_have_is_damage() {
        let body = encode(&[[Some(CopyHealth::Good); MEMBERS_MAX]; 2]);
        assert!(decode(&body, 2).is_ok());
        assert_eq!(
            decode(&body, 1),
            Err(PageError::Damaged),
            "a volume that the group does not have"
        );
        for (at, value) in [(0, 7), (0, 255), (1, 1), (95, 1), (3072, 1), (BODY_BYTES - 1, 1)] {
            let mut odd = body;
            odd[at] = value;
            assert_eq!(decode(&odd, 2), Err(PageError::Damaged), "byte {at}");
        }
    }

    #[test]
    fn a_flipped_byte_is_damage_or_another_state() {
        let mut members = [None; MEMBERS_MAX];
        members.iter_mut().zip(CODES).for_each(|(member, (state, _))| *member = Some(state));
        let body = encode(&[members; 2]);
        for (at, flip) in (0..BODY_BYTES).flat_map(|at| [1, 2, 0x80, 0xFF].map(|flip| (at, flip))) {
            let mut odd = body;
            odd[at] ^= flip;
            assert_ne!(decode(&odd, 2), decode(&body, 2), "byte {at}");
            assert_eq!(decode(&odd, 2).map(|found| encode(&found)).unwrap_or(odd), odd);
        }
    }
}

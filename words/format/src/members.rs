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
}

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
        entry[0] = match member {
            None => 0,
            Some(CopyHealth::Good) => 1,
            Some(CopyHealth::Suspect) => 2,
        };
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
        let state = match entry {
            [0, 0, 0, 0, 0, 0, 0, 0] => None,
            [1, 0, 0, 0, 0, 0, 0, 0] => Some(CopyHealth::Good),
            [2, 0, 0, 0, 0, 0, 0, 0] => Some(CopyHealth::Suspect),
            _ => return Err(PageError::Damaged),
        };
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
        for (at, value) in [(0, 3), (1, 1), (95, 1), (3072, 1), (BODY_BYTES - 1, 1)] {
            let mut odd = body;
            odd[at] = value;
            assert_eq!(decode(&odd, 2), Err(PageError::Damaged), "byte {at}");
        }
    }
}

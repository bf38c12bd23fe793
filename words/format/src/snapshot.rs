// SPDX-License-Identifier: Apache-2.0
//! What a primary tells of a snapshot item: it comes right before the item, and names it.
//!
//! | kind | body, in order |
//! |---|---|
//! | 29 snapshot | sequence u64 of the item, act u8 (1 create, 2 delete, 3 refresh), id of the copy (7 bytes), its name |
//!
//! Integers and names are as in [`crate::message`]; a name of a copy keeps to the rule of [`CopyName`].

use crate::before::CopyId;
use crate::cursor::{Reader, Short, Writer};
use helio_units::{CopyName, Sequence};

/// What is done at an item of the line about point-in-time copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotAct {
    /// A copy of that name is cut: it holds every item before this one, and none behind it.
    Create(CopyName),
    /// The copy of that name is dropped, if it has the id.
    Delete(CopyName),
    /// As for the first. Once it is held, the copy that had the name and the id is dropped.
    Refresh(CopyName),
}

impl SnapshotAct {
    /// The name that it is about.
    #[must_use]
    pub const fn name(&self) -> CopyName {
        match *self {
            Self::Create(name) | Self::Delete(name) | Self::Refresh(name) => name,
        }
    }
}

/// See the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The item.
    pub at: Sequence,
    /// What is done there.
    pub act: SnapshotAct,
    /// To which of the copies that had, have or will have the name.
    pub id: CopyId,
}

impl Snapshot {
    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        w.sequence(self.at);
        let (act, name) = match &self.act {
            SnapshotAct::Create(name) => (1, name),
            SnapshotAct::Delete(name) => (2, name),
            SnapshotAct::Refresh(name) => (3, name),
        };
        w.u8(act);
        self.id.encode(w);
        w.name(name.as_str());
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, Short> {
        let (at, act, id) = (r.sequence()?, r.u8()?, CopyId::decode(r)?);
        let name = CopyName::new(&r.name()?).ok_or(Short)?;
        let act = match act {
            1 => SnapshotAct::Create(name),
            2 => SnapshotAct::Delete(name),
            3 => SnapshotAct::Refresh(name),
            _ => return Err(Short),
        };
        Ok(Self { at, act, id })
    }
}

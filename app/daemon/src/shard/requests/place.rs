// SPDX-License-Identifier: Apache-2.0
//! What a client or device uses: a volume, this node's copy of it, or a point-in-time copy.

use helio_engine::{CopyNumber, CopyView, View};
use helio_units::VolumeIndex;

/// What requests are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The volume of a primary, which its engine serves.
    Volume { read_only: bool },
    /// The copy of a secondary as it stands, which changes as the primary writes. The store serves it, to be read only.
    Copy,
    /// A point-in-time copy, to be read only, or its branch, on either node. The engine serves it.
    Snapshot(CopyView),
}

impl Target {
    /// What a name stands for on a node of that role. To be written, it is the volume on either node; the engine of a
    /// secondary denies the requests.
    pub(crate) const fn of(read_only: bool, primary: bool) -> Self {
        match (read_only, primary) {
            (true, false) => Self::Copy,
            (read_only, true | false) => Self::Volume { read_only },
        }
    }

    /// What can be opened on a node now.
    pub(crate) fn open(read_only: bool, view: View<'_>) -> Result<Self, Closed> {
        match Self::of(read_only, view.is_primary()) {
            Self::Volume { .. } if !view.is_primary() => Err(Closed::NotPrimary),
            Self::Copy if !view.words().consistent => Err(Closed::Inconsistent),
            target => Ok(target),
        }
    }

    /// Whether nothing may change it.
    pub(crate) const fn is_read_only(self) -> bool {
        match self {
            Self::Volume { read_only } => read_only,
            Self::Snapshot(CopyView::Branch(_)) => false,
            Self::Copy | Self::Snapshot(CopyView::Cut(_)) => true,
        }
    }

    /// Whether it is the copy of a secondary, which changes.
    pub(crate) const fn is_copy(self) -> bool {
        matches!(self, Self::Copy)
    }

    /// Whether who uses it uses the volume of a primary.
    pub(crate) const fn uses_volume(self) -> bool {
        matches!(self, Self::Volume { .. })
    }

    /// Whether who uses it may change the volume of a primary.
    pub(crate) const fn writes_volume(self) -> bool {
        matches!(self, Self::Volume { read_only: false })
    }

    /// Whether what can only be read is another thing, or nothing, after a change of the node's role.
    pub(crate) const fn goes_with_role(self) -> bool {
        matches!(self, Self::Copy | Self::Volume { read_only: true })
    }
}

/// Why nothing can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The volume is not to be written on this node.
    NotPrimary,
    /// The copy is not consistent.
    Inconsistent,
}

/// Where requests go, as the handle of an NBD export holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) group: usize,
    pub(crate) volume: VolumeIndex,
    pub(crate) target: Target,
    /// Whoever uses it uses the volumes of the group alone. Only a volume that can be written is used like that.
    pub(crate) alone: bool,
}

impl Place {
    /// From the lowest bit on: 3 bits of the target's kind, 6 of the volume, 16 of the group, 39 of the copy's number.
    pub(crate) fn pack(self) -> u64 {
        let (target, copy) = match self.target {
            Target::Volume { read_only: false } if self.alone => (5, 0),
            Target::Volume { read_only: false } => (0, 0),
            Target::Volume { read_only: true } => (1, 0),
            Target::Copy => (2, 0),
            Target::Snapshot(CopyView::Cut(copy)) => (3, copy.0),
            Target::Snapshot(CopyView::Branch(copy)) => (4, copy.0),
        };
        let (group, volume) = (self.group as u64, u64::from(self.volume.0));
        assert!(volume < 1 << 6 && group < 1 << 16 && copy < 1 << 39, "no handle for {self:?}");
        copy << 25 | group << 9 | volume << 3 | target
    }

    pub(crate) const fn of(handle: u64) -> Self {
        let copy = CopyNumber(handle >> 25);
        let target = match handle & 7 {
            0 | 5 => Target::Volume { read_only: false },
            1 => Target::Volume { read_only: true },
            2 => Target::Copy,
            3 => Target::Snapshot(CopyView::Cut(copy)),
            _ => Target::Snapshot(CopyView::Branch(copy)),
        };
        let volume = VolumeIndex((handle >> 3) as u16 & 63);
        let alone = handle & 7 == 5;
        Self { group: (handle >> 9) as usize & 0xffff, volume, target, alone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_format::message::VOLUMES_MAX;

    #[test]
    fn a_place_comes_back_as_it_was_packed() {
        let targets = [
            Target::Volume { read_only: false },
            Target::Volume { read_only: true },
            Target::Copy,
            Target::Snapshot(CopyView::Cut(CopyNumber((1 << 39) - 1))),
            Target::Snapshot(CopyView::Branch(CopyNumber((1 << 39) - 1))),
        ];
        let volume = VolumeIndex(VOLUMES_MAX as u16 - 1);
        for target in targets {
            let place = Place { group: 0xffff, volume, target, alone: false };
            assert_eq!(Place::of(place.pack()), place);
        }
        let place = Place { group: 0xffff, volume, target: targets[0], alone: true };
        assert_eq!(Place::of(place.pack()), place);
    }
}

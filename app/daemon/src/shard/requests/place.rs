// SPDX-License-Identifier: Apache-2.0
//! What a client or device uses: a volume, or this node's copy of it.

use helio_engine::View;
use helio_units::VolumeIndex;

/// What requests are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The volume of a primary, which its engine serves.
    Volume { read_only: bool },
    /// The copy of a secondary as it stands, which changes as the primary writes. The store serves it, to be read only.
    Copy,
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
            target @ (Self::Volume { .. } | Self::Copy) => Ok(target),
        }
    }

    /// Whether nothing may change it.
    pub(crate) const fn is_read_only(self) -> bool {
        match self {
            Self::Volume { read_only } => read_only,
            Self::Copy => true,
        }
    }

    /// Whether it is the copy of a secondary.
    pub(crate) const fn is_copy(self) -> bool {
        matches!(self, Self::Copy)
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
}

impl Place {
    pub(crate) fn pack(self) -> u64 {
        let target = match self.target {
            Target::Volume { read_only: false } => 0,
            Target::Volume { read_only: true } => 1,
            Target::Copy => 2,
        };
        (self.group as u64) << 32 | u64::from(self.volume.0) << 2 | target
    }

    pub(crate) const fn of(handle: u64) -> Self {
        let target = match handle & 3 {
            0 => Target::Volume { read_only: false },
            1 => Target::Volume { read_only: true },
            _ => Target::Copy,
        };
        Self { group: (handle >> 32) as usize, volume: VolumeIndex((handle >> 2) as u16), target }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_back_as_it_was_packed() {
        for read_only in [false, true] {
            for target in [true, false].map(|primary| Target::of(read_only, primary)) {
                let place = Place { group: 12_345, volume: VolumeIndex(u16::MAX), target };
                assert_eq!(Place::of(place.pack()), place);
            }
        }
    }
}

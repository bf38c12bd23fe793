// SPDX-License-Identifier: Apache-2.0
//! Block sizes, as clients are told, and as the peer's members need them.

use crate::local::blocks::is_multiple;
use crate::show::view::View;
use helio_format::message::BLOCK_MIN;
use helio_units::{Bytes, Extent, VolumeIndex};

impl View<'_> {
    /// The block size that clients of a volume are to be told. It changes only while nobody uses the volume
    /// ([`crate::Event::Used`]).
    #[must_use]
    pub fn block(&self, volume: VolumeIndex) -> Bytes {
        Bytes(u64::from(self.local.blocks().offered(volume)))
    }

    /// Whether something on the line does not fit the peer's members: it was written while their blocks were smaller, or
    /// not known.
    pub(crate) fn line_does_not_fit(&self) -> bool {
        let (Some(primary), Some(hello)) = (self.standing.primary(), self.peer.session().peer())
        else {
            return false;
        };
        let unfit = |(volume, extent): (VolumeIndex, Extent)| {
            let theirs = hello.blocks.get(usize::from(volume.0));
            theirs.is_some_and(|theirs| !is_multiple(extent, theirs.member))
        };
        // What everybody keeps to is not looked through.
        let larger = hello.blocks.iter().any(|blocks| blocks.member > BLOCK_MIN);
        larger && primary.holds(|item| unfit((item.volume, item.extent)))
    }
}

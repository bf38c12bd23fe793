// SPDX-License-Identifier: Apache-2.0
//! Block sizes as the peer tells them, and as they are recorded.

use crate::engine::Engine;
use crate::local::blocks::is_multiple;
use crate::record::save::Goal;
use crate::show::view::View;
use alloc::format;
use helio_format::message::{BLOCK_MIN, Hello, Parting};
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, VolumeIndex};

impl Engine {
    /// The peer's hello tells the blocks of its members.
    pub(crate) fn learn_blocks(&mut self, hello: &Hello) {
        if !planted(Plant::PeerBlockIgnored) {
            self.local.blocks_mut().learn(&hello.blocks);
        }
    }

    /// Records what the peer told of its blocks, where no other record does soon.
    pub(crate) fn record_blocks(&mut self) {
        let follows = self.standing.streaming().is_some_and(|f| f.is_begun());
        let may = self.standing.serves() || follows;
        let news = may && self.local.blocks().are_news(self.record.superblock());
        if news && !self.record.is_saving() && !self.local.metadata_failed() {
            self.record.want(Goal::Remember);
        }
    }

    /// Refuses a peer whose members need larger blocks than clients here were told. Returns whether it did.
    pub(crate) fn refuse_blocks(&mut self) -> bool {
        let Some(peer) = self.peer.session.peer() else { return false };
        let pairs = (0u16..).map(VolumeIndex).zip(&peer.blocks);
        let mut narrower = pairs
            .map(|(volume, theirs)| (volume, theirs.member, self.local.blocks().offered(volume)));
        let Some((volume, theirs, ours)) = narrower.find(|(_, theirs, ours)| theirs > ours) else {
            return false;
        };
        if planted(Plant::PeerBlockIgnored) {
            return false;
        }
        let config = self.turn.config();
        let (theirs, ours) = (Bytes(theirs.into()), Bytes(ours.into()));
        let why = format!(
            "block-size: {}'s member of volume {} has blocks of {theirs}, and clients on {} use the volume with blocks of \
             {ours}",
            config.peer,
            config.name_of(volume),
            config.node
        );
        let hint = format!(
            "on {}, disconnect the NBD clients of {} and detach its volumes; then blocks of {theirs} are offered, \
             and the clients can connect again",
            config.node, config.group
        );
        self.turn.warn(format!("{why}; {hint}"));
        self.peer.session.refuse("block-size", hint);
        self.hang_up(Parting::Refused, why);
        true
    }
}

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
        let (Some(primary), Some(hello)) = (self.standing.primary(), self.peer.session.peer())
        else {
            return false;
        };
        let unfit = |(volume, extent): (VolumeIndex, Extent)| {
            let theirs = hello.blocks.get(usize::from(volume.0));
            theirs.is_some_and(|theirs| !is_multiple(extent, theirs.member))
        };
        // What everybody keeps to is not looked through.
        let larger = hello.blocks.iter().any(|blocks| blocks.member > BLOCK_MIN);
        larger && primary.line.iter().any(|e| unfit((e.item().volume, e.item().extent)))
    }
}

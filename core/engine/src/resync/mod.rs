// SPDX-License-Identifier: Apache-2.0
//! The copier: brings marked regions to the peer, as items on the line like any other.
//!
//! For runs of marked regions it asks the peer ahead for digests of what is there (`digest.rs`), or goes without
//! where most differs ([`Guess`](helio_copy::Guess)). For each region, or for a row of neighbours that nobody was asked about, it then
//! reserves queue room, asks the gate in turn (earlier writes finish, later ones wait), reads it from the local store and
//! compares it, takes positions for what differs, and gives the gate back: never across a round trip (rule 6). Zeros travel as zeros; where nothing differs,
//! an item of kind Same stands for the region, so that every mark ends in one way: when the last of the region's items
//! is durable at the peer. When no mark is left, a Consistent marker follows: once the peer completed it, its image is
//! in order again. How much is under way at once, [`Pace`](helio_copy::Pace) says.
//! What it keeps stands here; its steps are the primary's (`lead/copying.rs`).

use crate::resync::digest::Teller;
use crate::resync::seed::Seed;
use crate::resync::update::Update;
use crate::resync::verify::Verify;

pub(crate) mod copier;
pub(crate) mod digest;
pub(crate) mod seed;
pub(crate) mod survey;
pub(crate) mod update;
pub(crate) mod verified;
pub(crate) mod verify;

/// What copying and comparing keep beside the primary's own, and serve for the other node's.
#[derive(Clone, Debug)]
pub(crate) struct Resync {
    /// Where a verify is; it outlives the primary that runs it.
    verify: Verify,
    /// Whether an update is wanted, and what it waits for.
    update: Update,
    seed: Seed,
    /// Tells the source what this node holds.
    teller: Teller,
}

impl Resync {
    pub(crate) fn new(volumes: usize) -> Self {
        let (update, seed, teller) = (Update::default(), Seed::default(), Teller::default());
        Self { verify: Verify::new(volumes), update, seed, teller }
    }

    #[inline]
    pub(crate) const fn verify(&self) -> &Verify {
        &self.verify
    }

    #[inline]
    pub(crate) const fn verify_mut(&mut self) -> &mut Verify {
        &mut self.verify
    }

    #[inline]
    pub(crate) const fn update(&self) -> &Update {
        &self.update
    }

    #[inline]
    pub(crate) const fn update_mut(&mut self) -> &mut Update {
        &mut self.update
    }

    #[inline]
    pub(crate) const fn seed(&self) -> &Seed {
        &self.seed
    }

    #[inline]
    pub(crate) const fn seed_mut(&mut self) -> &mut Seed {
        &mut self.seed
    }

    #[inline]
    pub(crate) const fn teller_mut(&mut self) -> &mut Teller {
        &mut self.teller
    }
}

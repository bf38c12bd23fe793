// SPDX-License-Identifier: Apache-2.0
//! The engine, to be read.

use crate::copies::Copies;
use crate::follow::before::Keeper;
use crate::local::Local;
use crate::peer::Peer;
use crate::peer::permit::Permit;
use crate::record::Record;
use crate::resync::Resync;
use crate::role::Standing;
use crate::role::asked::Asked;
use crate::show::Show;
use crate::turn::Turn;
use helio_stack::SetStatus;
use helio_units::{Moment, VolumeIndex};

/// What may be read of the engine: its rooms, borrowed. It decides nothing and changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(crate) turn: &'a Turn,
    pub(crate) local: &'a Local,
    pub(crate) permit: &'a Permit,
    pub(crate) standing: &'a Standing,
    pub(crate) peer: &'a Peer,
    pub(crate) record: &'a Record,
    pub(crate) resync: &'a Resync,
    pub(crate) keeper: &'a Keeper,
    pub(crate) copies: &'a Copies,
    pub(crate) asked: &'a Asked,
    pub(crate) show: &'a Show,
}

impl View<'_> {
    /// How the members of a volume are, where a layer keeps its members alike, be it only one.
    #[must_use]
    pub fn set_status(&self, volume: VolumeIndex) -> Option<SetStatus> {
        self.local.set_status(volume)
    }

    /// This node's metadata was found older than the state that its peer has on record, and what follows of that for members is durable.
    #[must_use]
    pub fn doubted_members(&self) -> bool {
        self.local.doubted_members()
    }

    /// The volumes, a bit for each, in which layers have work that no operation waits for, and could begin it now: none while the
    /// node stops, or leaves the primary role.
    #[must_use]
    pub fn background(&self, now: Moment) -> u64 {
        if self.standing.is_ending() { 0 } else { self.local.background(now) }
    }
}

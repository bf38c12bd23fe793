// SPDX-License-Identifier: Apache-2.0
//! The engine, to be read.

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
    pub(crate) asked: &'a Asked,
    pub(crate) show: &'a Show,
}

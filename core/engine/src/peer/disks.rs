// SPDX-License-Identifier: Apache-2.0
//! The disks of both nodes: one that both reach is written by two owners, so the peer is refused.
//!
//! Each node sends what tells its disks behind the hello that it accepts, before anything that has the peer write; so a secondary compares
//! before it writes, and a primary before it reads from its peer.

use crate::event::OwnDisk;
use crate::peer::Peer;
use crate::peer::hang_up::HangUp;
use crate::refusal::Refusal;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_format::disks::Disk;
use helio_format::message::{Message, Parting};

/// What helps if it is known to be no fault.
const HINT: &str = "give each node disks of its own, and remove the shared one from the configuration of one node. If these are two disks \
                    that report one identity, as those of a copied machine may: give one of them another identity, or set `own-disk = true` for its \
                    member in the configuration, then `helio apply`";

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disks {
    ours: Vec<OwnDisk>,
    /// How many the peer knows of on this connection.
    told: usize,
    /// What the peer sent on this connection.
    theirs: Vec<Disk>,
}

impl Peer {
    /// This is what the volumes lie on from now on. A connected peer compares it with its own.
    pub(crate) fn use_disks(&mut self, ours: Vec<OwnDisk>, turn: &mut Turn) {
        self.disks.ours = ours;
        if self.session.peer().is_some() {
            self.send_disks(turn);
        }
    }

    /// The peer's hello is accepted.
    pub(crate) fn begin_disks(&mut self, turn: &mut Turn) {
        (self.disks.theirs, self.disks.told) = (Vec::new(), 0);
        self.send_disks(turn);
    }

    fn send_disks(&mut self, turn: &mut Turn) {
        let Disks { ours, told, .. } = &mut self.disks;
        // That there are none is news only to a peer that knows of some.
        if *told > 0 || !ours.is_empty() {
            turn.send(Message::Disks(ours.iter().map(|own| own.disk).collect()));
            *told = ours.len();
        }
    }

    /// The peer sent what its volumes lie on. One that has a disk of this node is refused.
    pub(crate) fn compare_disks(&mut self, theirs: Vec<Disk>, turn: &mut Turn) -> Option<HangUp> {
        self.disks.theirs = theirs;
        let shared = shared(&self.disks.ours, &self.disks.theirs, turn)?;
        let why = format!("same-disk: {shared}");
        turn.warn(format!("{why}; {HINT}"));
        self.session.refuse("same-disk", String::from(HINT));
        Some(HangUp::new(Parting::Refused, why))
    }

    /// Whether these may become disks of a volume.
    ///
    /// # Errors
    /// The connected peer has one of them.
    pub(crate) fn may_use(&self, disks: &[OwnDisk], turn: &Turn) -> Result<(), Refusal> {
        let theirs = self.session.peer().map_or(&[][..], |_| &self.disks.theirs);
        match shared(disks, theirs, turn) {
            Some(shared) => Err(Refusal::new("same-disk", shared, HINT)),
            None => Ok(()),
        }
    }
}

/// The first of these that the peer has, too.
fn shared(ours: &[OwnDisk], theirs: &[Disk], turn: &Turn) -> Option<String> {
    let config = turn.config();
    ours.iter().find_map(|own| {
        let other = theirs.iter().find(|other| other.is_shared_with(&own.disk))?;
        Some(format!(
            "{} of volume {} on {} is a disk of volume {} on {}, too",
            own.path,
            config.name_of(own.disk.volume),
            config.node,
            config.name_of(other.volume),
            config.peer
        ))
    })
}

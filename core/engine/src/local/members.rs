// SPDX-License-Identifier: Apache-2.0
//! Whether every volume still lies on the disk it lay on (rule 11).
//!
//! The record keeps each member's identity. One that has another identity now than the record says is *foreign*: nothing
//! the record tells is about it. A node with such a member never leads, and follows only a stream that compares
//! everything; with the beginning of that the record takes the new identity. Until then nothing is recorded, so whoever
//! puts the right disk back finds everything as it was. A group that never took part has nothing to lose.

use crate::config::Config;
use crate::event::MemberFound;
use crate::refusal::Refusal;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_format::superblock::Superblock;
use helio_plant::{Plant, planted};
use helio_units::{Generation, VolumeIndex};

/// See the module's words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    found: Vec<u128>,
    foreign: Foreign,
}

/// Which member is another one than the record says, and what both are.
#[derive(Clone, Debug, Default)]
pub(crate) enum Foreign {
    #[default]
    None,
    /// The log does not say so yet.
    Found(String),
    /// It does, or an operator put it there.
    Known(String),
}

impl Foreign {
    const fn text(&self) -> Option<&String> {
        match self {
            Self::None => None,
            Self::Found(text) | Self::Known(text) => Some(text),
        }
    }
}

impl Members {
    /// Holds what was found against what the record says.
    pub(crate) fn look(record: &Superblock, found: &[MemberFound]) -> Self {
        let known = record.lineage.generation != Generation::NONE;
        let mut foreign: Option<String> = None;
        for (expected, found) in record.members.iter().zip(found) {
            let other = *expected != 0 && *expected != found.identity;
            if other && known && !planted(Plant::TrustAnyDisk) {
                let text = format!("{}; the recorded disk is {expected:032x}", found.shown);
                foreign =
                    Some(foreign.map_or(text.clone(), |earlier| format!("{earlier}; {text}")));
            }
        }
        let found = found.iter().map(|found| found.identity).collect();
        Self { found, foreign: foreign.map_or(Foreign::None, Foreign::Found) }
    }

    /// A member is another one than it was.
    pub(crate) fn are_foreign(&self) -> bool {
        self.foreign.text().is_some()
    }

    /// Another disk lies in a volume's place. One that follows is foreign to its record until that tells of it.
    pub(crate) fn put(&mut self, volume: VolumeIndex, name: &str, identity: u128, leads: bool) {
        if let Some(found) = self.found.get_mut(usize::from(volume.0)) {
            *found = identity;
        }
        if !leads {
            self.foreign = Foreign::Known(format!("volume {name} moves to disk {identity:032x}"));
        }
    }

    /// Whether a volume lies on the disk that the record names, as far as anything tells.
    pub(crate) fn is_put_back(&self, record: &Superblock, volume: VolumeIndex) -> bool {
        let at = usize::from(volume.0);
        record.members.get(at) == self.found.get(at)
    }

    /// Whether nothing tells that a volume lies on another disk than the record names. The record may not know its disk.
    pub(crate) fn is_unmoved(&self, record: &Superblock, volume: VolumeIndex) -> bool {
        let at = usize::from(volume.0);
        let recorded = record.members.get(at).filter(|recorded| **recorded != 0);
        let moved = recorded.zip(self.found.get(at)).is_some_and(|(one, other)| one != other);
        !moved && !self.are_foreign()
    }

    /// What the next record says of them. `takes`: any disk is the right one from then on.
    pub(crate) fn record(&self, b: &mut Superblock, takes: bool) {
        if !self.are_foreign() || takes {
            for (recorded, found) in b.members.iter_mut().zip(&self.found) {
                *recorded = *found;
            }
        }
    }

    /// A record is durable from which on any disk is the right one.
    pub(crate) fn taken(&mut self) {
        self.foreign = Foreign::None;
    }

    /// What is wrong, for people.
    pub(crate) fn fault(&self) -> Option<String> {
        self.foreign.text().map(|text| format!("a volume is on another disk: {text}"))
    }

    /// Says once what is wrong.
    pub(crate) fn tell_foreign(&mut self, turn: &mut Turn) {
        let Foreign::Found(text) = &self.foreign else { return };
        self.foreign = Foreign::Known(text.clone());
        // The peer has said nothing yet.
        if let Err(refusal) = self.may_lead(turn.config(), turn.config().peer_name()) {
            turn.warn(format!("{}; {}", refusal.text, refusal.hint));
        }
    }

    /// A node must not lead from a disk that is not the one in its record. `filler`: the peer, if it may be promoted to copy everything to
    /// this disk.
    pub(crate) fn may_lead(&self, config: &Config, filler: Option<&str>) -> Result<(), Refusal> {
        let Some(fault) = self.fault() else { return Ok(()) };
        let Config { group, node, .. } = config;
        let or = filler.map_or_else(String::new, |peer| {
            format!(
                "`helio promote {group}` on {peer}, which copies to this disk; if {peer} refuses because {node} may have writes of \
                 its own: first `helio resolve {group} --discard {node}` on {node}; or, "
            )
        });
        Err(Refusal::new(
            "another-disk",
            format!("{group}: {fault}"),
            format!(
                "put the right disk back and restart the daemon; or {or}if this disk is an exact copy of the recorded one, stop \
                 the daemon, `helio metadata accept {group}`, start it, and promote one node"
            ),
        ))
    }
}

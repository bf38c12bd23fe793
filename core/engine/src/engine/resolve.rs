// SPDX-License-Identifier: Apache-2.0
//! Whether one side of two that diverged may be given up, and what would be lost (`role/resolve.rs` has the rules).

use crate::refusal::Refusal;
use crate::role::resolve::{Stake, Unknown};
use crate::role::{Following, Leading, Stage, busy, recording};
use crate::show::view::View;
use alloc::format;
use alloc::vec::Vec;
use helio_format::lineage::Lineage;
use helio_format::message::Hello;
use helio_plant::{Plant, planted};
use helio_recovery::{self as recovery, Verdict};
use helio_units::{Bytes, Extent, Generation, VolumeIndex};

impl View<'_> {
    /// What would be lost if this node gave up its side. `last_copy`: even if that is the last complete copy.
    ///
    /// # Errors
    /// It is primary, or follows one: there is nothing to give up. Or its copy may be the last complete one.
    pub fn stake(&self, last_copy: bool) -> Result<Stake, Refusal> {
        let (node, group) = (&self.turn.config().node, &self.turn.config().group);
        match self.standing.stage() {
            Stage::Following(Following::Secondary | Following::Returning)
                if self.record.is_saving() =>
            {
                Err(recording())
            }
            Stage::Following(Following::Secondary | Following::Returning) => {
                let follows = self.peer.session().peer().is_some_and(|peer| peer.serving);
                let generation = self.record.superblock().lineage.generation;
                if follows || generation == Generation::NONE {
                    return Err(Refusal::new(
                        "nothing-to-resolve",
                        format!(
                            "there is no conflict: {node} has no writes of {group} that its peer refuses"
                        ),
                        format!("`helio explain {group}` shows how the copies are related"),
                    ));
                }
                // What was received and cannot be applied would be in the way.
                if let Some((volume, fault)) = self.standing.failed() {
                    return Err(self.standing.volume_refusal(volume, fault, self.turn.config()));
                }
                self.refuse_last_complete(last_copy)?;
                let unknown = self.unknown_to_both().or_else(|| self.unknown_of_peer());
                Ok(Stake::of(self.record.superblock(), self.differing(unknown), unknown))
            }
            Stage::Leading(Leading::Primary) => Err(Refusal::new(
                "is-primary",
                format!("{node} is primary for {group}"),
                format!("`helio demote {group}` on {node} first"),
            )),
            _ => Err(busy()),
        }
    }

    /// Whether this node's side, still of that generation, can be given up now. Returns what its lineage is then.
    pub(crate) fn may_give_up(
        &self,
        generation: Generation,
        last_copy: bool,
    ) -> Result<Lineage, Refusal> {
        if self.stake(last_copy)?.generation != generation {
            return Err(Refusal::later(
                "busy",
                "the group changed while its data was being saved",
                format!("repeat; `helio explain {}` shows the state", self.turn.config().group),
            ));
        }
        if self.can_leave_following() { Ok(self.yielded_lineage()) } else { Err(busy()) }
    }

    /// In how much this node's image may differ from the other's: never less than it does, and no more than that and the hot extents unless
    /// its record proves nothing.
    pub(crate) fn may_differ(&self) -> Bytes {
        let differing = self.differing(self.unknown_to_both());
        differing.iter().fold(Bytes::ZERO, |sum, (_, extent)| sum + Bytes(extent.length))
    }

    /// Why no record shows where this node's image differs from the other's, as far as this node knows or its peer told: the metadata
    /// here could not be written, or is older than it was.
    fn unknown_to_both(&self) -> Option<Unknown> {
        let is_void = |ours: &Hello, other: &Hello| {
            other.doubts || recovery::is_older(ours.metadata, other.remembers)
        };
        let now =
            self.peer.session().peer().is_some_and(|peer| is_void(&self.record_as_met(), peer));
        let last = self.show.last_decision().is_some_and(|last| match last.as_source {
            true => is_void(&last.source, &last.target),
            false => is_void(&last.target, &last.source),
        });
        self.unknown().or_else(|| (now || last).then_some(Unknown::NoRecord))
    }

    /// The same for the peer: if it was reset to an earlier state, it lost durable writes that this node's bitmap does not cover. Only the
    /// peer lacks them, so [`View::may_differ`] does not count them. A secondary has this on record, and a primary has marked everything,
    /// except a primary that refused the connection: the last decision shows that case.
    fn unknown_of_peer(&self) -> Option<Unknown> {
        let refused_old = self.show.last_decision().is_some_and(|last| {
            let is_old = last.facts.source_old || last.facts.target_old;
            is_old && recovery::decide(&last.facts).verdict == Verdict::Refuse
        });
        (self.doubts_peer() || refused_old).then_some(Unknown::NoRecord)
    }

    /// Where this node's image may differ from the other's.
    fn differing(&self, unknown: Option<Unknown>) -> Vec<(VolumeIndex, Extent)> {
        if unknown.is_some() {
            let sizes = self.turn.config().volumes.iter().zip(0..);
            return sizes.map(|(size, n)| (VolumeIndex(n), Extent::new(0, size.0))).collect();
        }
        if planted(Plant::StakeWithoutHot) {
            let mut marks = self.marks().clone();
            marks.join_recorded(self.marks());
            return marks.dirty_runs();
        }
        self.own_marks().dirty_runs()
    }

    /// The other's last hello, and what this node says now.
    fn hellos(&self) -> Option<(&Hello, Hello)> {
        let other = self
            .show
            .last_decision()
            .map(|last| if last.as_source { &last.target } else { &last.source });
        let ours =
            if self.peer.session().peer().is_some() { self.hello_as_met() } else { self.hello() };
        Some((self.peer.session().peer().or(other)?, ours))
    }

    /// This secondary was primary, and the table refuses it: it may hold what the other never received.
    pub(crate) fn is_refused_for_writes(&self) -> bool {
        let refuses = |(other, ours): (&Hello, Hello)| {
            recovery::decide(&recovery::facts_of(other, &ours)).verdict == Verdict::Refuse
        };
        let wrote = !self.standing.leads() && self.record.superblock().wrote;
        wrote && self.hellos().is_none_or(refuses)
    }

    /// Where the record goes back to: what both know, if the other takes that; otherwise this node joins as new.
    pub(crate) fn yielded_lineage(&self) -> Lineage {
        let Some((other, ours)) = self.hellos() else { return Lineage::default() };
        let lineage = self.common(&other.lineage);
        let given_up = Hello { lineage, wrote: false, alone: true, clean: false, ..ours };
        let facts = recovery::facts_of(other, &given_up);
        match recovery::decide(&facts).verdict {
            Verdict::Refuse => Lineage::default(),
            _ => lineage,
        }
    }

    /// This node's lineage up to the newest generation that the other knows too.
    fn common(&self, other: &Lineage) -> Lineage {
        let ours = &self.record.superblock().lineage;
        let known = |generation: Generation| {
            other.generation == generation
                || other.ancestors().iter().any(|a| a.generation == generation)
        };
        if known(ours.generation) {
            return *ours;
        }
        let shared = ours.ancestors().iter().skip_while(|a| !known(a.generation));
        let mut line: Vec<_> = shared.collect();
        line.reverse();
        let mut lineage = Lineage::default();
        let mut fork = helio_units::Sequence::ZERO;
        for ancestor in line {
            lineage = lineage.fork(ancestor.generation, fork);
            fork = ancestor.fork;
        }
        lineage
    }
}

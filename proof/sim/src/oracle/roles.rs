// SPDX-License-Identifier: Apache-2.0
//! Who may become primary, with what image.
//!
//! A promotion begins a new truth: the image as it is. What it may lack of the truth before depends on its kind:
//! * a node that led before: nothing it answered, but for what a power cut took and no FLUSH had covered;
//! * one that followed, without force, by its peer's word or its hold lease: nothing that was answered;
//! * one that followed, with force: nothing that was answered in effective sync, but for what a power cut took and no
//!   FLUSH in sync had covered.

use super::history::{History, Image, Serial, Write};
use super::secondary::gave_up;
use super::{Key, Oracle, key};
use crate::promise::{Promise, Violation, hold};
use helio_engine::{CommandId, Refusal};
use helio_format::lineage::Lineage;
use helio_format::superblock::Superblock;
use helio_twin::{Cluster, Side};
use helio_units::{Generation, Role};

impl Oracle {
    /// A record is durable.
    pub(super) fn saved(&mut self, cluster: &Cluster, side: Side) -> Result<(), Violation> {
        self.keeping_recorded(cluster, side)?;
        let Some(record) = cluster.node(side).superblock() else { return Ok(()) };
        if self.only_notes(side, record) {
            return self.look_again(cluster, side);
        }
        self.suspect_recorded(side, record.suspect);
        let commanded =
            self.promoting[side.index()].last().map(|(_, force, asked)| (*force, *asked));
        self.judge_lost(cluster, side, record, commanded)?;
        if record.role == Role::Primary && !record.clean {
            if self.copies[side.index()].serving {
                self.copies[side.index()].consistent = record.consistent;
                self.copies[side.index()].foreign &= record.consistent;
                if self.is_reversal(record) {
                    self.reversed(side, &record.clone());
                    return Ok(());
                }
                self.goes_on_in(side, record.lineage.generation);
                return Ok(());
            }
            // One that comes back may doubt its marks before it knows what it is: whoever stopped uncleanly goes on in
            // another generation, or not at all.
            let own = &self.copies[side.index()];
            if own.unclean && own.generation == self.history_of(record.lineage.generation) {
                return self.look_again(cluster, side);
            }
            let engine = cluster.node(side).engine.as_ref();
            let (leased, begins) = engine
                .map(|e| (e.view().leads_by_lease(), e.view().is_primary()))
                .unwrap_or_default();
            if leased && !begins {
                // It came too late: the record is put back.
                return self.look_again(cluster, side);
            }
            return self.promoted(cluster, side, commanded);
        }
        if core::mem::take(&mut self.copies[side.index()].serving) {
            self.leads_no_more();
        }
        self.copies[side.index()].foreign &= record.consistent;
        // One whose files were replaced doubts its marks as soon as it hears so, and the other may be made to doubt its
        // own by what those files remember: nothing is adopted by that.
        let doubts = record.marks_void && self.copies.iter().any(|copy| copy.restored);
        // Nor by the record that the peer's metadata fails.
        let told = record.peer_invalid != Generation::NONE
            && record.peer_invalid != self.copies[side.index()].doubts_peer;
        // Nor by the record that its own flush failed.
        let suspect = record.suspect != 0 && record.marks_void;
        let doubts = doubts || told || suspect;
        if record.role == Role::Secondary && !record.wrote && !gave_up(record) && !doubts {
            self.settle_reversal(side, &record.clone());
            self.nothing_discarded(cluster, side)?;
            // The two have come to terms: whoever was restored was told from the node it had been. One that goes back
            // to an image it kept comes to terms with nobody, nor does one that only writes down what it heard.
            // A copy that became consistent did so by a stream to its end, whatever became of its source since.
            let completed = record.consistent && !self.copies[side.index()].consistent;
            let met = completed || cluster.node(side.other()).serves();
            let unknown = core::mem::take(&mut self.restored_unknown[side.index()]);
            if unknown {
                self.copies[side.index()].restored = true;
            } else if met && !record.clean {
                self.copies.iter_mut().for_each(|copy| copy.restored = false);
            }
            // A stream was adopted: what a power cut took has been made up for, or the record says inconsistent. A record
            // that was begun before a flush failed does not make up for what that flush dropped.
            let earlier = self.left[side.index()].is_unrecorded();
            self.copies[side.index()].tainted &= earlier;
            self.copies[side.index()].tainted |=
                core::mem::take(&mut self.restored_tainted[side.index()]);
            if record.consistent && !self.copies[side.index()].consistent && !unknown {
                self.judge_durable(cluster, side)?;
            }
        }
        self.look_again(cluster, side)
    }

    /// The superblock repeats the one before and adds the age at which the metadata was found, or which copies are over:
    /// it is no adoption and no promotion.
    fn only_notes(&mut self, side: Side, record: &Superblock) -> bool {
        let noted = |before: Superblock| {
            let (reported, remembers) = (record.reported, record.remembers);
            let first = before.reported.is_none() && reported.is_some();
            let over = before.copies_over < record.copies_over;
            // The disks' blocks are read at the start.
            let (blocks, copies_over) = (record.blocks.clone(), record.copies_over);
            let noted = Superblock { reported, remembers, blocks, copies_over, ..before };
            (first || over) && noted == *record
        };
        self.records[side.index()].replace(record.clone()).is_some_and(noted)
    }

    /// A node that wrote adopts another's stream: what it answered must have been in the image that one began with.
    fn nothing_discarded(&self, cluster: &Cluster, side: Side) -> Result<(), Violation> {
        let Some(record) = cluster.node(side).superblock() else { return Ok(()) };
        let at = self.copies[side.index()].generation;
        if self.copies[side.index()].restored {
            return Ok(());
        }
        let Some(history) = self.histories.get(&at).filter(|history| history.leader == side) else {
            return Ok(());
        };
        let Some(heir) = self.child_of(at, &record.lineage) else { return Ok(()) };
        for index in &history.answered {
            let write = &history.writes[*index as usize];
            hold(history.lacks(write, &heir.base).is_none(), Promise::NothingDiscarded, || {
                format!("{side} follows, and {:?}, which it answered, is nowhere else", write.stamp)
            })?;
        }
        Ok(())
    }

    /// The history that began from a generation, on the way to a lineage.
    fn child_of(&self, at: Key, lineage: &Lineage) -> Option<&History> {
        let mut line = vec![self.history_of(lineage.generation)];
        line.extend(lineage.ancestors().iter().map(|a| self.history_of(a.generation)));
        line.dedup();
        let own = line.iter().position(|generation| *generation == at)?;
        self.histories.get(line.get(own.checked_sub(1)?)?)
    }

    /// A node starts from its record. One that died between the record of its promotion and its first act as primary
    /// is in a generation nobody saw begin.
    pub(super) fn started(&mut self, cluster: &Cluster, side: Side) -> Result<(), Violation> {
        self.keeping_recorded(cluster, side)?;
        self.records[side.index()] = cluster.node(side).superblock().cloned();
        let known = |record: &&Superblock| record.lineage.generation != Generation::NONE;
        // Whoever knows no disk takes any.
        self.copies[side.index()].foreign &=
            cluster.node(side).superblock().filter(known).is_some();
        let Some(record) = cluster.node(side).superblock() else { return Ok(()) };
        if record.role == Role::Secondary && !record.wrote {
            self.settle_reversal(side, &record.clone());
        }
        let unseen = !self.histories.contains_key(&self.history_of(record.lineage.generation));
        let served = core::mem::take(&mut self.copies[side.index()].serving);
        if record.role == Role::Primary && unseen && served && self.is_reversal(record) {
            self.reversed(side, &record.clone());
        } else if record.role == Role::Primary && unseen && served {
            self.goes_on_in(side, record.lineage.generation);
        } else if record.role == Role::Primary && unseen {
            // How it was commanded died with it.
            self.promoted(cluster, side, None)?;
        }
        self.look_again(cluster, side)
    }

    /// The generation a primary begins because it answers without its peer.
    fn goes_on_in(&mut self, side: Side, generation: Generation) {
        let own = self.copies[side.index()].generation;
        if self.history_of(generation) != own {
            self.same_history.insert(key(generation), own);
        }
    }

    fn promoted(
        &mut self,
        cluster: &Cluster,
        side: Side,
        commanded: Option<(bool, Serial)>,
    ) -> Result<(), Violation> {
        let Some(record) = cluster.node(side).superblock() else { return Ok(()) };
        let (force, asked) = commanded.unzip();
        hold(record.consistent, Promise::ConsistentPromotion, || {
            format!("{side} becomes primary with a copy that is not consistent")
        })?;
        let (own, peer) = (&self.copies[side.index()], &self.copies[side.other().index()]);
        let engine = cluster.node(side).engine.as_ref();
        let leased = engine.is_some_and(|engine| engine.view().leads_by_lease());
        let by_force = |at: &Key| self.histories.get(at).is_some_and(|history| history.forced);
        let begins =
            cluster.node(side).engine.as_ref().is_some_and(|engine| engine.view().is_primary());
        let rival = begins && cluster.node(side.other()).serves() && !by_force(&peer.generation);
        hold(!rival || force == Some(true) || leased, Promise::OnePrimary, || {
            format!("{side} becomes primary without force while the other serves")
        })?;
        hold(!(begins && own.foreign), Promise::ConsistentPromotion, || {
            format!("{side} becomes primary on a disk that is not the one it was")
        })?;
        hold(!(begins && record.suspect != 0), Promise::SuspectCopy, || {
            format!("{side} becomes primary with a copy whose flush failed")
        })?;
        if own.restored || peer.restored {
            // What was never told to the other node before the files went back, nobody can miss.
            let restored = own.restored;
            self.begins(side, &record.lineage, force == Some(true) || leased)?;
            if restored {
                self.goes_on_behind_power(side);
            }
            self.note_succession(cluster, side, leased);
            return Ok(());
        }
        let image = &self.images[side.index()];
        // The word of one without a copy brings nothing back: where both lost power, what was in caches is gone.
        let unbacked = force.map(|force| force || !peer.consistent);
        self.nothing_lost(side, own.generation, 0, unbacked, image)?;
        // Whoever forces a promotion while another is being asked for overrides the word that was given.
        let overridden =
            by_force(&peer.generation) && Some(self.histories[&peer.generation].born) > asked;
        if force == Some(false) && peer.generation != own.generation && !overridden {
            // What the peer answered before this image left its generation was judged when it did.
            let child = self.child_of(peer.generation, &record.lineage);
            let left = child.map_or(0, |history| history.born);
            // What it answered since may have been in the image that left, and been overwritten there.
            let image = child.map_or(image, |history| &history.base);
            self.nothing_lost(side, peer.generation, left, force, image)?;
        }
        self.begins(side, &record.lineage, force == Some(true) || leased)?;
        self.note_succession(cluster, side, leased);
        Ok(())
    }

    /// Metadata from before a crash says that the node stopped cleanly: it may go on in the generation that the power cut.
    fn goes_on_behind_power(&mut self, side: Side) {
        let (at, power) =
            (self.copies[side.index()].generation, self.copies[side.index()].lost_power_at);
        if let Some(history) = self.histories.get_mut(&at) {
            history.lose_undurable(power);
        }
        for copy in self.copies.iter_mut().filter(|copy| copy.generation == at) {
            copy.checked = 0;
        }
    }

    /// A promotion begins a truth of its own.
    fn begins(&mut self, side: Side, lineage: &Lineage, unasked: bool) -> Result<(), Violation> {
        let old = self.copies[side.index()].generation;
        let new = self.history_of(lineage.generation);
        // One that stopped in the moment of its promotion is in that generation already, and nobody saw it begin.
        let known = self.histories.contains_key(&new);
        hold(new == old || !known, Promise::OneName, || {
            format!("{side} begins {:?}, which began before", lineage.generation)
        })?;
        if !known {
            let base = self.images[side.index()].clone();
            self.open_history(new, History::new(side, base, self.serial, unasked));
        }
        self.left[side.index()].forget();
        let copy = &mut self.copies[side.index()];
        copy.generation = new;
        copy.serving = true;
        copy.promoted_at = self.serial;
        copy.watched = false;
        copy.tainted = false;
        Ok(())
    }

    /// What was commanded ended.
    pub(super) fn promotion_ended(
        &mut self,
        cluster: &Cluster,
        side: Side,
        id: CommandId,
        result: &Result<String, Refusal>,
    ) -> Result<(), Violation> {
        let open = &mut self.promoting[side.index()];
        let at = open.iter().position(|(open, ..)| *open == id).map(|n| open.remove(n).2);
        let (Some(asked), Err(refusal)) = (at, result) else { return Ok(()) };
        // The answer may have waited here while the other node became something else.
        let other = &self.copies[side.other().index()];
        if other.died_at.max(other.lost_power_at).max(other.promoted_at) >= asked {
            return Ok(());
        }
        self.judge_refused(cluster, side, refusal)
    }

    /// A promotion is refused. If the node only followed, and the other one stopped cleanly in the same generation or a later
    /// one, not both of them wrote.
    fn judge_refused(
        &self,
        cluster: &Cluster,
        side: Side,
        refusal: &Refusal,
    ) -> Result<(), Violation> {
        let records = [side, side.other()].map(|side| cluster.node(side).superblock());
        let [Some(own), Some(other)] = records else { return Ok(()) };
        let unknown = self.copies.iter().any(|copy| copy.restored || copy.foreign);
        let proven = other.clean && other.suspect == 0 && other.wrote && !unknown;
        let contains = self.history_of(own.lineage.generation)
            == self.history_of(other.lineage.generation)
            || self.child_of(self.history_of(own.lineage.generation), &other.lineage).is_some();
        let followed = own.role == Role::Secondary && !own.wrote && contains;
        // Other refusals may repeat the row of an earlier handshake, which was judged at that time.
        let now = refusal.code == "peer-refuses";
        let labels = ["split-brain: ", "both-crashed: ", "diverged: "];
        let split = now && labels.iter().any(|label| refusal.text.contains(label));
        hold(!(split && proven && followed), Promise::TrueSplits, || {
            format!("{side} only followed, and its promotion is refused: {}", refusal.text)
        })
    }

    fn nothing_lost(
        &self,
        side: Side,
        at: Key,
        since: Serial,
        force: Option<bool>,
        image: &Image,
    ) -> Result<(), Violation> {
        let Some(history) = self.histories.get(&at) else { return Ok(()) };
        let power = self.copies[side.index()].lost_power_at;
        let led = history.leader == side;
        for index in &history.answered {
            let write = &history.writes[*index as usize];
            if write.answered > Some(since)
                && !may_lack(write, led, force, power)
                && let Some(place) = history.lacks(write, image)
            {
                return Err(Violation::new(
                    Promise::NothingLost,
                    format!(
                        "{side} is promoted ({}) and lacks {:?} at {place:?}, which was answered{}",
                        kind(force),
                        write.stamp,
                        if write.sync { " in sync" } else { "" }
                    ),
                ));
            }
        }
        Ok(())
    }
}

fn may_lack(write: &Write, led: bool, force: Option<bool>, power: Serial) -> bool {
    if force == Some(false) && !led {
        return false;
    }
    let survived = write.durable[usize::from(!led)] || write.answered.is_none_or(|at| at > power);
    !((led || write.sync) && survived)
}

fn kind(force: Option<bool>) -> &'static str {
    match force {
        Some(true) => "by force",
        Some(false) => "with the peer's word",
        None => "going on",
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What an answer means. Only answers given while the primary says replicating, before and after the step, are held
//! to what its mode promises of the peer: in between a mode may come into force or lapse.

use super::history::{History, Image, Serial};
use super::{Asked, Key, Oracle, View};
use crate::promise::{Promise, Violation, hold};
use helio_engine::{Denial, Operation};
use helio_twin::{Cluster, Replied, Side, Stamp, places};
use helio_units::{Mode, Moment, RequestId, Sequence, VolumeIndex};

const HERE: usize = 0;
const THERE: usize = 1;

impl Oracle {
    pub(super) fn replied(
        &mut self,
        cluster: &Cluster,
        side: Side,
        request: RequestId,
        answer: &Replied,
        (before, after): (View, View),
    ) -> Result<(), Violation> {
        let Some(asked) = self.asked.remove(&request) else {
            return Err(Violation::new(
                Promise::AnsweredOnce,
                format!("{side} answers request {} that waits for no answer", request.0),
            ));
        };
        hold(asked.side == side && cluster.node(side).is_up(), Promise::AnsweredOnce, || {
            format!("request {} was put to {} and {side} answers it", request.0, asked.side)
        })?;
        let zeros = matches!(asked.operation, Operation::Zero { .. } | Operation::Discard { .. });
        if zeros && asked.at_store && !asked.sent {
            let engine = cluster.node(side).engine.as_ref();
            let head =
                engine.map_or(Sequence::ZERO, |e| e.view().status(Moment::ZERO).cursors.head);
            self.unsent.push((head, asked.clone()));
        }
        let promised = Mode::ALL.into_iter().find(|m| before.promises(*m) && after.promises(*m));
        let mode = if self.lacks_regions(side) { Some(Mode::Sync) } else { promised };
        match (answer, asked.operation) {
            (Replied::Denied(denial), operation) => {
                self.note_denied(asked.volume, &operation);
                self.judge_flush_denied(cluster, &asked, *denial)?;
                match (denial, asked.issued) {
                    (Denial::Store(_), None) => self.may_appear(&asked, request),
                    (_, Some(_)) => self.denied.push(asked.clone()),
                    _ => {}
                }
                Ok(())
            }
            (Replied::Read(stamps), Operation::Read(_)) => self.read_back(&asked, stamps),
            (Replied::Done, Operation::Flush) => self.flushed(cluster, &asked, mode),
            (Replied::Done, _) => self.written(cluster, &asked, mode),
            (answer, _) => Err(Violation::new(
                Promise::AnsweredOnce,
                format!("request {} is answered with {answer:?}", request.0),
            )),
        }
    }

    /// A write that failed before it reached the store has its place on the line all the same, and may reach the peer.
    fn may_appear(&mut self, asked: &Asked, request: RequestId) {
        let (extent, stamp) = match asked.operation {
            Operation::Write { extent, .. } => (extent, Stamp(request.0)),
            Operation::Zero { extent, .. } | Operation::Discard { extent, .. } => {
                (extent, Stamp::ZEROS)
            }
            Operation::Read(_) | Operation::Flush => return,
        };
        let at = self.copies[asked.side.index()].generation;
        let blocks: Vec<_> = places(asked.volume, extent).collect();
        let first = blocks.first().map_or(0, |place| place.block);
        if let Some(history) = self.histories.get_mut(&at) {
            let since = (asked.submitted, asked.behind);
            history.issue(since, asked.volume, first, &vec![stamp; blocks.len()], None);
        }
    }

    fn written(
        &mut self,
        cluster: &Cluster,
        asked: &Asked,
        mode: Option<Mode>,
    ) -> Result<(), Violation> {
        let Some((at, index)) = asked.issued else {
            return Err(Violation::new(
                Promise::AnsweredOnce,
                format!("{} answers a write it never issued", asked.side),
            ));
        };
        let serial = self.serial;
        // What a peer completed and its power took was in sync all the same; no later promise rests on it.
        let peer_kept = self.peer_kept(asked.side) && !self.peer_lost(asked);
        let Some(history) = self.histories.get_mut(&at) else { return Ok(()) };
        history.answered.push(index);
        let write = &mut history.writes[index as usize];
        write.answered = Some(serial);
        write.sync = mode == Some(Mode::Sync) && peer_kept;
        self.judge_succeeded(asked.side, (at, index))?;
        self.at_peer(cluster, asked, (at, index), mode)?;
        let fua = match asked.operation {
            Operation::Write { fua, .. }
            | Operation::Zero { fua, .. }
            | Operation::Discard { fua, .. } => fua,
            Operation::Read(_) | Operation::Flush => false,
        };
        if fua {
            self.fua_durable(cluster, asked.side, (at, index), mode)?;
        }
        Ok(())
    }

    /// Sync comes into force: everything answered so far is at the peer.
    pub(super) fn judge_level(&self, after: &[View; 2]) -> Result<(), Violation> {
        for side in Side::BOTH {
            let (before, after) = (&self.before[side.index()], &after[side.index()]);
            let begins = after.promises(Mode::Sync) && !before.promises(Mode::Sync);
            let Some(history) = self.histories.get(&self.copies[side.index()].generation) else {
                continue;
            };
            if !begins || !self.peer_kept(side) {
                continue;
            }
            for index in &history.answered {
                let write = &history.writes[*index as usize];
                let lacking = history.lacks(write, &self.images[side.other().index()]);
                hold(lacking.is_none(), Promise::SyncAnswer, || {
                    format!("{side} says sync is in force, the peer lacks {:?}", write.stamp)
                })?;
            }
        }
        Ok(())
    }

    /// The peer has had power ever since it was met.
    fn peer_kept(&self, side: Side) -> bool {
        let peer = &self.copies[side.other().index()];
        peer.lost_power_at < self.copies[side.index()].connected_at
    }

    /// The peer completed that write, and lost it or its memory of it since. A primary that lacks regions keeps sync in force without a
    /// stream. What the peer reported of the last one counts then: a connection alone, or a refused handshake, tells nothing of each
    /// write. An answer that was decided by it before a pause of the process is given once the check behind the pause has passed.
    fn peer_lost(&self, asked: &Asked) -> bool {
        asked.peer_lost && self.lacks_regions(asked.side)
    }

    /// The history that the peer leads.
    fn heir(&self, side: Side) -> Option<&History> {
        let peer = &self.copies[side.other().index()];
        self.histories.get(&peer.generation).filter(|h| h.leader == side.other())
    }

    /// A write answered in effective sync or nearsync is at the peer.
    fn at_peer(
        &self,
        cluster: &Cluster,
        asked: &Asked,
        (at, index): (Key, u32),
        mode: Option<Mode>,
    ) -> Result<(), Violation> {
        let side = asked.side;
        let peer = &self.copies[side.other().index()];
        let met = self.copies[side.index()].connected_at;
        let history = &self.histories[&at];
        let write = &history.writes[index as usize];
        // What an heir overwrote since was in the image it began with.
        let heir = self.heir(side);
        let lacks = || {
            let lacking = history.lacks(write, &self.images[side.other().index()]);
            lacking.filter(|_| heir.is_none_or(|heir| history.lacks(write, &heir.base).is_some()))
        };
        match mode {
            Some(Mode::Sync) if self.peer_kept(side) && !self.peer_lost(asked) => {
                let lacking = lacks();
                hold(lacking.is_none(), Promise::SyncAnswer, || {
                    format!("{side} answers {:?}, the peer lacks it in {lacking:?}", write.stamp)
                })
            }
            // Zeros have no name to look for in a memory.
            Some(Mode::NearSync) if peer.died_at < met && write.stamp != Stamp::ZEROS => {
                let held = cluster.node(side.other()).pool.holds(write.stamp);
                // What it had in memory and gave to a disk that dropped it since was in memory all the same.
                let dropped =
                    !self.peer_kept(side) && self.received[side.other().index()].has(write.stamp);
                hold(held || dropped || lacks().is_none(), Promise::NearSyncAnswer, || {
                    format!("{side} answers {:?}, which the peer never received", write.stamp)
                })
            }
            _ => Ok(()),
        }
    }

    fn fua_durable(
        &mut self,
        cluster: &Cluster,
        side: Side,
        (at, index): (Key, u32),
        mode: Option<Mode>,
    ) -> Result<(), Violation> {
        let volumes = self.images[0].len();
        let durable = |side| durable_image(cluster, side, volumes);
        // What was durable on files that were replaced since is nowhere.
        let replaced = self.copies[side.other().index()].restored;
        let lacks_regions = self.lacks_regions(side);
        // It is put back below; whatever breaks a promise ends the story.
        let Some(mut history) = self.histories.remove(&at) else { return Ok(()) };
        let write = &history.writes[index as usize];
        let lacking = history.lacks(write, &durable(side)).filter(|_| !lacks_regions);
        hold(lacking.is_none(), Promise::DurableHere, || {
            format!("FUA {:?} was answered and {lacking:?} is not durable on {side}", write.stamp)
        })?;
        if mode == Some(Mode::Sync) && !replaced {
            let heir = self.heir(side);
            let lacking = history.lacks_beside(write, &durable(side.other()), heir);
            hold(lacking.is_none(), Promise::DurableThere, || {
                format!("FUA {:?} was answered and {lacking:?} is not durable there", write.stamp)
            })?;
            history.writes[index as usize].durable[THERE] = true;
        }
        history.writes[index as usize].durable[HERE] = !lacks_regions;
        self.histories.insert(at, history);
        Ok(())
    }

    fn flushed(
        &mut self,
        cluster: &Cluster,
        asked: &Asked,
        mode: Option<Mode>,
    ) -> Result<(), Violation> {
        let Asked { side, volume, submitted, .. } = *asked;
        let volumes = self.images[0].len();
        let at = self.copies[side.index()].generation;
        let replaced = self.copies[side.other().index()].restored;
        let lacks_regions = self.lacks_regions(side);
        let Some(mut history) = self.histories.remove(&at) else { return Ok(()) };
        let here = durable_image(cluster, side, volumes);
        let found = history.all_durable((&here, None), HERE, volume, submitted);
        found.or_else(|words| if lacks_regions { Ok(()) } else { Err(words) }).map_err(
            |words| Violation::new(Promise::DurableHere, format!("FLUSH on {side}: {words}")),
        )?;
        if mode == Some(Mode::Sync) && !replaced {
            let there = durable_image(cluster, side.other(), volumes);
            let found = history.all_durable((&there, self.heir(side)), THERE, volume, submitted);
            found.map_err(|words| {
                Violation::new(Promise::DurableThere, format!("FLUSH on {side}: {words}"))
            })?;
        }
        self.histories.insert(at, history);
        Ok(())
    }

    fn read_back(&self, asked: &Asked, stamps: &[Stamp]) -> Result<(), Violation> {
        let Operation::Read(extent) = asked.operation else { return Ok(()) };
        let at = self.copies[asked.side.index()].generation;
        let Some(history) = self.histories.get(&at) else { return Ok(()) };
        for (place, stamp) in places(asked.volume, extent).zip(stamps) {
            if self.may_read_as(asked.side, place, *stamp) {
                continue;
            }
            let span = history.span(place, *stamp);
            let missing = span.and_then(|(_, last)| history.missing(place, last, asked.submitted));
            hold(span.is_some() && missing.is_none(), Promise::ReadsBack, || {
                let side = asked.side;
                format!(
                    "{side} reads {stamp:?} at {place:?} (known as {span:?}), missing {missing:?}"
                )
            })?;
        }
        Ok(())
    }
}

fn durable_image(cluster: &Cluster, side: Side, volumes: usize) -> Image {
    let volumes = (0..volumes as u16).map(VolumeIndex);
    volumes.map(|v| cluster.node(side).disk.durable(v).to_vec()).collect()
}

impl History {
    /// Looks for every write of a volume that was answered before `before` in a durable image, beside what an heir of this history
    /// wrote since. What was found durable once stays so.
    fn all_durable(
        &mut self,
        (image, heir): (&Image, Option<&Self>),
        whose: usize,
        volume: VolumeIndex,
        before: Serial,
    ) -> Result<(), String> {
        let from = self.seen_durable[usize::from(volume.0)][whose];
        let mut upto = from;
        for index in &self.answered[from..] {
            let write = &self.writes[*index as usize];
            if write.answered.is_none_or(|at| at >= before) {
                break;
            }
            upto += 1;
            if write.volume == volume
                && let Some(place) = self.lacks_beside(write, image, heir)
            {
                return Err(format!("{:?} is not durable at {place:?}", write.stamp));
            }
        }
        self.seen_durable[usize::from(volume.0)][whose] = upto;
        for index in &self.answered[from..upto] {
            let write = &mut self.writes[*index as usize];
            write.durable[whose] |= write.volume == volume;
        }
        Ok(())
    }
}

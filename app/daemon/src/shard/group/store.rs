// SPDX-License-Identifier: Apache-2.0
//! What a group's engine has to do with the members of its volumes.

use super::Group;
use crate::digest::{self, Stretch};
use crate::shard::census::Table;
use crate::shard::clock::Clock;
use crate::shard::isolate::Health;
use crate::shard::plan::MemberPlan;
use crate::shard::token::{Kind, token};
use helio_disk::{Member, StoreError};
use helio_driver::{Buffer, Driver, Op, Outcome, Pool, Shared};
use helio_engine::{
    Duty, Event, Leg, NotWhole, ReadAs, Refusal, Run, StoreFault, StoreOp, StoreOutcome,
};
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, IoId, MemberIndex, MemberState, Moment, Payload, VolumeIndex};
use std::collections::BTreeSet;

/// Until when a stop waits for something; none if it does not wait, or no longer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Awaited(Option<Moment>);

impl Awaited {
    pub(super) const fn until(until: Moment) -> Self {
        Self(Some(until))
    }

    pub(super) fn look(&mut self, now: Moment) {
        self.0 = self.0.filter(|until| now < *until);
    }

    pub(super) const fn is_awaited(self) -> bool {
        self.0.is_some()
    }

    /// Never, if it is late.
    pub(super) fn deadline(self) -> Moment {
        self.0.unwrap_or(Moment::NEVER)
    }
}

/// An operation under way on a member.
#[derive(Debug)]
pub(super) struct Io {
    pub(super) leg: Leg,
    pub(super) op: StoreOp,
    pub(super) read_as: ReadAs,
}

/// The engine's fault for an error of a disk or of the before-image file.
pub(crate) const fn fault_of(error: &StoreError) -> StoreFault {
    match error {
        StoreError::Eio => StoreFault::Io,
        StoreError::Enospc => StoreFault::NoSpace,
        StoreError::ShortWrite(_) | StoreError::ShortRead(_) => StoreFault::Short,
        StoreError::Other(errno) => StoreFault::Other(errno.raw_os_error()),
        StoreError::OutOfBounds { .. } | StoreError::Unaligned { .. } => {
            StoreFault::Other(helio_driver::Errno::INVAL.raw_os_error())
        }
    }
}

impl Group {
    pub(super) fn store(
        &mut self,
        name: IoId,
        io: Io,
        clock: &Clock,
        io_with: (&Pool, &mut dyn Driver),
    ) {
        let (pool, driver) = io_with;
        let (leg, slot) = (io.leg, name.0 as usize);
        if planted(Plant::FlushUnperformed) && matches!(io.op, StoreOp::Flush) {
            let outcome = StoreOutcome::Done;
            return self.tell(clock.now(), Event::StoreDone { io: name, outcome });
        }
        let volume = &self.volumes[usize::from(leg.volume.0)];
        let Some(member) = volume.member(leg.member).and_then(MemberPlan::store) else {
            panic!("an operation for {leg:?}, which is not open")
        };
        let op = match io.op {
            StoreOp::Read { extent } => {
                member.read(extent, read_buffer(pool, extent.length as usize))
            }
            StoreOp::Write { extent, payload, fua } => member.write(
                extent,
                Shared::clone(self.payloads.get(payload.id)),
                0..payload.length as usize,
                fua,
            ),
            StoreOp::Zero { extent, punch, .. } => member.zero(extent, punch),
            StoreOp::Discard { extent, .. } => member.discard(extent),
            StoreOp::Flush => Ok(self.stamps.flush(slot as u32, leg, member)),
            StoreOp::Map { extent } => member.map(extent),
        };
        if planted(Plant::WriteTwice)
            && let (Ok(Op::Write { .. }), StoreOp::Write { extent, payload, fua }) = (&op, &io.op)
        {
            let bytes = Shared::clone(self.payloads.get(payload.id));
            let again = member.write(*extent, bytes, 0..payload.length as usize, *fua);
            // The end of an operation of an earlier connection changes nothing.
            let ended = token(Kind::LinkSend, self.index, u32::MAX);
            again.into_iter().for_each(|again| driver.submit(ended, again));
        }
        if self.ios.len() <= slot {
            self.ios.resize_with(slot + 1, || None);
        }
        match op {
            Ok(op) => {
                self.ios[slot] = Some(io);
                driver.submit(token(Kind::Store, self.index, slot as u32), op);
            }
            Err(error) => {
                let outcome = StoreOutcome::Failed(self.store_failed(leg, &error));
                self.tell(clock.now(), Event::StoreDone { io: name, outcome });
            }
        }
    }

    /// The store of a member, if it is open. The volumes of a group that was released are gone.
    fn open_member(&self, leg: Leg) -> Option<&Member> {
        self.volumes.get(usize::from(leg.volume.0))?.member(leg.member)?.store()
    }

    /// The first member that holds what clients of a volume read, and is open. None also while it has regions that nothing wrote or read
    /// yet: a read of layers makes the members equal there.
    pub(crate) fn readable(&self, volume: VolumeIndex) -> Option<&MemberPlan> {
        let view = self.engine.view();
        // Every request asks: how much is left to write takes time to count.
        if view.is_rolling_back() {
            return None;
        }
        let has_blank = view.set_status(volume).is_some_and(|set| set.blank > Bytes::ZERO);
        let whole = view.whole_member(volume).ok().filter(|_| !has_blank)?;
        self.member(volume, whole)
    }

    /// The first full member of a volume, with all that this node has of it.
    ///
    /// # Errors
    /// The members hold something else than what clients read.
    pub(crate) fn settled(&self, volume: VolumeIndex) -> Result<&MemberPlan, Refusal> {
        let refused = |why: NotWhole| why.refusal(volume, &self.config);
        let first = self.engine.view().settled_member(volume).map_err(refused)?;
        self.member(volume, first).ok_or_else(|| refused(NotWhole::NoFullMember))
    }

    fn member(&self, volume: VolumeIndex, member: MemberIndex) -> Option<&MemberPlan> {
        self.volumes[usize::from(volume.0)].members[usize::from(member.0)].as_ref()
    }

    /// The slots of operations on members.
    pub(crate) fn operations(&self) -> Table {
        Table::of(&self.ios)
    }

    /// Whether no operation is under way on a member.
    pub(crate) fn has_no_operation(&self) -> bool {
        self.ios.iter().all(Option::is_none)
    }

    /// Whether operations are under way on metadata files or the before-image file, or on members that are used and whose disk was not given up.
    pub(crate) fn still_writes(&self, now: Moment) -> bool {
        if self.files_work() && !planted(Plant::StopUnfinished) {
            return true;
        }
        if self.has_no_operation() {
            return false;
        }
        let view = self.engine.view();
        let states = view.status(now).members;
        let given_up = |Leg { volume, member }: Leg| {
            let set = view.set_status(volume);
            let status = set.and_then(|set| set.members.get(usize::from(member.0)).copied()?);
            states[usize::from(volume.0)] == MemberState::GivenUp
                || status.is_some_and(|it| matches!(it.duty, Duty::Removed { .. }))
        };
        self.ios.iter().flatten().any(|io| !given_up(io.leg))
    }

    /// Whether the end of the daemon waits for operations of a group that has stopped: layers may have begun them by themselves.
    pub(crate) fn finishes_writes(&self, now: Moment) -> bool {
        self.health == Health::Sound && self.finishing.is_awaited() && self.still_writes(now)
    }

    /// Whether its members can be given back. Operations on them that are late stay under way.
    pub(crate) fn lets_go(&self, now: Moment) -> bool {
        !self.files_work() && !self.finishes_writes(now)
    }

    /// Whether an operation on its metadata files or its before-image file is under way, and not late.
    fn files_work(&self) -> bool {
        self.metadata.works() || self.before.works()
    }

    /// Until when it waits for them.
    pub(super) fn writes_deadline(&self) -> Moment {
        let any = self.files_work() || !self.has_no_operation();
        if any { self.finishing.deadline() } else { Moment::NEVER }
    }

    /// A stop waits no longer for operations and stamps that are late.
    pub(crate) fn look_at_finishing(&mut self, now: Moment) {
        self.finishing.look(now);
        self.stamps.look(now);
    }

    /// The members with operations that have not completed, each by volume and path.
    pub(crate) fn late_members(&self) -> BTreeSet<(&str, &str)> {
        let legs = self.ios.iter().flatten().map(|io| io.leg).chain(self.stamps.unwritten());
        let named = |leg: Leg| {
            let volume = self.volumes.get(usize::from(leg.volume.0))?;
            Some((volume.name.as_str(), volume.member(leg.member)?.path.as_str()))
        };
        legs.filter_map(named).collect()
    }

    fn store_failed(&self, leg: Leg, error: &StoreError) -> StoreFault {
        // The volumes of a group that was released are gone.
        if let Some(volume) = self.volumes.get(usize::from(leg.volume.0)) {
            let member = volume.member(leg.member).map_or("", |member| member.path.as_str());
            tracing::error!(group = %self.name, volume = %volume.name, member, %error, "store failed");
        }
        fault_of(error)
    }

    /// An operation on a member ended.
    pub(crate) fn store_done(
        &mut self,
        slot: u32,
        outcome: Outcome,
        now: Moment,
        io_with: (&Pool, &mut dyn Driver),
    ) {
        let (pool, driver) = io_with;
        let Some(Io { leg, op, read_as }) = self.ios[slot as usize].take() else {
            panic!("store operation {slot} ended twice")
        };
        self.stamp_flushed(slot, outcome.error().is_none(), now, driver);
        let outcome = match (outcome.error(), outcome, op) {
            // A store that cannot report what is allocated is read, and its failure shows there.
            (Some(_), _, StoreOp::Map { .. }) => StoreOutcome::Empty(false),
            (None, Outcome::Map(Ok(runs)), StoreOp::Map { extent }) => {
                StoreOutcome::Empty(is_hole(&runs, extent))
            }
            (Some(error), ..) => StoreOutcome::Failed(self.store_failed(leg, &error.into())),
            (None, _, StoreOp::Zero { fua: true, .. } | StoreOp::Discard { fua: true, .. }) => {
                if let Some(flush) = self.open_member(leg).map(Member::flush) {
                    self.ios[slot as usize] = Some(Io { leg, op: StoreOp::Flush, read_as });
                    driver.submit(token(Kind::StoreSync, self.index, slot), flush);
                    return;
                }
                // The group was released: nothing can make the change durable any more.
                StoreOutcome::Failed(StoreFault::Silent)
            }
            (None, Outcome::Read { buffer, .. }, StoreOp::Read { extent }) => {
                self.report(extent, buffer.into_shared(), read_as, pool)
            }
            (None, ..) => StoreOutcome::Done,
        };
        self.tell(now, Event::StoreDone { io: IoId(u64::from(slot)), outcome });
        self.member_is_idle(leg, now, driver);
    }

    /// Names the bytes of what differs: all that was read where all of it does, otherwise in buffers of their own.
    fn runs(
        &mut self,
        extent: Extent,
        read: Shared,
        stretches: &[Stretch],
        pool: &Pool,
    ) -> Vec<Run> {
        if let [Stretch { extent: whole, zero: false }] = stretches
            && *whole == extent
        {
            return vec![Run { extent, payload: Some(self.payloads.share(read)) }];
        }
        let run = |stretch: &Stretch| {
            let Stretch { extent: part, zero } = *stretch;
            let from = (part.offset - extent.offset) as usize;
            let bytes = &read[from..from + part.length as usize];
            let payload = (!zero).then(|| {
                let mut own = read_buffer(pool, bytes.len());
                own.copy_from_slice(bytes);
                self.payloads.insert(own)
            });
            Run { extent: part, payload }
        };
        stretches.iter().map(run).collect()
    }

    /// What the engine is to get of the bytes that were read.
    fn report(
        &mut self,
        extent: Extent,
        bytes: Shared,
        read_as: ReadAs,
        pool: &Pool,
    ) -> StoreOutcome {
        let zero = match read_as {
            ReadAs::Digests { coarse } => {
                return StoreOutcome::Digests(digest::of(&bytes, coarse));
            }
            ReadAs::Differing { digests, coarse } => {
                let stretches = digest::differing(extent, &bytes, &digests, coarse);
                return StoreOutcome::Differing(self.runs(extent, bytes, &stretches, pool));
            }
            ReadAs::Runs { piece } => {
                let stretches = digest::stretches(extent, &bytes, piece);
                return StoreOutcome::Differing(self.runs(extent, bytes, &stretches, pool));
            }
            ReadAs::Unequal { payload } => {
                let theirs = self.payloads.get(payload.id).as_ref();
                return StoreOutcome::Verified(digest::unequal(extent, &bytes, theirs));
            }
            ReadAs::DigestPayload => {
                let payload = self.payloads.insert(digest::payload(&bytes));
                return StoreOutcome::Read { payload, zero: false };
            }
            ReadAs::BytesOrZero => digest::is_zero(&bytes),
            ReadAs::Bytes => false,
        };
        StoreOutcome::Read { payload: self.payloads.share(bytes), zero }
    }

    /// What the engine is to get of bytes that it holds, and needs no more.
    pub(super) fn look(
        &mut self,
        extent: Extent,
        payload: Payload,
        read_as: ReadAs,
        pool: &Pool,
    ) -> StoreOutcome {
        let bytes = Shared::clone(self.payloads.get(payload.id));
        self.payloads.release(payload.id);
        self.report(extent, bytes, read_as, pool)
    }
}

/// A buffer for a read. Writes wait for the pool, so reads leave half of it to them: answers may stay with a client that
/// does not take them. Reads are bounded where they are asked for (clients, copier), so beyond that half they only cost an
/// allocation.
pub(crate) fn read_buffer(pool: &Pool, length: usize) -> Buffer {
    let usage = pool.usage();
    let room = usage.in_use.0 + length.next_power_of_two() as u64 <= usage.bound.0 / 2;
    room.then(|| pool.take(length)).flatten().unwrap_or_else(|| Buffer::zeroed(length))
}

/// Whether the runs of a map say that the whole extent is one hole.
fn is_hole(runs: &[helio_driver::Run], extent: Extent) -> bool {
    let told: u64 = runs.iter().map(|run| run.length).sum();
    told >= extent.length && runs.iter().all(|run| !run.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_awaited_is_awaited_until_it_is_late() {
        let mut awaited = Awaited::default();
        assert!(!awaited.is_awaited());
        awaited = Awaited::until(Moment(9));
        for (now, deadline) in [(8, Moment(9)), (9, Moment::NEVER), (10, Moment::NEVER)] {
            awaited.look(Moment(now));
            assert_eq!((awaited.is_awaited(), awaited.deadline()), (now < 9, deadline), "at {now}");
        }
    }
}

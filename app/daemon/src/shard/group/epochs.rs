// SPDX-License-Identifier: Apache-2.0
//! Epochs of volumes while the group is served.
//!
//! ```text
//!   the members changed ──> the epoch is raised ──durable──> stamps are written ──each──> a flush of the member ──> on record
//! ```
//! No request waits for any of this. A stop waits for the stamps that are being written, for `member-timeout` at most: a member that was
//! released must not change later. A stamp is written by an operation that flushes nothing, since a flush that fails must be seen by the
//! engine: the next flush that the engine asks for makes it durable. A stamp that is not durable leaves the earlier one on record beside it.
//!
//! When the group has stopped, its members get another one, so that a copy that was made while the daemon ran is older. It is flushed by an
//! operation of its own: the engine has flushed everything that counts. One that does not get there only leaves such a copy unnoticed.
//!
//! A member that leaves gets a last stamp, which no copy of it from before has, and is flushed and closed behind it. On record it has
//! that one at once: if it does not get there, all of the member is copied when it returns.

use super::Group;
use super::store::Awaited;
use crate::epochs::{forget_members, is_as_it_left, is_used, raise, set_id, stamp, stamped};
use crate::open;
use crate::shard::plan::MemberPlan;
use crate::shard::set::Adding;
use crate::shard::token::{Kind, token};
use helio_disk::Member;
use helio_driver::{Driver, Op, Outcome};
use helio_engine::{CommandId, Event, LayerSetting, Leg, Refusal};
use helio_format::epochs::{Epoch, Epochs};
use helio_format::members::{CopyHealth, MEMBERS_MAX, MemberEntry};
use helio_ledger::Change;
use helio_units::{MemberIndex, Moment, VolumeIndex};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// How long a stop waits for a last stamp, at most: a disk that has none is used at the next start.
const LAST_STAMP: Duration = Duration::from_secs(5);

/// A stamp that is being written.
#[derive(Clone, Copy, Debug)]
struct Writing {
    epoch: Epoch,
    awaited: Awaited,
    /// The last stamp of a member is written, and is being flushed.
    flushes: bool,
}

/// The stamps of members. An epoch here is durable in the metadata.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    /// Records of epochs that are not durable.
    recording: usize,
    /// Members that left, and have not got their last stamp.
    owed: BTreeMap<Leg, Epoch>,
    /// Those that left, and could not get it.
    without: BTreeSet<Leg>,
    /// Being written.
    under_way: BTreeMap<Leg, Writing>,
    /// The last that was written, or could not be.
    tried: BTreeMap<Leg, Epoch>,
    /// Written, and not known to be durable.
    written: BTreeMap<Leg, Epoch>,
    /// Made durable by the flush of that slot.
    flushing: BTreeMap<u32, (Leg, Epoch)>,
    /// Volumes on another disk that the engine has not taken, each with its command.
    replacing: Vec<(CommandId, VolumeIndex)>,
}

impl Stamps {
    /// Whether an operation of this kind is under way on the member.
    pub(super) fn are_under_way(&self, leg: Leg) -> bool {
        self.under_way.contains_key(&leg)
    }

    /// Whether the member left, and has not got its last stamp.
    pub(super) fn are_owed(&self, leg: Leg) -> bool {
        self.owed.contains_key(&leg)
    }

    /// The members whose stamps are being written.
    pub(super) fn unwritten(&self) -> impl Iterator<Item = Leg> {
        self.under_way.keys().copied()
    }

    /// Whether a stop waits for a stamp.
    pub(super) fn are_awaited(&self) -> bool {
        self.under_way.values().any(|it| it.awaited.is_awaited())
    }

    /// Until when a stop waits for the next one.
    pub(super) fn deadline(&self) -> Moment {
        self.under_way.values().map(|it| it.awaited.deadline()).min().unwrap_or(Moment::NEVER)
    }

    /// A stop waits no longer for those that are late.
    pub(super) fn look(&mut self, now: Moment) {
        self.under_way.values_mut().for_each(|it| it.awaited.look(now));
    }

    /// The member is closed: another disk may get its number.
    pub(super) fn forget(&mut self, leg: Leg) {
        self.tried.remove(&leg);
        self.written.remove(&leg);
        self.owed.remove(&leg);
    }

    /// A flush that was to make this epoch durable ended. If it failed, the stamp is to be written again.
    fn flushed(&mut self, leg: Leg, epoch: Epoch, ok: bool) {
        if self.written.get(&leg) == Some(&epoch) {
            self.written.remove(&leg);
            if !ok {
                self.tried.remove(&leg);
            }
        }
    }

    /// A flush of the member begins.
    pub(super) fn flush(&mut self, slot: u32, leg: Leg, member: &Member) -> Op {
        match self.written.get(&leg) {
            Some(epoch) => {
                self.flushing.insert(slot, (leg, *epoch));
                member.flush_all()
            }
            None => member.flush(),
        }
    }
}

impl Group {
    /// The members of these volumes have changed, durably, and those of these numbers left.
    pub(super) fn raise_epochs(
        &mut self,
        changed: &[(VolumeIndex, Vec<usize>)],
        now: Moment,
        driver: &mut dyn Driver,
    ) {
        let ledger = self.metadata.ledger();
        let (members, mut epochs) = (ledger.members(), ledger.epochs().clone());
        let mut owed = Vec::new();
        for (index, left) in changed {
            let at = usize::from(index.0);
            let (volume, plan) = (&mut epochs.volumes[at], &self.volumes[at]);
            if self.are_its_own(*index) {
                let store = |n: usize| plan.members[n].as_ref().and_then(MemberPlan::store);
                let leaves = |n| left.contains(&n) && store(n).is_some_and(Member::keeps_stamp);
                raise(volume, &members[at], |n| store(n).is_some(), leaves);
                let legs = left.iter().copied().filter(|n| leaves(*n));
                let legs = legs.map(|n| Leg { volume: *index, member: MemberIndex(n as u8) });
                owed.extend(legs.zip(std::iter::repeat(volume.epoch)));
            }
        }
        if epochs.set.is_none() && epochs.volumes.iter().any(|volume| volume.epoch.is_some()) {
            // Without one no member has a stamp, as before there were stamps.
            match set_id(driver.host()) {
                Ok(set) => epochs.set = Some(set),
                Err(error) => {
                    let text = "members get no stamps before the next start or change of members";
                    return tracing::warn!(group = %self.name, "no random numbers: {error}: {text}");
                }
            }
        }
        let owed = owed.into_iter().filter_map(|(leg, epoch)| Some((leg, epoch?)));
        self.stamps.owed.extend(owed);
        let Stamps { owed, without, .. } = &mut self.stamps;
        without.retain(|leg| !owed.contains_key(leg));
        self.keep_epochs(epochs, now, driver);
    }

    /// The group has stopped. If anything failed, the flush behind a stamp must not take an error that the next start is to see.
    pub(super) fn raise_last_epochs(&mut self, now: Moment, driver: &mut dyn Driver) {
        if self.is_released() || self.engine.view().fault().is_some() {
            return;
        }
        let volumes = (0..).map(VolumeIndex).take(self.volumes.len());
        let all: Vec<_> = volumes.map(|volume| (volume, Vec::new())).collect();
        self.raise_epochs(&all, now, driver);
    }

    /// Whether a stamp of a member of the volume is being written.
    pub(crate) fn is_stamping(&self, volume: VolumeIndex) -> bool {
        self.stamps.unwritten().any(|leg| leg.volume == volume)
    }

    /// A disk is in the place of all members of a volume, and the next command tells the engine. Until the engine has recorded that,
    /// what is on record of stamps is that of the disk before. If the daemon is killed just behind that record, a disk with the identity of
    /// the one before and an older stamp is refused at the next start.
    pub(crate) fn replacing(&mut self, volume: VolumeIndex) {
        (0..).map(MemberIndex).take(MEMBERS_MAX).for_each(|member| {
            self.stamps.forget(Leg { volume, member });
        });
        self.stamps.replacing.push((CommandId(self.next_command + 1), volume));
    }

    /// A command ended. If the engine took another disk, that gets a stamp of its own.
    pub(super) fn replaced(
        &mut self,
        (command, ok): (CommandId, bool),
        now: Moment,
        driver: &mut dyn Driver,
    ) {
        let of = |(id, _): &(CommandId, VolumeIndex)| *id == command;
        let Some(at) = self.stamps.replacing.iter().position(of).filter(|_| ok) else { return };
        let (_, volume) = self.stamps.replacing[at];
        self.stamps.replacing.retain(|(_, of)| *of != volume);
        let mut epochs = self.metadata.ledger().epochs().clone();
        forget_members(&mut epochs.volumes[usize::from(volume.0)]);
        self.keep_epochs(epochs, now, driver);
        self.raise_epochs(&[(volume, Vec::new())], now, driver);
    }

    /// Whether the stamps of a volume are those of the disks that its members lie on.
    fn are_its_own(&self, volume: VolumeIndex) -> bool {
        let is_replaced = self.stamps.replacing.iter().any(|(_, of)| *of == volume);
        !is_replaced && !self.volumes[usize::from(volume.0)].has_another_disk()
    }

    fn keep_epochs(&mut self, epochs: Epochs, now: Moment, driver: &mut dyn Driver) {
        if epochs != *self.metadata.ledger().epochs() {
            self.stamps.recording += 1;
            self.keep(Change::Epochs(epochs), now, driver);
        }
    }

    /// A record of epochs ended. If it is durable and the last one, members get what is recorded. After one that failed none is ever
    /// durable, and no member gets another epoch.
    pub(super) fn epochs_kept(&mut self, ok: bool, now: Moment, driver: &mut dyn Driver) {
        if ok {
            self.stamps.recording -= 1;
            self.stamp_members(now, driver);
        } else {
            self.stamps.owed.clear();
        }
        self.close_unused();
    }

    /// The recorded state of a member.
    fn entry(&self, Leg { volume, member }: Leg) -> Option<MemberEntry> {
        let entries = self.metadata.ledger().members().get(usize::from(volume.0))?;
        *entries.get(usize::from(member.0))?
    }

    /// Begins to write the stamps of members that are used and do not have the epoch of their volume.
    fn stamp_members(&mut self, now: Moment, driver: &mut dyn Driver) {
        let Epochs { set, volumes: epochs } = self.metadata.ledger().epochs();
        let Some(set) = set.filter(|_| self.stamps.recording == 0) else { return };
        let mut begun = Vec::new();
        for (at, (plan, epochs)) in (0..).map(VolumeIndex).zip(self.volumes.iter().zip(epochs)) {
            let Some(epoch) = epochs.epoch else { continue };
            if !self.are_its_own(at) {
                continue;
            }
            for (n, member) in (0..).map(MemberIndex).zip(&plan.members) {
                let leg = Leg { volume: at, member: n };
                let health = self.entry(leg).map(|entry| entry.health);
                // One that left has a last one, which is its own.
                let last = self.stamps.owed.get(&leg).copied();
                let idle = last.is_some() && !self.works_on(leg);
                let leaves = |health: CopyHealth| !is_used(health) && idle;
                let health = health.filter(|health| is_used(*health) || leaves(*health));
                let (Some(store), Some(health)) =
                    (member.as_ref().and_then(MemberPlan::store), health)
                else {
                    continue;
                };
                let epoch = last.filter(|_| leaves(health)).unwrap_or(epoch);
                let carried = epochs.carried[usize::from(n.0)];
                let has_it = carried.is_some_and(|it| it.first() == epoch) && last.is_none()
                    || self.stamps.tried.get(&leg) == Some(&epoch)
                    || self.stamps.are_under_way(leg);
                // A stop waits for no disk that is late.
                let is_late = self.stopped && self.works_on(leg);
                let op = store.stamping(stamp((set, at), epoch, health).as_ref());
                if let Some(op) = op.filter(|_| !has_it && !is_late) {
                    begun.push((leg, epoch, op));
                }
            }
        }
        let most = if self.stopped { LAST_STAMP } else { self.config.member_timeout };
        let awaited = Awaited::until(now + most.min(self.config.member_timeout));
        for (leg, epoch, op) in begun {
            self.stamps.under_way.insert(leg, Writing { epoch, awaited, flushes: false });
            let detail = u32::from(leg.volume.0) << 8 | u32::from(leg.member.0);
            driver.submit(token(Kind::Stamp, self.index, detail), op);
        }
        // What could not begin never will: the member is closed, or forgotten.
        let mut owed = std::mem::take(&mut self.stamps.owed);
        owed.retain(|leg, _| self.stamps.are_under_way(*leg) || self.works_on(*leg));
        self.stamps.owed = owed;
    }

    /// Whether operations on a member are under way, or wait there.
    fn works_on(&self, leg: Leg) -> bool {
        let set = self.engine.view().set_status(leg.volume);
        let member = set.and_then(|set| set.members[usize::from(leg.member.0)]);
        let waits = member.is_some_and(|member| member.depth > 0);
        waits || self.ios.iter().flatten().any(|io| io.leg == leg)
    }

    /// An operation on the member ended. If it was the last one of a member that left, it gets its last stamp: a disk that hangs gets none
    /// before it responds, and no stop waits for that.
    pub(super) fn member_is_idle(&mut self, leg: Leg, now: Moment, driver: &mut dyn Driver) {
        let ends = self.stopped && !self.is_released();
        if (ends || self.stamps.are_owed(leg)) && !self.works_on(leg) {
            self.stamp_members(now, driver);
        }
    }

    /// The stamp of a member was written, or could not be.
    pub(crate) fn stamp_done(
        &mut self,
        detail: u32,
        outcome: &Outcome,
        now: Moment,
        driver: &mut dyn Driver,
    ) {
        let volume = VolumeIndex((detail >> 8) as u16);
        let leg = Leg { volume, member: MemberIndex(detail as u8) };
        let Some(writing) = self.stamps.under_way.remove(&leg) else {
            panic!("a stamp of {leg:?} ended twice")
        };
        let epoch = writing.epoch;
        self.stamps.tried.insert(leg, epoch);
        let is_last = self.stamps.owed.get(&leg) == Some(&epoch);
        if outcome.error().is_none() && (is_last || self.stopped) && !writing.flushes {
            let plan = self.volumes.get(usize::from(volume.0));
            let store = plan.and_then(|plan| plan.member(leg.member)?.store());
            if let Some(op) = store.map(Member::flush_all) {
                self.stamps.under_way.insert(leg, Writing { flushes: true, ..writing });
                return driver.submit(token(Kind::Stamp, self.index, detail), op);
            }
        }
        if is_last {
            self.stamps.owed.remove(&leg);
            if outcome.error().is_some() {
                self.stamps.without.insert(leg);
            }
        }
        match outcome.error() {
            None if is_last => {}
            None if writing.flushes && !self.is_released() => {
                self.has_stamp(leg, epoch, now, driver);
            }
            None => _ = self.stamps.written.insert(leg, epoch),
            Some(error) => {
                // The volumes of a group that was released are gone.
                if let Some(plan) = self.volumes.get(usize::from(volume.0))
                    && let Some(member) = plan.member(leg.member)
                {
                    let error = error.errno().map_or(std::io::ErrorKind::Other.into(), Into::into);
                    open::epochs::unstamped(
                        (&self.name, &plan.name),
                        Path::new(&member.path),
                        &error,
                    );
                }
            }
        }
        self.close_unused();
        self.stamp_members(now, driver);
    }

    /// The flush of that slot ended.
    pub(super) fn stamp_flushed(
        &mut self,
        slot: u32,
        ok: bool,
        now: Moment,
        driver: &mut dyn Driver,
    ) {
        let Some((leg, epoch)) = self.stamps.flushing.remove(&slot) else { return };
        self.stamps.flushed(leg, epoch, ok);
        if !ok {
            // The kernel reports the failure once: a flush that began before it may succeed, and proves nothing.
            self.stamps.flushing.retain(|_, (of, _)| *of != leg);
            return self.stamp_members(now, driver);
        }
        if !self.is_let_go() && self.entry(leg).is_some_and(|entry| is_used(entry.health)) {
            self.has_stamp(leg, epoch, now, driver);
        }
    }

    /// A member that is used has that stamp durably.
    fn has_stamp(&mut self, leg: Leg, epoch: Epoch, now: Moment, driver: &mut dyn Driver) {
        let mut epochs = self.metadata.ledger().epochs().clone();
        let volume = &mut epochs.volumes[usize::from(leg.volume.0)];
        stamped(volume, usize::from(leg.member.0), epoch);
        self.keep_epochs(epochs, now, driver);
    }

    /// Whether a member may return by its bitmap if it has one. If its stamp is not its last one, the bitmap is of another copy of it.
    pub(crate) fn judge_return(
        &mut self,
        leg: Leg,
        member: &MemberPlan,
        how: Adding,
        now: Moment,
    ) -> Result<bool, Refusal> {
        let health = self.entry(leg).map(|entry| entry.health);
        if !matches!(health, Some(CopyHealth::Removed | CopyHealth::Withdrawn)) {
            return Ok(true);
        }
        let Epochs { set, volumes } = self.metadata.ledger().epochs();
        let carried = volumes[usize::from(leg.volume.0)].carried[usize::from(leg.member.0)];
        let stamp = member.store().and_then(Member::stamp);
        if is_as_it_left((*set, leg.volume), carried, stamp) {
            return Ok(true);
        }
        let (path, volume) = (&member.path, &self.volumes[usize::from(leg.volume.0)].name);
        let text = format!(
            "{path} is not proven to be what was removed from {}/{volume}: it was restored from a backup, used elsewhere, or its last \
             stamp could not be written",
            self.name
        );
        match how {
            Adding::ByBitmap => {
                let hint = "`helio member add` without `--require-minicopy` copies all of it, and overwrites it";
                Err(Refusal::new("no-bitmap", text, hint))
            }
            // A command removed it, or it may be a backup that was put there.
            Adding::Returning(_) if !self.stamps.without.contains(&leg) => {
                let hint = "`helio member add` copies all of it, and overwrites it";
                Err(Refusal::new("no-bitmap", text, hint))
            }
            Adding::Any | Adding::Returning(_) => {
                tracing::warn!(group = %self.name, volume = %volume, member = %path, "{text}; all of it is copied");
                self.tell(now, Event::Layers(LayerSetting::Distrust(leg)));
                Ok(false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_waits_for_stamps_until_they_are_late() {
        let leg = |n| Leg { volume: VolumeIndex(0), member: MemberIndex(n) };
        let mut stamps = Stamps::default();
        assert!(!stamps.are_awaited());
        for (n, until) in [(0, Moment(7)), (1, Moment(9))] {
            let awaited = Awaited::until(until);
            let writing = Writing { epoch: Epoch::FIRST, awaited, flushes: false };
            stamps.under_way.insert(leg(n), writing);
        }
        for (now, next) in [(0, Moment(7)), (7, Moment(9)), (9, Moment::NEVER)] {
            stamps.look(Moment(now));
            assert_eq!((stamps.are_awaited(), stamps.deadline()), (now < 9, next), "at {now}");
        }
        assert!(stamps.unwritten().eq([leg(0), leg(1)]), "they may take effect later");
    }

    #[test]
    fn a_stamp_whose_flush_fails_is_written_again_unless_a_later_one_was() {
        let leg = Leg { volume: VolumeIndex(1), member: MemberIndex(2) };
        let (first, next) = (Epoch::FIRST, Epoch::FIRST.next());
        for (written, ok, left) in [
            (first, true, (None, Some(first))),
            (first, false, (None, None)),
            (next, true, (Some(next), Some(next))),
            (next, false, (Some(next), Some(next))),
        ] {
            let mut stamps = Stamps::default();
            (_, _) = (stamps.written.insert(leg, written), stamps.tried.insert(leg, written));
            stamps.flushed(leg, first, ok);
            let found = (stamps.written.get(&leg).copied(), stamps.tried.get(&leg).copied());
            assert_eq!(found, left, "{written}, {ok}");
        }
    }
}

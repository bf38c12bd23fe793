// SPDX-License-Identifier: Apache-2.0
//! What goes wrong, and what administrators do about it.

use super::super::member::Fails;
use super::super::story::ensure;
use super::desk::Desk;
use helio_netmodel::Dice;
use helio_stack::{Duty, Leg, MemberEvent, Outcome, SetOp, StoreFault, StoreOp};
use helio_units::VolumeIndex;

/// How often what goes wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Odds {
    /// Of a thousand reads, on members that fail at all.
    reads: u64,
    changes: u64,
    flushes: u64,
    /// Members that fail, a bit for each.
    bad: u64,
    /// Of a thousand records.
    records: u64,
    /// Whether disks fall silent.
    silences: bool,
}

impl Odds {
    pub(super) fn draw(dice: &mut Dice) -> Self {
        let mut rare = |most: [u64; 4]| most[dice.below(4) as usize];
        Self {
            reads: rare([0, 20, 50, 200]),
            changes: rare([0, 10, 30, 100]),
            flushes: rare([0, 0, 50, 200]),
            bad: rare([0b00_0001, 0b00_0010, 0b00_0111, 0b11_1111]),
            records: rare([0, 0, 0, 5]),
            silences: rare([0, 1, 1, 1]) == 1,
        }
    }

    pub(super) fn ledger(&self, dice: &mut Dice) -> bool {
        dice.below(1000) < self.records
    }

    /// Whether an operation on a member fails, and how.
    fn fails(&self, leg: Leg, op: &StoreOp, dice: &mut Dice) -> Option<Fails> {
        let odds = match op {
            StoreOp::Read { .. } | StoreOp::Map { .. } => self.reads,
            op if op.is_flush() => self.flushes,
            _ => self.changes,
        };
        if self.bad & (1 << leg.member.0) == 0 || dice.below(1000) >= odds {
            return None;
        }
        let changes = op.changes().is_some();
        Some(match dice.below(3) {
            0 if changes => Fails::Half,
            1 if changes => Fails::Lost,
            _ => Fails::Untouched,
        })
    }
}

impl Desk {
    pub(super) fn disk(&mut self, leg: Leg) -> &mut super::super::member::Members {
        &mut self.disks[usize::from(leg.member.0)]
    }

    /// An operation on a member ends.
    pub(super) fn end_leg(&mut self, gently: bool) {
        let responds = |leg: &Leg| !self.silent.contains_key(leg);
        let mut names = self.legs.iter().filter(|(_, leg)| responds(leg)).map(|(name, _)| *name);
        let count = names.clone().count() as u64;
        if count == 0 {
            return;
        }
        let Some(name) = names.nth(self.dice.below(count) as usize) else { return };
        let Some(leg) = self.legs.remove(&name) else { return };
        let Some((volume, op)) = self.disk(leg).op(name) else { return };
        let fails = if gently { None } else { self.odds.fails(leg, &op, &mut self.dice) };
        let outcome = match fails {
            Some(how) => {
                self.disk(leg).fail(name, how);
                self.note_failure(leg, &op);
                Outcome::failed(&op, StoreFault::Io)
            }
            None => self.disks[usize::from(leg.member.0)].end(name, &mut self.payloads),
        };
        if let Some(extent) = op.changes() {
            self.hot.leave(volume, extent);
        }
        self.stack.member_ended(name, outcome);
    }

    fn note_failure(&mut self, leg: Leg, op: &StoreOp) {
        self.failed_at.insert(leg, self.reference.now());
        if op.is_flush() {
            self.unflushed.insert(leg);
        }
    }

    /// What is under way on a member comes back as failed, and may land later.
    pub(super) fn give_up(&mut self, leg: Leg) -> Result<(), String> {
        let full = self.ledger.is_full(leg);
        ensure(!full, || format!("{leg:?} is given up, and the ledger calls it full"))?;
        self.walked.silences += 1;
        self.given_up.insert(leg);
        let volume = leg.volume;
        for (name, op) in self.disk(leg).give_up(volume) {
            self.legs.remove(&name);
            self.note_failure(leg, &op);
            if let Some(extent) = op.changes() {
                self.hot.leave(volume, extent);
            }
            self.stack.member_ended(name, Outcome::failed(&op, StoreFault::Silent));
        }
        Ok(())
    }

    /// Something happens to a disk.
    pub(super) fn make_trouble(&mut self) {
        let places: Vec<Leg> = self.places().collect();
        let leg = places[self.dice.below(places.len() as u64) as usize];
        match self.dice.below(8) {
            6 if self.dice.chance(1, 4) => self.doubt_members(),
            6 => {}
            7 => self.ledger.back_up(),
            0 if self.odds.silences => _ = self.silent.entry(leg).or_insert(false),
            0 | 1 => self.responds_again(leg),
            2 | 3 => self.tell_silence(),
            _ => self.land(),
        }
    }

    /// The ledger was found older than what happened to members, or is taken for such a one.
    pub(super) fn doubt_members(&mut self) {
        self.stack.doubt_members(self.now);
        let copying = |leg: &Leg| matches!(self.duty(*leg), Some(Duty::Copying { .. }));
        let copying: Vec<Leg> = self.places().filter(copying).collect();
        self.whole.extend(copying);
    }

    /// Members on which something is under way and that do not respond are silent by now.
    pub(super) fn tell_silence(&mut self) {
        let under_way: Vec<Leg> = self.legs.values().copied().collect();
        for (leg, told) in &mut self.silent {
            if !*told && under_way.contains(leg) {
                *told = true;
                self.stack.member_event(*leg, MemberEvent::Silent, self.now);
            }
        }
    }

    /// A disk responds again.
    pub(super) fn responds_again(&mut self, leg: Leg) {
        if self.silent.remove(&leg) == Some(true) && !self.given_up.contains(&leg) {
            self.stack.member_event(leg, MemberEvent::Ended, self.now);
        }
    }

    /// Operations that were given up land, and the member may be used again behind the last one.
    pub(super) fn land(&mut self) {
        let responds = |leg: &&Leg| !self.silent.contains_key(leg);
        for leg in self.given_up.iter().filter(responds).copied().collect::<Vec<Leg>>() {
            let volume = leg.volume;
            if self.disk(leg).is_late(volume) {
                self.walked.late += 1;
                self.disk(leg).land(volume);
            } else {
                self.given_up.remove(&leg);
                self.stack.member_event(leg, MemberEvent::Ended, self.now);
            }
        }
    }

    /// An administrator asks something of the members.
    pub(super) fn command(&mut self) {
        let places: Vec<Leg> = self.places().collect();
        let leg = places[self.dice.below(places.len() as u64) as usize];
        let op = match self.dice.below(12) {
            0 => return self.ask_merge(leg.volume),
            1..4 => SetOp::Remove { leg, force: self.dice.chance(1, 2) },
            _ => SetOp::Add { leg, by_bitmap: self.dice.chance(1, 4) },
        };
        self.ask_set(op);
    }

    /// Asks for a merge of a volume. Once that is acknowledged, a crash does not end it.
    fn ask_merge(&mut self, volume: VolumeIndex) {
        if self.stack.ask_set(SetOp::Merge(volume), self.now).is_ok() {
            self.merges.insert(volume);
        }
    }

    /// Asks it, where it is not refused.
    pub(super) fn ask_set(&mut self, op: SetOp) {
        let known = match op {
            SetOp::Add { leg, .. } => self.duty(leg),
            _ => None,
        };
        if self.stack.ask_set(op, self.now).is_ok()
            && let SetOp::Add { leg, .. } = op
        {
            match known {
                Some(Duty::Removed { lacks: Some(_), .. }) => _ = self.whole.remove(&leg),
                _ => _ = self.whole.insert(leg),
            }
        }
    }

    pub(super) fn duty(&self, leg: Leg) -> Option<Duty> {
        let status = self.stack.set_status(leg.volume)?;
        status.members[usize::from(leg.member.0)].map(|member| member.duty)
    }
}

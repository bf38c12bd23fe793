// SPDX-License-Identifier: Apache-2.0
//! The process ends and starts again; and in the end everything comes to rest.

use super::super::story::ensure;
use super::super::{BLOCK, Stamp};
use super::desk::Desk;
use helio_format::members::{CopyHealth, VolumeMembers};
use helio_shadow::{Shadow, Transfer};
use helio_stack::{Duty, Layer, LayerSetting, Leg, Pass, SetOp, Stack};
use helio_units::{MemberIndex, Moment, VolumeIndex};

/// Steps without which a story that is to come to rest never does.
const STEPS_TO_REST: u64 = 60_000;

impl Desk {
    /// The process starts, with its layers as the host composes them.
    pub(super) fn start(&mut self) {
        let mut shadow = Shadow::new(&self.sizes, self.region, self.ledger.members());
        for (leg, page, bits) in self.ledger.pages() {
            shadow.load(leg, page, bits);
        }
        shadow.set_transfer(match self.dice.below(4) {
            0 => Transfer::Auto,
            more => Transfer::Fixed(self.region * more),
        });
        self.foreign.retain(|leg| shadow.distrust(*leg));
        let mut layers: Vec<Box<dyn Layer>> = vec![Box::new(shadow)];
        for at in [0].repeat(self.around.0 as usize) {
            layers.insert(at, Box::new(Pass::default()));
        }
        layers.extend((0..self.around.1).map(|_| Box::new(Pass::default()) as Box<dyn Layer>));
        self.stack = Stack::new(layers);
        if self.believed.is_some() {
            self.doubt_members();
        }
        for leg in self.places() {
            let cost = 1 + self.dice.below(3) as u32;
            self.stack.set(LayerSetting::ReadCost { leg, cost }, self.now);
        }
        for (volume, extent) in self.hot.restart() {
            let owned = self.stack.found_hot(volume, extent) & (1 << self.around.0) != 0;
            self.hot.load(volume, extent, owned);
        }
        self.before.clear();
        self.observe();
    }

    /// The process ends, and maybe the power with it; another one starts.
    pub(super) fn crash(&mut self, power: bool) -> Result<(), String> {
        self.walked.crashes += 1;
        let to_merge = self.owed_merges();
        if self.ledger.crash(&mut self.dice) {
            self.members_recorded();
        }
        for disk in &mut self.disks {
            disk.crash(power, &mut self.dice);
        }
        let restored = self.believed.is_none() && self.restore_ledger(power)?;
        self.recover_unknown_losses();
        // Nothing is under way any more on a disk that a process opens: `Members::crash` says why.
        self.silent.clear();
        self.given_up.clear();
        if !restored {
            self.judge_crash(power)?;
        }
        let full: Vec<Vec<usize>> = self.volumes().map(|volume| self.full(volume)).collect();
        let lives: Vec<Vec<&[Stamp]>> = full
            .iter()
            .enumerate()
            .map(|(v, full)| full.iter().map(|m| &self.disks[*m].live()[v][..]).collect())
            .collect();
        self.reference.restarts_from(&lives, power);
        self.asked.clear();
        self.legs.clear();
        self.comparing.clear();
        self.unflushed.clear();
        self.payloads.forget();
        if self.believed.is_none() {
            self.swap_a_disk();
        }
        self.start();
        if self.believed.is_none() {
            self.judge_merges(&to_merge)?;
        }
        self.after()
    }

    /// A limit: where the process ends between a failed flush and the record of it, nothing tells what the flush lost. A process that knows
    /// that its ledger is old compares nothing, so only the member that it uses counts then.
    fn recover_unknown_losses(&mut self) {
        for leg in self.places() {
            let unproven = self.ledger.state(leg) == Some(CopyHealth::Unproven);
            let is_used = if self.believed.is_some() {
                self.full(leg.volume).contains(&usize::from(leg.member.0))
            } else {
                self.ledger.is_full(leg) || unproven
            };
            if is_used {
                self.disk(leg).recover(usize::from(leg.volume.0));
            }
        }
    }

    /// Sometimes an old ledger is restored, if the first member of every volume that it calls full is so still: that one counts. Returns
    /// whether one is.
    fn restore_ledger(&mut self, power: bool) -> Result<bool, String> {
        let Some(old) = self.ledger.backed_up().filter(|_| self.dice.chance(1, 3)) else {
            return Ok(false);
        };
        let first = |members: &VolumeMembers| {
            members.iter().position(|m| matches!(m, Some(CopyHealth::Good | CopyHealth::Blank)))
        };
        let first: Option<Vec<usize>> = old.iter().map(first).collect();
        let counts = |(volume, member): (VolumeIndex, &usize)| self.full(volume).contains(member);
        let Some(first) = first.filter(|first| self.volumes().zip(first).all(counts)) else {
            return Ok(false);
        };
        self.judge_crash(power)?;
        self.ledger.restore();
        self.hot.forget();
        self.believed = Some(first);
        self.walked.restored += 1;
        Ok(true)
    }

    /// What the ledger says of members is durable, and is about the disks that there are.
    pub(super) fn members_recorded(&mut self) {
        self.foreign.clear();
        self.believed = None;
    }

    /// Sometimes a disk is another one when the process starts.
    fn swap_a_disk(&mut self) {
        if !self.dice.chance(1, 8) {
            return;
        }
        let places: Vec<Leg> = self.places().collect();
        let leg = places[self.dice.below(places.len() as u64) as usize];
        let others = self.full(leg.volume).iter().any(|m| *m != usize::from(leg.member.0));
        if !others || self.ledger.state(leg).is_none() {
            return;
        }
        self.names += 1;
        let junk = u64::MAX - self.names;
        self.disk(leg).replace(usize::from(leg.volume.0), junk);
        self.foreign.insert(leg);
        self.ledger.forget_backup();
        self.walked.swaps += 1;
    }

    /// The members that the ledger calls full, and that are the disks it means.
    pub(super) fn full(&self, volume: VolumeIndex) -> Vec<usize> {
        let leg = |n: usize| Leg { volume, member: MemberIndex(n as u8) };
        let believed = self.believed.as_ref().map(|of| of[usize::from(volume.0)]);
        let is_full = |n: &usize| {
            let leg = leg(*n);
            believed.is_none_or(|believed| believed == *n)
                && self.ledger.is_full(leg)
                && !self.foreign.contains(&leg)
        };
        (0..self.disks.len()).filter(is_full).collect()
    }

    /// Everything ends, members return, and nothing is left over.
    pub(super) fn rest(&mut self) -> Result<(), String> {
        self.stack.set(LayerSetting::Background(u64::MAX), self.now);
        for _ in 0..STEPS_TO_REST {
            for leg in self.silent.keys().copied().collect::<Vec<_>>() {
                self.responds_again(leg);
            }
            self.land();
            self.return_members();
            self.after()?;
            let works =
                !self.legs.is_empty() || self.ledger.is_busy() || !self.comparing.is_empty();
            let idle = self.asked.is_empty() && self.given_up.is_empty();
            if idle && !works && self.stack.deadline() == Moment::NEVER {
                return self.judge_rest();
            }
            self.end_one(true);
            self.pass_time()?;
            self.after()?;
        }
        Err(format!("it never rests: {:?}, {:?}", self.asked, self.stack))
    }

    fn return_members(&mut self) {
        if self.ledger.has_failed() {
            return;
        }
        for leg in self.places() {
            if matches!(self.duty(leg), Some(Duty::Removed { .. })) {
                self.ask_set(SetOp::Add { leg, by_bitmap: false });
            }
        }
    }

    /// Full members differ in blank regions at most, where the ledger has the bit of each member, and has no other one.
    fn judge_rest(&mut self) -> Result<(), String> {
        let held = self.payloads.held();
        ensure(held == 0, || format!("{held} payloads are left over"))?;
        for (v, volume) in self.volumes().enumerate() {
            let Some(status) = self.stack.set_status(volume) else {
                return Err(String::from("no layer keeps several members"));
            };
            ensure(status.unmerged.0 == 0, || format!("volume {v} stays unmerged"))?;
            let mut full = Vec::new();
            for (n, member) in status.members.iter().enumerate() {
                match member.map(|member| member.duty) {
                    Some(Duty::Full) => full.push(n),
                    None => {}
                    Some(duty) => ensure(self.ledger.has_failed(), || {
                        format!("member {n} of volume {v} stays {duty:?}")
                    })?,
                }
            }
            let Some(first) = full.first() else { return Err(format!("volume {v} has no member")) };
            for other in &full {
                let (one, two) = (&self.disks[*first].live()[v], &self.disks[*other].live()[v]);
                let legs = [*first, *other].map(|n| Leg { volume, member: MemberIndex(n as u8) });
                let all_told = |at: usize| legs.iter().all(|leg| self.has_bit(*leg, at));
                let is_blank = |at: usize| status.blank.0 > 0 && all_told(at);
                let differs = (0..one.len()).find(|at| one[*at] != two[*at] && !is_blank(*at));
                ensure(differs.is_none(), || {
                    format!("members {first} and {other} of volume {v} differ in block {differs:?}")
                })?;
                let size = self.sizes[v];
                let places = (0..size.0).step_by(self.region.0 as usize);
                let bits = places.filter(|at| self.has_bit(legs[1], (at / BLOCK) as usize)).count();
                let told = (self.region * bits as u64).min(size);
                ensure(self.ledger.has_failed() || told == status.blank, || {
                    format!(
                        "{} of volume {v} are blank, and the bitmap of member {other} has {told}",
                        status.blank
                    )
                })?;
            }
            for (block, stamp) in self.disks[*first].live()[v].iter().enumerate() {
                ensure(self.reference.allows(v, block, *stamp, false), || {
                    format!("block {block} of volume {v} holds {stamp} in the end")
                })?;
            }
        }
        Ok(())
    }
}

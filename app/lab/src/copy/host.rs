// SPDX-License-Identifier: Apache-2.0
//! The host of the layer that keeps members alike: it performs the operations of the layer during a copy from one member to
//! another, or writes to both. The records of the layer stay in memory.

use super::legs::Legs;
use crate::error::LabError;
use helio_driver::{Buffer, Completion, Outcome, Shared, Token};
use helio_format::members::{CopyHealth, MEMBERS_MAX};
use helio_shadow::{REGION, Shadow, Transfer};
use helio_stack::{Duty, Layer, Leg, Out, Outcome as StoreOutcome, SetOp, Stack, StoreOp};
use helio_units::{Bytes, Extent, MemberIndex, Moment, Payload, PayloadId, VolumeIndex};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const VOLUME: VolumeIndex = VolumeIndex(0);
const TARGET: Leg = Leg { volume: VOLUME, member: MemberIndex(1) };

/// Result of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Copied {
    /// Bytes of the volume that were copied, or compared and found equal.
    pub(super) copied: Bytes,
    /// Bytes that were written to the target.
    pub(super) written: Bytes,
    /// How long the copy took.
    pub(super) span: Duration,
}

/// How a copy is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    /// Bytes of the volume.
    pub(super) size: Bytes,
    /// Bytes of a region: of one bit in the bitmap of the target.
    pub(super) region: Bytes,
    pub(super) transfer: Transfer,
    /// The copy ends after this time, even if it is not complete.
    pub(super) longest: Duration,
}

/// See the module.
pub(super) struct Host<'l, 's> {
    legs: &'l mut Legs<'s>,
    stack: Stack,
    payloads: BTreeMap<u64, Shared>,
    named: u64,
    begun: Instant,
    written: u64,
}

/// Copies the source to the target, whose content is unknown.
pub(super) fn copy(legs: &mut Legs<'_>, course: &Course) -> Result<Copied, LabError> {
    let mut found = [None; MEMBERS_MAX];
    found[0] = Some(CopyHealth::Good);
    let mut shadow = Shadow::new(&[course.size], course.region, &[found]);
    shadow.set_transfer(course.transfer);
    let mut host = Host::of(legs, &shadow);
    let add = SetOp::Add { leg: TARGET, by_bitmap: false };
    host.stack.ask_set(add, Moment::ZERO).expect("a volume with one member accepts a second one");
    host.run(course)
}

impl<'l, 's> Host<'l, 's> {
    fn of(legs: &'l mut Legs<'s>, shadow: &Shadow) -> Self {
        let stack = Stack::new(vec![shadow.boxed()]);
        Self { legs, stack, payloads: BTreeMap::new(), named: 0, begun: Instant::now(), written: 0 }
    }

    /// The host of a volume whose two members are equal.
    pub(super) fn mirror(legs: &'l mut Legs<'s>, size: Bytes) -> Self {
        let mut found = [None; MEMBERS_MAX];
        found[..2].fill(Some(CopyHealth::Good));
        Self::of(legs, &Shadow::new(&[size], REGION, &[found]))
    }

    /// Writes to both members, and waits until the write is durable on both.
    pub(super) fn write(
        &mut self,
        name: u64,
        extent: Extent,
        buffer: Buffer,
    ) -> Result<(), LabError> {
        let payload = self.name(buffer);
        self.stack.begin(name, VOLUME, StoreOp::Write { extent, payload, fua: true });
        loop {
            while let Some(out) = self.stack.next(self.now()) {
                if let Out::Ended { outcome, .. } = out {
                    assert_eq!(outcome, StoreOutcome::Done, "a write fails only if a disk does");
                    self.payloads.remove(&payload.id.0);
                    return Ok(());
                }
                self.perform(out)?;
            }
            for Completion { token, outcome } in self.legs.wait(None)? {
                self.ended(token, outcome);
            }
        }
    }

    fn name(&mut self, buffer: Buffer) -> Payload {
        self.named += 1;
        let payload = Payload { id: PayloadId(self.named), length: buffer.len() as u32 };
        self.payloads.insert(self.named, buffer.into_shared());
        payload
    }

    fn now(&self) -> Moment {
        Moment::ZERO + self.begun.elapsed()
    }

    fn run(&mut self, course: &Course) -> Result<Copied, LabError> {
        let end = self.begun + course.longest;
        let left = loop {
            while let Some(out) = self.stack.next(self.now()) {
                self.perform(out)?;
            }
            match self.duty() {
                Some(Duty::Full) => break Bytes::ZERO,
                Some(Duty::Copying { left }) if Instant::now() >= end => break left,
                Some(Duty::Copying { .. }) => {}
                duty => panic!("no disk failed, but the target is {duty:?}"),
            }
            let next = self.stack.deadline();
            let tick = (next != Moment::NEVER).then(|| self.begun + next.since(Moment::ZERO));
            for Completion { token, outcome } in
                self.legs.wait(tick.into_iter().chain([end]).min())?
            {
                self.ended(token, outcome);
            }
            let now = self.now();
            self.stack.tick(now);
        };
        let span = self.begun.elapsed();
        self.legs.abandon()?;
        let copied = Bytes(course.size.0 - left.0);
        Ok(Copied { copied, written: Bytes(self.written), span })
    }

    fn duty(&self) -> Option<Duty> {
        let set = self.stack.set_status(VOLUME)?;
        set.members.get(usize::from(TARGET.member.0))?.map(|member| member.duty)
    }

    fn perform(&mut self, out: Out) -> Result<(), LabError> {
        match out {
            Out::Member { name, leg, op } => return self.begin(name, leg, op),
            Out::Record(_) => {
                let now = self.now();
                self.stack.recorded(true, now);
            }
            Out::Compare { name, pair } => {
                let [one, other] = pair.map(|id| &self.payloads[&id.0]);
                let equal = one[..] == other[..];
                let now = self.now();
                self.stack.compared(name, equal, now);
            }
            Out::Release(PayloadId(id)) => _ = self.payloads.remove(&id),
            other => panic!("the layer requests {other:?}, which no copy or write needs"),
        }
        Ok(())
    }

    fn begin(&mut self, name: u64, leg: Leg, op: StoreOp) -> Result<(), LabError> {
        let at = usize::from(leg.member.0);
        let member = self.legs.member(at);
        let op = match op {
            StoreOp::Read { extent } => {
                Legs::fits(member.read(extent, self.legs.buffer(extent.length)))?
            }
            StoreOp::Write { extent, payload, fua } => {
                self.written += extent.length;
                if fua {
                    self.stack.member_issued(name);
                }
                let bytes = Shared::clone(&self.payloads[&payload.id.0]);
                Legs::fits(member.write(extent, bytes, 0..extent.length as usize, fua))?
            }
            StoreOp::Flush => member.flush(),
            other => {
                panic!("the layer requests {other:?} of a member, which no copy or write needs")
            }
        };
        self.legs.submit(at, Token(name), op);
        Ok(())
    }

    fn ended(&mut self, Token(name): Token, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Read { buffer, .. } => StoreOutcome::Read(self.name(buffer)),
            _ => StoreOutcome::Done,
        };
        self.stack.member_ended(name, outcome);
    }
}

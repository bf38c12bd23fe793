// SPDX-License-Identifier: Apache-2.0
//! A flush goes to every member that is used, and ends when what it covers is durable on each that counts as full, and what the
//! others lack in their bitmaps.

use super::Set;
use crate::member::Stage;
use crate::op::{Flush, Legs, Op, bit, members};
use helio_stack::{Io, Outcome, Port, StoreOp};

impl Set {
    /// A client's, or by the set itself. Returns its name.
    pub(super) fn begin_flush(&mut self, io: Option<Io>, port: &mut Port<'_>) -> u64 {
        let (id, used) = (self.count(), self.full() | self.copying());
        let flush = Flush::new(io, self.recent.begin());
        self.ops.insert(id, Op::Flush(flush, Legs::on(used)));
        for member in members(used) {
            self.issue(id, member, StoreOp::Flush, port);
        }
        if used == 0 {
            self.flush_done(id, port);
        }
        id
    }

    /// Every leg of it has ended.
    pub(super) fn flush_done(&mut self, id: u64, port: &mut Port<'_>) {
        let Some(Op::Flush(flush, legs)) = self.ops.get(&id) else { return };
        let (flush, legs) = (*flush, *legs);
        let until = self.recent.done(flush.number());
        // A member that became full since was flushed as the last step of that.
        if self.full() & !legs.failed() == 0 {
            self.flush_failed_everywhere(&legs, port);
            self.ops.remove(&id);
            return match flush.io() {
                Some(io) => port.end(io, Outcome::Unsure(legs.fault())),
                // No operation of the host's fails with it.
                None => {
                    port.flush_failed(self.place.volume, legs.fault());
                    self.copies_flushed(id, 0, port);
                }
            };
        }
        for member in members((self.full() | self.copying()) & legs.failed()) {
            self.remove(member);
        }
        let tick = self.count();
        if let Some(Op::Flush(flush, _)) = self.ops.get_mut(&id) {
            flush.wait(tick, until);
            self.ended.insert(id);
        }
    }

    /// It waits for nothing any more.
    pub(super) fn end_flush(
        &mut self,
        id: u64,
        flush: Flush,
        legs: Legs,
        ends_well: bool,
        port: &mut Port<'_>,
    ) {
        let overlapped = self.recent.overlapped(flush.number());
        if ends_well && overlapped.is_none() {
            self.recent.prove(flush.number());
        }
        let Some(io) = flush.io() else {
            let done = if overlapped.is_none() { legs.done() } else { 0 };
            return self.copies_flushed(id, done, port);
        };
        let failed = overlapped.or(self.records.failed.filter(|_| !ends_well));
        port.end(io, failed.map_or(Outcome::Done, Outcome::Unsure));
    }

    /// A flush that copies wait for is done on those members.
    fn copies_flushed(&mut self, id: u64, done: u8, port: &mut Port<'_>) {
        for member in 0..self.members.len() {
            let Some(copying) = self.member(member).and_then(|it| it.copying()) else { continue };
            let flushed = done & bit(member) != 0;
            match (copying.stage(), flushed) {
                (Stage::Settling(of), true) if of == id => copying.settled(),
                (Stage::Settling(of), false) if of == id => copying.step(Stage::Settling(0)),
                (Stage::Flushing(of), true) if of == id => copying.step(Stage::Saving),
                (Stage::Flushing(of), false) if of == id => copying.step(Stage::Copies),
                _ => continue,
            }
            if !flushed {
                self.wait(port);
            }
        }
    }

    /// Whether what every member lacks was durable as of that tick.
    pub(super) fn are_bitmaps_saved(&self, tick: u64) -> bool {
        self.members.iter().flatten().all(|member| member.is_saved_since(tick))
    }

    /// Copies whose target is to be flushed first; and those without a region left are flushed, recorded, and full then, in this
    /// order.
    pub(super) fn step_copies(&mut self, port: &mut Port<'_>) {
        if self.copying() == 0 {
            return;
        }
        let (now, fills) = (port.now(), self.fills_blank());
        for number in 0..self.members.len() {
            let again = self.pace.again;
            let blank = self.unmerged.blank();
            let Some(member) = self.members[number].as_mut() else { continue };
            let recorded = !member.is_unrecorded();
            let Some(copying) = member.copying() else { continue };
            let done = copying.is_clean(blank) && !fills;
            let then: fn(u64) -> Stage = match copying.stage() {
                Stage::Settling(0) if now >= again => Stage::Settling,
                Stage::Copies if done && now >= again => Stage::Flushing,
                Stage::Recording if done && recorded => {
                    member.be_full();
                    continue;
                }
                _ => continue,
            };
            let id = self.begin_flush(None, port);
            let copying = self.member(number).and_then(|it| it.copying());
            copying.into_iter().for_each(|it| it.step(then(id)));
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What is asked of the members of a set, and reported of their disks.

use super::Set;
use crate::member::{Copying, Lacks, Member, Response, State};
use crate::op::members;
use helio_bitmap::Bitmap;
use helio_plant::{Plant, planted};
use helio_stack::{MemberEvent, Port, SetOp, SetRefusal};

impl Set {
    /// An administrator, or the host, asks something.
    pub(crate) fn ask(&mut self, op: SetOp) -> Result<(), SetRefusal> {
        match op {
            SetOp::Merge(_) if !self.has_several() => Err(SetRefusal::Unsupported),
            _ if self.records.failed.is_some() => Err(SetRefusal::NoRecord),
            SetOp::Merge(_) => {
                self.touch_all();
                self.unmerged.set_all();
                self.members.iter_mut().flatten().for_each(Member::set_all);
                self.records.asked_at = Some(self.count());
                Ok(())
            }
            SetOp::Add { leg, by_bitmap } => self.add(usize::from(leg.member.0), by_bitmap),
            SetOp::Remove { leg, force } => self.take_out(usize::from(leg.member.0), force),
        }
    }

    fn add(&mut self, number: usize, by_bitmap: bool) -> Result<(), SetRefusal> {
        let (size, region, tick) = (self.place.size, self.place.region, self.count());
        let alone = self.is_alone();
        let Some(slot) = self.members.get_mut(number) else { return Err(SetRefusal::NoMember) };
        let known =
            matches!(slot.as_ref().map(Member::state), Some(State::Removed(Lacks::Known { .. })));
        if slot.as_ref().is_some_and(|member| !member.is_removed()) {
            return Err(SetRefusal::Used);
        }
        let is_late =
            |member: &Member| member.response() != Response::Responds || !member.is_idle();
        if slot.as_ref().is_some_and(is_late) && !planted(Plant::ReturnTooEarly) {
            return Err(SetRefusal::Late);
        }
        if by_bitmap && !known {
            return Err(SetRefusal::NoBitmap);
        }
        if alone {
            self.recent.forget();
        }
        let member = slot.get_or_insert_with(|| Member::new(State::Removed(Lacks::Unknown), None));
        let copying = match core::mem::replace(member.state_mut(), State::Removed(Lacks::Failed)) {
            State::Removed(Lacks::Known { lacks, .. }) => Copying::known(lacks),
            State::Removed(Lacks::Unknown) => {
                Copying::all(Bitmap::new(&[size], region), tick, true)
            }
            _ => Copying::all(Bitmap::new(&[size], region), tick, false),
        };
        *member.state_mut() = State::Copying(copying);
        if !known {
            // It may be missing what was written in a blank region before a restart.
            self.touch_all();
        }
        Ok(())
    }

    fn take_out(&mut self, number: usize, force: bool) -> Result<(), SetRefusal> {
        let last = self.is_last(number);
        let Some(member) = self.member(number) else { return Err(SetRefusal::NoMember) };
        if member.is_removed() {
            return if member.withdraw() { Ok(()) } else { Err(SetRefusal::Unused) };
        }
        if last {
            return Err(SetRefusal::Last);
        }
        if force && !member.is_idle() && member.response() == Response::Responds {
            member.set_response(Response::Silent);
        }
        self.remove(number);
        self.member(number).map(Member::withdraw);
        Ok(())
    }

    /// The host reports something of the disk of a member.
    pub(crate) fn member_event(&mut self, number: usize, event: MemberEvent) {
        let Some(member) = self.member(number) else { return };
        match (event, member.response()) {
            (MemberEvent::Silent, Response::Responds) => member.set_response(Response::Silent),
            (MemberEvent::Ended, Response::Silent | Response::Late) => {
                member.set_response(Response::Responds);
            }
            // A removal that is being recorded is not undone: the member is given up, and late as long as anything is under way.
            (MemberEvent::Silent, _) | (MemberEvent::Ended, _) => {}
        }
    }

    /// Removes silent members where another one is full, and gives them up once that is durable.
    pub(super) fn judge_silence(&mut self, port: &mut Port<'_>) {
        for number in members(self.which(|member| member.response() == Response::Silent)) {
            if !self.is_last(number) {
                self.remove(number);
                self.member(number).into_iter().for_each(|it| it.set_response(Response::GivingUp));
            }
        }
        let due = |member: &Member| member.response() == Response::GivingUp && member.is_recorded();
        for number in members(self.which(due)) {
            port.give_up(self.leg(number));
            self.member(number).into_iter().for_each(|it| it.set_response(Response::Late));
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What the control plane asks of a shard.

use super::clients::Place;
use super::{
    Ask, Begun, Clock, Group, Offer, Shard, attached, explain, payloads::payload_memory, show,
    unknown,
};
use crate::names::Unresolved;
use helio_driver::Driver;
use helio_units::Moment;
use std::net::SocketAddr;
use tokio::sync::oneshot;

impl<D: Driver> Shard<D> {
    /// Does what the control plane asks for.
    pub(super) fn asked(&mut self, ask: Ask, now: Moment) {
        // An asker that has gone wants no answer; so failed replies are dropped on purpose.
        match ask {
            Ask::Status { reply } => {
                let served: Vec<usize> = self.served().collect();
                let shown = served.into_iter().filter_map(|n| self.show(n)).collect();
                let _gone = reply.send((self.clock.wall(now), shown));
            }
            Ask::Command { group, command, reply } => match self.find(&group) {
                Some(index) => self.command(index, command, reply, now),
                None => {
                    let _gone = reply.send(Err(unknown(&group)));
                }
            },
            look @ (Ask::AtStake { .. }
            | Ask::MayPromote { .. }
            | Ask::Explain { .. }
            | Ask::Recorder { .. }) => self.asked_to_look(look),
            loss @ (Ask::Losing { .. } | Ask::ThrowingAway { .. } | Ask::Reverse { .. }) => {
                self.asked_of_losses(loss, now);
            }
            member @ (Ask::Seat { .. } | Ask::Replace { .. } | Ask::Suspect { .. }) => {
                self.asked_of_members(member, now);
            }
            Ask::Resolved { group, found } => self.resolved(&group, found, now),
            Ask::HookAnswered { group, refused } => {
                if let Some(index) = self.find(&group) {
                    self.rota.stir(index);
                    let event = helio_engine::Event::HookAnswered { refused };
                    self.groups[index].guarded(|group| group.tell(now, event));
                }
            }
            Ask::Running { reply } => {
                let served = self.served().map(|n| &self.groups[n]);
                let all = served.map(|g| (g.name.clone(), g.running()));
                let _gone = reply.send(all.collect());
            }
            Ask::Change { group, setting } => {
                if let Some(index) = self.find(&group) {
                    self.rota.stir(index);
                    self.groups[index].guarded(|group| group.change(now, setting));
                    self.pool.resize(payload_memory(self.groups.iter().map(|g| &g.config)));
                }
            }
            trace @ (Ask::Trace { .. } | Ask::TraceEnd { .. }) => self.asked_to_record(trace, now),
            device @ (Ask::Offer { .. }
            | Ask::Overtaken { .. }
            | Ask::Hold { .. }
            | Ask::Plug { .. }
            | Ask::Unplug { .. }) => {
                self.asked_of_devices(device, now);
            }
            come @ (Ask::Serve { .. } | Ask::Release { .. }) => self.comes_or_goes(come, now),
            Ask::Trust { guards } => self.trust(guards, now),
            Ask::Stop => self.stop(now),
        }
    }

    fn resolved(&mut self, group: &str, found: Result<Vec<SocketAddr>, Unresolved>, now: Moment) {
        if let Some(index) = self.find(group) {
            self.rota.stir(index);
            self.groups[index].guarded(|group| group.resolved(found, now));
        }
    }

    fn asked_to_look(&mut self, ask: Ask) {
        match ask {
            Ask::AtStake { group, reply } => self.look(&group, reply, show::at_stake),
            Ask::MayPromote { group, restore, reply } => {
                self.look(&group, reply, |group, _| group.engine.view().may_promote(true, restore));
            }
            Ask::Explain { group, reply } => self.look(&group, reply, explain::explanation),
            Ask::Recorder { group, reply } => self.look(&group, reply, show::recorder),
            _ => {}
        }
    }

    /// Replies with what a look at a group finds; where it is not served, the reply is dropped.
    fn look<T>(
        &mut self,
        group: &str,
        reply: oneshot::Sender<T>,
        look: impl FnOnce(&Group, &Clock) -> T,
    ) {
        let found = self.find(group);
        if let Some(seen) = found.and_then(|index| self.ask(index, look)) {
            let _gone = reply.send(seen);
        }
    }

    /// The groups that were not released, and did not fail.
    fn served(&self) -> impl Iterator<Item = usize> {
        (0..self.groups.len()).filter(|n| self.groups[*n].is_served())
    }

    fn show(&mut self, index: usize) -> Option<helio_api::GroupStatus> {
        let Self { groups, clock, clients, .. } = self;
        let count = |volume| clients.count(index, volume);
        groups[index].guarded(|group| show::group(group, clock, count))
    }

    /// Looks at a group for the control plane.
    fn ask<T>(&mut self, index: usize, look: impl FnOnce(&Group, &Clock) -> T) -> Option<T> {
        self.rota.stir(index);
        let Self { groups, clock, .. } = self;
        groups[index].guarded(|group| look(group, clock))
    }

    fn comes_or_goes(&mut self, ask: Ask, now: Moment) {
        match ask {
            Ask::Serve { plan, dice, reply } => self.serve(*plan, dice, reply, now),
            Ask::Release { group, force, reply } => self.release(&group, force, reply, now),
            _ => {}
        }
    }

    fn asked_of_losses(&mut self, ask: Ask, now: Moment) {
        match ask {
            Ask::Losing { group, reply } => {
                let found = self.find(&group);
                let look = |index| self.ask(index, |group, _| explain::losing(group));
                if let Some(told) = found.and_then(look) {
                    let _gone = reply.send(told);
                }
            }
            Ask::ThrowingAway { group, full, reply } => {
                if let Some(index) = self.find(&group) {
                    let _gone = reply.send(self.throwing_away(index, full));
                }
            }
            Ask::Reverse { group, full, saved, reply } => {
                if let Some(index) = self.find(&group) {
                    self.reverse(index, (full, &saved), reply, now);
                }
            }
            _ => {}
        }
    }

    fn asked_to_record(&mut self, ask: Ask, now: Moment) {
        match ask {
            Ask::Trace { group, tap, reply } => {
                if let Some(index) = self.find(&group) {
                    let volumes = self.groups[index].record(*tap, now);
                    let _gone = reply.send(Begun { at: self.clock.wall(now), volumes });
                }
            }
            Ask::TraceEnd { group, id, why } => {
                if let Some(index) = self.find(&group) {
                    self.groups[index].record_no_more(id, why, now);
                }
            }
            _ => {}
        }
    }

    fn asked_of_members(&mut self, ask: Ask, now: Moment) {
        match ask {
            Ask::Seat { group, volume, reply } => {
                if let Some(index) = self.find(&group) {
                    let _gone = reply.send(self.seat(index, &volume));
                }
            }
            Ask::Suspect { group, volume, reply } => {
                if let Some(index) = self.find(&group) {
                    let _gone = reply.send(self.suspect(index, &volume));
                }
            }
            Ask::Replace { group, volume, plan, reply } => {
                if let Some(index) = self.find(&group) {
                    self.replace(index, &volume, *plan, reply, now);
                }
            }
            _ => {}
        }
    }

    fn asked_of_devices(&mut self, ask: Ask, now: Moment) {
        match ask {
            Ask::Offer { group, volume, read_only, reply } => {
                let found = attached::open(&group, &volume, read_only, &self.groups);
                let offer = |(shape, place): (_, Place)| {
                    let tenure = self.groups[place.group].engine.view().tenure();
                    Offer { shape, tenure }
                };
                let _gone = reply.send(found.map(offer));
            }
            Ask::Overtaken { group, reply } => {
                // A group that is not served here, or not yet, tells nothing: who waits for it goes on waiting.
                let found = self.find(&group);
                let others_write = |at: usize| self.groups[at].engine.view().lets_peer_write();
                let _gone = reply.send(found.is_some_and(others_write));
            }
            Ask::Hold { hold, reply } => {
                let _gone = reply.send(self.attached.hold(hold, &self.groups));
            }
            Ask::Plug { plug, reply } => {
                let (attached, mut io) = self.attached_and_io(now);
                let _gone = reply.send(attached.plug(*plug, &mut io));
            }
            Ask::Unplug { group, volume, reply } => {
                let (attached, mut io) = self.attached_and_io(now);
                attached.unplug(&group, &volume, &mut io);
                let _gone = reply.send(());
            }
            _ => {}
        }
    }
}

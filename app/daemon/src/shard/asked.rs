// SPDX-License-Identifier: Apache-2.0
//! What a shard does when the control plane asks: one function per topic, each of which answers its enum in full.
//!
//! A reply that cannot be sent is dropped on purpose: an asker that has gone wants no answer.

use super::requests::Place;
use super::{
    Ask, Clock, DeviceAsk, Group, LookAsk, LossAsk, MemberAsk, NodeAsk, Offer, ServiceAsk, Shard,
    Shown, ShownGroups, TraceAsk, attached, explain, show, unknown,
};
use crate::config::Setting;
use crate::trace::Begun;
use helio_driver::Driver;
use helio_engine::Event;
use helio_units::Moment;
use tokio::sync::oneshot;

/// Groups that one turn shows at most: about 5 us each (`proof/bench/watch.py`), and a turn takes at most 50.
const SHOWN_MOST: usize = 4;

impl<D: Driver> Shard<D> {
    /// Does what the control plane asks for.
    pub(super) fn asked(&mut self, ask: Ask, now: Moment) {
        match ask {
            Ask::Node(ask) => self.asked_of_node(ask, now),
            Ask::Service(ask) => self.asked_for_service(ask, now),
            Ask::Command { group, command, reply } => match self.find(&group) {
                Some(index) => self.command(index, command, reply, now),
                None => {
                    let _gone = reply.send(Err(unknown(&group)));
                }
            },
            Ask::Look { group, look } => self.with_group(&group, |s, at| s.asked_to_look(at, look)),
            Ask::Loss { group, ask } => {
                self.with_group(&group, |shard, at| shard.asked_of_losses(at, ask, now));
            }
            Ask::Member { group, volume, ask } => {
                self.with_group(&group, |shard, at| shard.asked_of_member(at, &volume, ask, now));
            }
            Ask::Device(ask) => self.asked_of_devices(ask, now),
            Ask::Trace { group, ask } => {
                self.with_group(&group, |shard, at| shard.asked_to_record(at, ask, now));
            }
            Ask::Resolved { group, found } => self.with_group(&group, |shard, at| {
                shard.step(at, |group| group.resolved(found, now));
            }),
            Ask::HookAnswered { group, question, refused } => {
                let answered = Event::HookAnswered { question, refused };
                self.with_group(&group, |shard, at| {
                    shard.step(at, |group| group.tell(now, answered));
                });
            }
            Ask::Drilled { group, drills } => self.with_group(&group, |shard, at| {
                shard.step(at, |group| group.drills = Some(*drills));
            }),
            Ask::Change { group, setting } => {
                self.with_group(&group, |shard, at| shard.change(at, setting, now));
            }
        }
    }

    /// Does something with a group that is served here; nothing with another one.
    fn with_group(&mut self, group: &str, what: impl FnOnce(&mut Self, usize)) {
        if let Some(index) = self.find(group) {
            what(self, index);
        }
    }

    /// Runs a step of a group that may give it something to do.
    fn step<T>(&mut self, index: usize, step: impl FnOnce(&mut Group) -> T) -> Option<T> {
        self.rota.stir(index);
        self.groups[index].guarded(step)
    }

    /// The groups that were not released, and did not fail.
    fn served(&self) -> impl Iterator<Item = usize> {
        (0..self.groups.len()).filter(|n| self.groups[*n].is_served())
    }

    /// Shows groups; the rest follows in later turns, so that no turn takes long.
    fn shown(&mut self, of: &Shown, now: Moment) -> ShownGroups {
        let served: Vec<usize> = match of {
            Shown::Group(group) => self.find(group).into_iter().collect(),
            Shown::From(place) => {
                self.served().skip_while(|n| n < place).take(SHOWN_MOST + 1).collect()
            }
        };
        let next = served.get(SHOWN_MOST).copied();
        let groups = served.into_iter().take(SHOWN_MOST).filter_map(|n| self.show(n)).collect();
        ShownGroups { at: self.clock.wall(now), groups, next }
    }

    fn show(&mut self, index: usize) -> Option<helio_api::GroupStatus> {
        let Self { groups, clock, clients, copies, .. } = self;
        let of = |volume| (clients.count(index, volume), copies.wait(index, volume));
        groups[index].guarded(|group| show::group(group, clock, of))
    }

    /// Replies with what a look at a group finds.
    fn look<T>(
        &mut self,
        index: usize,
        reply: oneshot::Sender<T>,
        look: impl FnOnce(&Group, &Clock) -> T,
    ) {
        self.rota.stir(index);
        let Self { groups, clock, .. } = self;
        if let Some(seen) = groups[index].guarded(|group| look(group, clock)) {
            let _gone = reply.send(seen);
        }
    }

    fn change(&mut self, index: usize, setting: Setting, now: Moment) {
        self.step(index, |group| group.change(now, setting));
        self.share_memory(now);
    }

    /// Divides the memory for data among the groups there are now.
    pub(super) fn share_memory(&mut self, now: Moment) {
        let served: Vec<usize> = self.served().collect();
        let most = self.pools.fit(served.iter().map(|n| &self.groups[*n].config));
        for index in served {
            if self.groups[index].config.queue.automatic_most != most {
                self.step(index, |group| group.set_automatic_most(most, now));
            }
        }
    }

    fn asked_of_node(&mut self, ask: NodeAsk, now: Moment) {
        match ask {
            NodeAsk::Status { of, reply } => {
                let shown = self.shown(&of, now);
                let _gone = reply.send(shown);
            }
            NodeAsk::Running { reply } => {
                let served = self.served().map(|n| &self.groups[n]);
                let all = served.map(|g| (g.name.clone(), g.running()));
                let _gone = reply.send(all.collect());
            }
            NodeAsk::Removed { reply } => {
                let served: Vec<usize> = self.served().collect();
                let removed = served.into_iter().flat_map(|n| self.groups[n].removed());
                let _gone = reply.send(removed.collect());
            }
            NodeAsk::Clients { from, reply } => {
                let listed = self.clients.listed(from, &self.groups, &self.clock);
                let _gone = reply.send(listed);
            }
            NodeAsk::CloseClients { which, reply } => {
                let _gone = reply.send(self.close_clients(&which));
            }
            NodeAsk::Trust { guards } => self.trust(guards, now),
            NodeAsk::MostCopies(most) => self.set_most_copies(most, now),
            NodeAsk::Stop => self.stop(now),
        }
    }

    fn asked_for_service(&mut self, ask: ServiceAsk, now: Moment) {
        match ask {
            ServiceAsk::Serve { plan, dice, reply } => self.serve(*plan, dice, reply, now),
            ServiceAsk::Release { group, force, reply } => self.release(&group, force, reply, now),
        }
    }

    fn asked_to_look(&mut self, index: usize, look: LookAsk) {
        match look {
            LookAsk::AtStake { reply } => self.look(index, reply, show::at_stake),
            LookAsk::MayPromote { restore, reply } => {
                self.look(index, reply, |group, _| group.engine.view().may_promote(true, restore))
            }
            LookAsk::MaySnapshot { act, reply } => {
                self.look(index, reply, |group, _| group.engine.view().may_snapshot(act));
            }
            LookAsk::Explain { reply } => self.look(index, reply, explain::explanation),
            LookAsk::Snapshots { reply } => {
                self.look(index, reply, |group, _| show::snapshots(group));
            }
            LookAsk::Recorder { reply } => self.look(index, reply, show::recorder),
        }
    }

    fn asked_of_losses(&mut self, index: usize, ask: LossAsk, now: Moment) {
        match ask {
            LossAsk::Losing { last_copy, reply } => {
                let losing = |group: &Group, clock: &Clock| {
                    explain::losing(group, last_copy, clock.wall_now())
                };
                self.look(index, reply, losing);
            }
            LossAsk::ThrowingAway { wish, reply } => {
                let _gone = reply.send(self.throwing_away(index, wish));
            }
            LossAsk::Reverse { wish, saved, reply } => {
                self.reverse(index, (wish, &saved), reply, now);
            }
        }
    }

    fn asked_to_record(&mut self, index: usize, ask: TraceAsk, now: Moment) {
        match ask {
            TraceAsk::Begin { tap, reply } => {
                let volumes = self.groups[index].record(*tap, now);
                let _gone = reply.send(Begun { at: self.clock.wall(now), volumes });
            }
            TraceAsk::End { id, why } => self.groups[index].record_no_more(id, why, now),
        }
    }

    fn asked_of_member(&mut self, index: usize, volume: &str, ask: MemberAsk, now: Moment) {
        match ask {
            MemberAsk::Seat { reply } => {
                let _gone = reply.send(self.seat(index, volume));
            }
            MemberAsk::Suspect { reply } => {
                let _gone = reply.send(self.suspect(index, volume));
            }
            MemberAsk::Replace { plan, reply } => self.replace(index, volume, *plan, reply, now),
            MemberAsk::Room { path, reply } => {
                let _gone = reply.send(self.room(index, volume, &path));
            }
            MemberAsk::Measured { path, latency } => {
                self.measured(index, volume, path, latency, now)
            }
            MemberAsk::Unnamed { path } => self.unnamed(index, volume, &path, now),
            MemberAsk::Set { ask, reply } => self.change_set(index, volume, ask, reply, now),
            MemberAsk::IsClosed { path, reply } => {
                let _gone = reply.send(self.is_closed(index, volume, &path));
            }
        }
    }

    fn asked_of_devices(&mut self, ask: DeviceAsk, now: Moment) {
        match ask {
            DeviceAsk::Offer { group, volume, read_only, reply } => {
                let found = attached::open(&group, &volume, read_only, &self.groups);
                let offer = |(shape, place): (_, Place)| {
                    let tenure = self.groups[place.group].engine.view().tenure();
                    Offer { shape, tenure }
                };
                let _gone = reply.send(found.map(offer));
            }
            DeviceAsk::Overtaken { group, reply } => {
                // A group that is not served here, or not yet, gives no verdict: who waits for it goes on waiting.
                let found = self.find(&group);
                let others_write = |at: usize| self.groups[at].engine.view().lets_peer_write();
                let _gone = reply.send(found.is_some_and(others_write));
            }
            DeviceAsk::Hold { hold, reply } => {
                let _gone = reply.send(self.attached.hold(hold, &self.groups));
            }
            DeviceAsk::Plug { plug, reply } => {
                let (attached, mut io) = self.attached_and_io(now);
                let _gone = reply.send(attached.plug(*plug, &mut io));
            }
            DeviceAsk::Unplug { group, volume, reply } => {
                let (attached, mut io) = self.attached_and_io(now);
                attached.unplug(&group, &volume, &mut io);
                let _gone = reply.send(());
            }
        }
    }
}

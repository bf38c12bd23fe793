// SPDX-License-Identifier: Apache-2.0
//! What the control plane asks of a shard.

use super::clients::Place;
use super::{Ask, Begun, Offer, Shard, attached, explain, payload_memory, show, unknown};
use helio_driver::Driver;
use helio_units::Moment;

impl<D: Driver> Shard<D> {
    /// Does what the control plane asks for.
    pub(super) fn asked(&mut self, ask: Ask, now: Moment) {
        // An asker that has gone wants no answer; so failed replies are dropped on purpose.
        match ask {
            Ask::Status { reply } => {
                let shown = self.served().map(|n| self.show(n)).collect();
                let _gone = reply.send(shown);
            }
            Ask::Command { group, command, reply } => match self.find(&group) {
                Some(index) => self.command(index, command, reply, now),
                None => {
                    let _gone = reply.send(Err(unknown(&group)));
                }
            },
            Ask::AtStake { group, reply } => {
                if let Some(index) = self.find(&group) {
                    let _gone = reply.send(show::at_stake(&self.groups[index], &self.clock));
                }
            }
            Ask::Explain { group, reply } => {
                if let Some(index) = self.find(&group) {
                    let _gone = reply.send(explain::explanation(&self.groups[index], &self.clock));
                }
            }
            loss @ (Ask::Losing { .. } | Ask::ThrowingAway { .. } | Ask::Reverse { .. }) => {
                self.asked_of_losses(loss, now);
            }
            member @ (Ask::Seat { .. } | Ask::Replace { .. }) => self.asked_of_members(member, now),
            Ask::HookAnswered { group, refused } => {
                if let Some(index) = self.find(&group) {
                    self.rota.stir(index);
                    self.groups[index].tell(now, helio_engine::Event::HookAnswered { refused });
                }
            }
            Ask::Recorder { group, reply } => {
                if let Some(index) = self.find(&group) {
                    let _gone = reply.send(show::recorder(&self.groups[index], &self.clock));
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
                    self.groups[index].change(now, setting);
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

    /// The groups that were not released.
    fn served(&self) -> impl Iterator<Item = usize> {
        (0..self.groups.len()).filter(|n| !self.groups[*n].is_released())
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
                if let Some(index) = self.find(&group) {
                    let _gone = reply.send(explain::losing(&self.groups[index]));
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
                    let tenure = self.groups[place.group].engine.tenure();
                    Offer { shape, tenure }
                };
                let _gone = reply.send(found.map(offer));
            }
            Ask::Overtaken { group, reply } => {
                // A group that is not served here, or not yet, tells nothing: who waits for it goes on waiting.
                let found = self.find(&group);
                let others_write = |at: usize| attached::lets_others_write(&self.groups[at].engine);
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

// SPDX-License-Identifier: Apache-2.0
//! A group comes while others are served.

use super::Shard;
use crate::shard::group::{CommandReply, Group};
use crate::shard::guard::Door;
use crate::shard::plan::GroupPlan;
use crate::shard::stop::Stop;
use helio_driver::Driver;
use helio_engine::Refusal;
use helio_units::Moment;

impl<D: Driver> Shard<D> {
    /// Serves it from now on.
    pub(super) fn serve(
        &mut self,
        plan: GroupPlan,
        dice: (u64, u64),
        reply: CommandReply,
        now: Moment,
    ) {
        let name = plan.engine.group.clone();
        let refusal = if self.stop != Stop::No {
            Some(Refusal::new("stopping", "the daemon is stopping", "start it again"))
        } else if self.find(&name).is_some() {
            let text = format!("{name} is already served");
            Some(Refusal::new("busy", text, "`helio status` shows it"))
        } else {
            None
        };
        if let Some(refusal) = refusal {
            let _gone = reply.send(Err(refusal));
            return;
        }
        let index = self.groups.len();
        let (time, received) = ((now, self.clock.wall(now)), self.pools.received.clone());
        let mut group = Group::new(index, plan, dice, time, received);
        group.guarded(|group| group.begin(now, &mut self.driver));
        self.watch.add();
        self.clients.add(&group);
        self.rota.add();
        self.groups.push(group);
        self.share_memory(now);
        self.strangers.door = Door::of(self.groups.iter().map(|g| &g.link.guard));
        self.failures.remove(&name);
        let _gone = reply.send(Ok(format!("{name} is served").into()));
    }
}

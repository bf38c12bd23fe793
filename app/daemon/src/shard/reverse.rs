// SPDX-License-Identifier: Apache-2.0
//! Taking the peer's copy over this node's own: what that throws away, and that nothing changed since it was saved.

use crate::shard::explain::{Losing, losing_of};
use crate::shard::{CommandReply, Shard};
use helio_driver::Driver;
use helio_engine::{Command, Refusal, Reversal};
use helio_units::Moment;

impl<D: Driver> Shard<D> {
    /// What a reversal would throw away.
    pub(super) fn throwing_away(&self, index: usize, wish: Reversal) -> Result<Losing, Refusal> {
        let group = &self.groups[index];
        let stake = group.engine.view().reversal_stake(wish)?;
        let (node, peer) = (&group.config.node, &group.peer);
        let intro = format!("{node} would overwrite its copy with the copy of {peer} in at most");
        let outro = format!(
            "writes there that exist only on {node} are saved first, without blocks of zeros, and then discarded"
        );
        let now = self.clock.wall_now();
        let losing = losing_of(group, stake, (&intro, &outro), now)?;
        self.refuse_in_use(index)?;
        Ok(losing)
    }

    /// Throws it away, if it is still what was saved.
    pub(super) fn reverse(
        &mut self,
        index: usize,
        (wish, saved): (Reversal, &Losing),
        reply: CommandReply,
        now: Moment,
    ) {
        let refusal = match self.throwing_away(index, wish) {
            Err(refusal) => Some(refusal),
            Ok(losing) if !losing.is_same(saved) => Some(Refusal::later(
                "busy",
                "the group changed while its regions were saved",
                "repeat the command",
            )),
            Ok(_) => None,
        };
        if let Some(refusal) = refusal {
            // An asker that has gone wants no answer.
            let _gone = reply.send(Err(refusal));
            return;
        }
        self.rota.stir(index);
        let command = Command::Reverse(wish);
        self.groups[index].guarded(|group| group.command(now, command, reply));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What people change in the simulation.

use crate::NODES;
use crate::node::REFUSED;
use crate::pair::{Asked, GROUP, Pair, Purpose, SIZE};
use crate::simulation::{Button, Change, NewSettings};
use helio_api::{ApiError, paths};
use serde_json::json;
use tokio::sync::oneshot;

type Done = oneshot::Sender<Result<(), ApiError>>;

impl Pair {
    /// Carries out a change; `done` gets to know when it has ended, and how.
    pub(crate) fn change(&mut self, change: &Change, done: Done) {
        let changed = match change {
            Change::Speed(speed) => {
                self.speed = *speed;
                Ok(())
            }
            Change::Set(new @ NewSettings { mode: Some(mode), .. }) => {
                self.set(new);
                let Some(primary) = self.primary() else {
                    let text = "the mode is not changed: no node is primary";
                    // The caller may be gone.
                    let _ = done.send(Err(ApiError::new(REFUSED, text, "promote a node first")));
                    return;
                };
                let body = json!({ "mode": mode });
                return self.ask(Asked::post(primary, paths::MODE, &body, Purpose::Change(done)));
            }
            Change::Set(new) => {
                self.set(new);
                Ok(())
            }
            Change::Press(Button::FailOver) => return self.fail_over(done),
            Change::Press(button) => self.press(*button),
        };
        // The caller may be gone.
        let _ = done.send(changed);
    }

    /// The node that serves, the one that the clients use if there are two.
    fn primary(&self) -> Option<usize> {
        let at = self.clients.at();
        [at, 1 - at].into_iter().find(|node| self.nodes[*node].is_primary(GROUP))
    }

    /// Applies new settings of link and load.
    fn set(&mut self, new: &NewSettings) {
        let it = &mut self.settings;
        it.rtt_ms = new.rtt_ms.unwrap_or(it.rtt_ms);
        it.rate_mbit = new.rate_mbit.unwrap_or(it.rate_mbit);
        it.loss_percent = new.loss_percent.unwrap_or(it.loss_percent);
        self.set_link();
        if let Some(rate) = new.writes_per_second {
            self.settings.writes_per_second = rate;
            self.clients.set_rate(rate, self.world.now());
        }
    }

    /// Promotes the node that the clients do not use, with force if it must be.
    fn fail_over(&mut self, done: Done) {
        let node = 1 - self.clients.at();
        if self.nodes[node].is_primary(GROUP) {
            let text = format!("{} is primary already", NODES[node]);
            // The caller may be gone.
            let _ = done.send(Err(ApiError::new(REFUSED, text, "resolve the split brain first")));
            return;
        }
        let body = json!({ "force": false, "confirmed": false });
        let purpose = Purpose::FailOver { forced: false, done };
        self.ask(Asked::post(node, paths::PROMOTE, &body, purpose));
    }

    fn press(&mut self, button: Button) -> Result<(), ApiError> {
        let now = self.world.now();
        match button {
            Button::Cut => {
                self.link_up = false;
                self.world.cut(&self.nodes[0].machine, &self.nodes[1].machine);
            }
            Button::Restore => {
                self.link_up = true;
                self.world.heal(&self.nodes[0].machine, &self.nodes[1].machine);
            }
            Button::Kill(node) => {
                let name = NODES[node];
                if !self.nodes[node].kill("it was killed") {
                    let text = format!("no daemon runs on {name}");
                    return Err(ApiError::new(REFUSED, text, "start it first"));
                }
                self.refuse_for_the_dead();
            }
            Button::Start(node) => self.nodes[node].start(now)?,
            Button::FailDisk(node) => self.nodes[node].fail_disk(),
            Button::ReplaceDisk(node) => self.nodes[node].replace_disk(SIZE)?,
            Button::FailFlush(node) => self.nodes[node].fail_flush(),
            Button::FailOver => unreachable!("its answer comes from a daemon"),
            Button::Restart => self.restart()?,
        }
        Ok(())
    }

    /// Begins again with a new pair. Receivers of events follow its nodes.
    fn restart(&mut self) -> Result<(), ApiError> {
        let mut new = Self::new(self.seed, self.speed).map_err(|why| {
            let text = format!("there is no new pair: {why}");
            ApiError::new(helio_api::code::INTERNAL, text, "report this as a bug")
        })?;
        for (old, new) in self.nodes.iter_mut().zip(&mut new.nodes) {
            old.followers.drain(..).for_each(|events| new.follow(events));
        }
        *self = new;
        Ok(())
    }
}

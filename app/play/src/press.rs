// SPDX-License-Identifier: Apache-2.0
//! What people change in the simulation.

use crate::NODES;
use crate::node::REFUSED;
use crate::pair::{Asked, Changed, GROUP, Pair, Purpose, SIZE, VOLUME};
use crate::simulation::{Button, Change, DiskState, NewSettings};
use helio_api::{ApiError, paths};
use serde_json::json;
use tokio::sync::oneshot;

type Done = oneshot::Sender<Changed>;

impl Pair {
    /// Carries out a change; `done` gets to know when it has ended, and how.
    pub(crate) fn change(&mut self, change: &Change, done: Done) {
        let changed = match change {
            Change::Speed(speed) => {
                self.speed = *speed;
                Ok(String::new())
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
                Ok(String::new())
            }
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

    /// Presses a button. What is not to be seen otherwise is the message.
    fn press(&mut self, button: Button) -> Changed {
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
            Button::ReplaceDisk(node) => {
                self.nodes[node].replace_disk(SIZE)?;
                return Ok(self.replaced(node));
            }
            Button::FailFlush(node) => {
                self.nodes[node].fail_flush();
                return Ok(format!("the next flush of the disk of {} fails", NODES[node]));
            }
            Button::Restart => self.restart()?,
        }
        Ok(String::new())
    }

    /// What comes after a failed disk was replaced.
    fn replaced(&self, node: usize) -> String {
        let (name, peer) = (NODES[node], NODES[1 - node]);
        let done = format!("{name} has a new, empty disk");
        if self.nodes[1 - node].disk() != DiskState::Sound {
            return format!(
                "{done}, and {peer} has no complete copy of the data: the data is lost. Press New pair"
            );
        }
        if self.nodes[node].runs() {
            return format!(
                "{done}. Next: `helio member replace {GROUP}/{VOLUME}` on {name}, which copies the data from {peer}"
            );
        }
        format!(
            "{done}. Next: start its daemon. If the data is not copied from {peer} then, do what the page advises"
        )
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

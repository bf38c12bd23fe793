// SPDX-License-Identifier: Apache-2.0
//! A command that was refused for now: the operator gives it again when the two nodes are connected the next time.

use crate::driver::{Act, Driver};
use crate::scenario::span;
use core::time::Duration;
use helio_engine::{Command, CommandId};
use helio_twin::{Cluster, Happening, Side};

/// The command that a node was given last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Given {
    /// None, or it succeeded, or was refused for good.
    #[default]
    Over,
    /// It has not ended.
    Open { id: CommandId, command: Command, again: bool },
    /// It was refused, and may succeed later.
    Refused(Command),
}

/// Whether an operator repeats that command after a refusal that says to try again later.
const fn bears_repeating(command: Command) -> bool {
    matches!(
        command,
        Command::Promote { .. }
            | Command::Restore { .. }
            | Command::Switch
            | Command::Demote
            | Command::Resume
            | Command::Resync
            | Command::FullResync
            | Command::Pause
    )
}

impl Driver {
    /// A node was given a command.
    pub(crate) fn given(&mut self, side: Side, id: CommandId, command: Command) {
        self.open.insert(id, side);
        let again = self.repeating.take().is_some_and(|repeated| repeated == (side, command));
        if bears_repeating(command) {
            self.given[side.index()] = Given::Open { id, command, again };
        }
    }

    /// A command ended, or the two are connected.
    pub(crate) fn hear_of_commands(&mut self, cluster: &Cluster, happening: &Happening) {
        match happening {
            Happening::Commanded { id, .. } => _ = self.open.remove(id),
            Happening::Died { side, .. } => self.open.retain(|_, given| given != side),
            _ => {}
        }
        match (happening, self.given_on(happening)) {
            (
                Happening::Commanded { side, id, result },
                Given::Open { id: open, command, again },
            ) if *id == open => {
                let later = result.as_ref().is_err_and(|refusal| refusal.retry);
                self.given[side.index()] =
                    if later { Given::Refused(command) } else { Given::Over };
                if again && result.as_ref().is_ok_and(|text| !text.contains("already")) {
                    self.coverage.struck("retry-succeeds");
                }
            }
            (Happening::Connected { side }, Given::Refused(command)) if !self.healing => {
                self.given[side.index()] = Given::Over;
                if self.dice.chance(1, 2) {
                    let (least, most) = (Duration::from_micros(20), Duration::from_millis(300));
                    let when = cluster.now() + span(&mut self.dice, least, most);
                    self.at(when, Act::Again(*side, command));
                }
            }
            (Happening::Died { side, .. }, _) => self.given[side.index()] = Given::Over,
            _ => {}
        }
    }

    /// The last command of the node that this event is about.
    fn given_on(&self, happening: &Happening) -> Given {
        match happening {
            Happening::Commanded { side, .. } | Happening::Connected { side } => {
                self.given[side.index()]
            }
            _ => Given::Over,
        }
    }
}

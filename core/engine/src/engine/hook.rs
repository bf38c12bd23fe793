// SPDX-License-Identifier: Apache-2.0
//! An update asks first, where the operator has a hook for it: the copier must not begin before the hook said yes.
//! Without one nothing is asked, and an update begins where it is wanted.

use crate::effect::Effect;
use crate::engine::Engine;
use crate::event::CommandId;
use crate::refusal::Refusal;
use crate::resync::update::Facts;
use alloc::format;
use alloc::string::String;

const UNDER_WAY: &str = "the hook before-resync runs; the resync starts if the hook permits it";

impl Engine {
    /// Begins an update, or asks the hook. A command whose answer waits for the hook gets none yet.
    pub(crate) fn sync_or_ask(&mut self, command: Option<CommandId>) -> Option<String> {
        if !self.turn.config().hook_before_sync {
            self.begin_update();
            return Some(String::from("the resync begins"));
        }
        if !self.resync.update.ask_hook(command) {
            return Some(String::from(UNDER_WAY));
        }
        self.turn.push(Effect::AskHook);
        None
    }

    fn begin_update(&mut self) {
        if let Err(refusal) = self.view().refuse_while_suspect() {
            return self.turn.warn(refusal.text);
        }
        let lineage = self.record.superblock().lineage;
        self.resync.seed.forget_passed();
        if let Some(primary) =
            self.standing.primary_mut().filter(|_| self.peer.session.peer().is_some())
        {
            // Not by what its hello said: an update of this conversation that did not end may have changed that.
            let consistent = primary.peer_is_consistent();
            primary.begin_sync(lineage, consistent, &mut self.resync.verify, &mut self.turn);
        }
    }

    /// The hook answered.
    pub(crate) fn hook_answered(&mut self, refused: Option<String>) {
        let Some(command) = self.resync.update.hook_answered() else { return };
        let seeding = self.resync.seed.is_under_way(self.record.superblock());
        let unwanted = seeding || !self.standing.serves();
        let connected = self.peer.session.peer().is_some();
        let primary = self.standing.primary_mut();
        let result = if let Some(why) = refused {
            if let Some(primary) = primary {
                primary.explain("the hook before-resync refused a resync");
            }
            Err(hook_refused(&self.turn.config().group, &why))
        } else {
            let source = primary.map(|primary| Facts {
                streams: primary.streams(),
                unwanted: unwanted || primary.owed().is_paused(),
                connected,
            });
            let begins = self.resync.update.hook_agreed(source);
            if begins.is_ok() {
                self.begin_update();
            }
            let text = "the hook before-resync permitted the resync; it starts";
            Ok(String::from(begins.err().unwrap_or(text)))
        };
        match (command, result) {
            (Some(id), result) => self.turn.done(id, result),
            (None, Ok(text)) => self.turn.info(text),
            (None, Err(refusal)) => self.turn.warn(refusal.text),
        }
    }
}

fn hook_refused(group: &str, why: &str) -> Refusal {
    Refusal::new(
        "hook-refused",
        format!("the hook before-resync of {group} refused the resync: {why}"),
        format!("read the hook's output in the daemon's log, then `helio resync {group}`"),
    )
}

// SPDX-License-Identifier: Apache-2.0
//! An update asks first, where the operator has a hook for it: the copier must not begin before the hook said yes.
//! Without one nothing is asked, and an update begins where it is wanted.

use crate::engine::Engine;
use crate::refusal::Refusal;
use crate::resync::update::Facts;
use alloc::format;
use alloc::string::String;

impl Engine {
    /// The hook answered.
    pub(crate) fn hook_answered(&mut self, refused: Option<String>) {
        let Some(command) = self.resync.update_mut().hook_answered() else { return };
        let seeding = self.resync.seed().is_under_way(self.record.superblock());
        let unwanted = seeding || !self.standing.serves();
        let connected = self.peer.session().peer().is_some();
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
            let begins = self.resync.update_mut().hook_agreed(source);
            if let (Ok(_), Some(primary)) = (&begins, self.standing.primary_mut()) {
                primary.begin_update(&self.record, &mut self.resync, &self.local, &mut self.turn);
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

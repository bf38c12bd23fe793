// SPDX-License-Identifier: Apache-2.0
//! An update asks first, where the operator has a hook for it: the copier must not begin before the hook said yes.
//! Without one nothing is asked, and an update begins where it is wanted.

use crate::effect::Effect;
use crate::engine::Engine;
use crate::event::CommandId;
use crate::refusal::Refusal;
use alloc::format;
use alloc::string::String;

const UNDER_WAY: &str = "the hook before-resync runs; the resync starts if the hook permits it";

impl Engine {
    /// Begins an update that nobody asked for just now.
    pub(crate) fn autosync(&mut self) {
        if let Err(refusal) = self.sync_or_ask(None) {
            self.shared.warn(refusal.text);
        }
    }

    /// Begins an update, or asks the hook. A command whose answer waits for the hook gets none yet.
    pub(crate) fn sync_or_ask(
        &mut self,
        command: Option<CommandId>,
    ) -> Result<Option<String>, Refusal> {
        if !self.shared.config.hook_before_sync {
            self.begin_update();
            return Ok(Some(String::from("the resync begins")));
        }
        if self.asking_hook.is_some() {
            return Ok(Some(String::from(UNDER_WAY)));
        }
        self.asking_hook = Some(command);
        self.shared.out.push(Effect::AskHook);
        Ok(None)
    }

    fn begin_update(&mut self) {
        if let Err(refusal) = self.refuse_while_suspect() {
            return self.shared.warn(refusal.text);
        }
        let lineage = self.superblock.lineage;
        self.seed_travels();
        if let Some(primary) = self.standing.primary_mut().filter(|_| self.session.peer().is_some())
        {
            // Not by what its hello said: an update of this conversation that did not end may have changed that.
            let consistent = primary.peer_consistent;
            primary.begin_sync(lineage, consistent, &mut self.shared);
        }
    }

    /// The hook answered. Meanwhile the world may have changed.
    pub(crate) fn hook_answered(&mut self, refused: Option<String>) {
        let Some(command) = self.asking_hook.take() else { return };
        let result = match refused {
            Some(why) => Err(self.hook_refused(&why)),
            None => Ok(self.hook_agreed()),
        };
        match command {
            Some(id) => self.done(id, result),
            None => match result {
                Ok(text) => self.shared.info(text),
                Err(refusal) => self.shared.warn(refusal.text),
            },
        }
    }

    fn hook_agreed(&mut self) -> String {
        let connected = self.session.peer().is_some();
        let leads = self.standing.serves();
        let Some(primary) = self.standing.primary() else {
            return String::from(
                "the hook before-resync permitted the resync, but this node is no longer primary",
            );
        };
        if primary.flow.is_some() {
            return String::from("nothing to resync: writes are sent in order");
        }
        if primary.owed.is_paused() || !leads || self.is_seeding() {
            return String::from(
                "the hook before-resync permitted the resync, but it is no longer requested",
            );
        }
        if !connected {
            self.update_wanted = true;
            return String::from("the peer is no longer connected; the resync starts when it is");
        }
        // The two met again meanwhile: nothing may be copied before it is known what differs now.
        if self.awaited.is_some() {
            self.update_wanted = true;
            return String::from("the resync starts when the nodes have exchanged their bitmaps");
        }
        self.begin_update();
        String::from("the hook before-resync permitted the resync; it starts")
    }

    fn hook_refused(&mut self, why: &str) -> Refusal {
        if let Some(primary) = self.standing.primary_mut() {
            primary.owed.explain("the hook before-resync refused a resync");
        }
        let group = &self.shared.config.group;
        Refusal::new(
            "hook-refused",
            format!("the hook before-resync of {group} refused the resync: {why}"),
            format!("read the hook's output in the daemon's log, then `helio resync {group}`"),
        )
    }
}

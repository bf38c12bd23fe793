// SPDX-License-Identifier: Apache-2.0
//! An update asks first, where the operator has a hook for it: the copier must not begin before the hook said yes.
//! Without one nothing is asked, and an update begins where it is wanted.

use crate::event::HookQuestion;
use crate::local::Local;
use crate::peer::link::Session;
use crate::peer::permit::Permit;
use crate::record::Record;
use crate::record::save::Goal;
use crate::refusal::Refusal;
use crate::resync::Resync;
use crate::resync::update::Facts;
use crate::role::Standing;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_units::Generation;

impl Standing {
    /// Once a source has all that it waited for, the resync starts if it is wanted and the operator's hook permits it.
    pub(crate) fn sync_as_wanted(
        &mut self,
        session: &Session,
        record: &Record,
        resync: &mut Resync,
        local: &Local,
        turn: &mut Turn,
    ) {
        if resync.update().is_awaiting() || self.is_leaving() {
            return;
        }
        let (Some(primary), Some(peer)) = (self.primary_mut(), session.peer()) else { return };
        if primary.must_not_stream(local) {
            return;
        }
        let keeps_nothing = !peer.consistent || peer.lineage.generation == Generation::NONE;
        let wanted = turn.config().autosync || resync.update().is_wanted() || keeps_nothing;
        if wanted && !primary.owed().is_paused() {
            resync.update_mut().forget_wish();
            primary.sync_or_ask(None, record, resync, local, turn);
        }
    }

    /// The record of another generation is durable, or `failed` to be: the update that waited for it begins.
    pub(crate) fn generation_recorded(
        &mut self,
        failed: bool,
        permit: &Permit,
        record: &Record,
        resync: &mut Resync,
        local: &Local,
        turn: &mut Turn,
    ) {
        let leaves = self.is_leaving();
        let Some(primary) = self.primary_mut() else { return };
        primary.generation_recorded(failed);
        if !failed {
            primary.alone_saved(record, local, permit, turn);
        }
        let waits = record.wants(|goal| *goal == Goal::Void);
        if !waits
            && resync.update_mut().recorded()
            && !resync.update().is_awaiting()
            && !leaves
            && !primary.owed().is_paused()
        {
            primary.begin_update(record, resync, local, turn);
        }
    }

    /// The hook answered that question; `connected`: the peer is.
    pub(crate) fn hook_answered(
        &mut self,
        (question, refused): (HookQuestion, Option<String>),
        connected: bool,
        record: &Record,
        resync: &mut Resync,
        local: &Local,
        turn: &mut Turn,
    ) {
        let Some(command) = resync.update_mut().hook_answered(question) else { return };
        let unwanted = resync.seed().is_under_way(record.superblock()) || !self.serves();
        let primary = self.primary_mut();
        let result = if let Some(why) = refused {
            if let Some(primary) = primary {
                primary.explain("the hook before-resync refused a resync");
            }
            Err(hook_refused(&turn.config().group, &why))
        } else {
            let source = primary.as_ref().map(|primary| Facts {
                streams: primary.streams(),
                unwanted: unwanted || primary.owed().is_paused(),
                connected,
            });
            let begins = resync.update_mut().hook_agreed(source);
            if let (Ok(()), Some(primary)) = (&begins, primary) {
                primary.begin_update(record, resync, local, turn);
            }
            let text = "the hook before-resync permitted the resync; it starts";
            Ok(String::from(begins.err().unwrap_or(text)))
        };
        match (command, result) {
            (Some(id), result) => turn.done(id, result),
            (None, Ok(text)) => turn.info(text),
            (None, Err(refusal)) => turn.warn(refusal.text),
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

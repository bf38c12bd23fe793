// SPDX-License-Identifier: Apache-2.0
//! Whether an update of the peer is wanted, and what it waits for: the peer's marks, this node's own record, the
//! operator's hook.

use crate::event::{CommandId, HookQuestion};

/// What a source waits for before it streams.
///
/// ```text
///   Nothing ──asked──> Marks ──a record is wanted──> Both ──told──> Record ──recorded──> Nothing
///   Nothing ──a record is wanted──> Record ──asked──> Both ──recorded──> Marks ──told──> Nothing
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Awaited {
    #[default]
    Nothing,
    /// The target's marks.
    Marks,
    /// A record of this node: that it must copy everything, or of a generation.
    Record,
    Both,
}

impl Awaited {
    const fn of(marks: bool, record: bool) -> Self {
        match (marks, record) {
            (false, false) => Self::Nothing,
            (true, false) => Self::Marks,
            (false, true) => Self::Record,
            (true, true) => Self::Both,
        }
    }
}

/// What becomes of the hook's question. It may be open over several connections.
#[derive(Clone, Copy, Debug, Default)]
enum Hook {
    #[default]
    Idle,
    /// It is being asked whether an update may begin, for that command or for none.
    Asked(Option<CommandId>),
}

/// See the top of this file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Update {
    /// The peer's copy was proven equal when this node became primary, and no stream has begun since.
    needless: bool,
    /// An update begins when it may, although `autosync` is off.
    wanted: bool,
    awaited: Awaited,
    hook: Hook,
    /// The last question that the hook was asked.
    question: HookQuestion,
}

/// What a source knows of itself when the hook agreed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// A stream flows.
    pub(crate) streams: bool,
    /// The operator paused it, a disk is being shipped, or this node leaves.
    pub(crate) unwanted: bool,
    pub(crate) connected: bool,
}

impl Update {
    /// This node became primary; the peer's copy is proven equal, or is not.
    pub(crate) fn begin_leading(&mut self, equal: bool) {
        self.needless = equal;
    }

    /// The peer's copy was proven equal, and nothing was negotiated since.
    pub(crate) fn is_proven_needless(&self) -> bool {
        self.needless
    }

    /// The two negotiated.
    pub(crate) fn met(&mut self) {
        self.needless = false;
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    pub(crate) fn forget_wish(&mut self) {
        self.wanted = false;
    }

    /// Nothing is to be copied to the peer: what the hook says is of no more use. Returns the command that waits for it, which is
    /// to be answered.
    #[must_use]
    pub(crate) fn give_up(&mut self) -> Option<CommandId> {
        self.wanted = false;
        match core::mem::take(&mut self.hook) {
            Hook::Idle => None,
            Hook::Asked(command) => command,
        }
    }

    pub(crate) fn await_marks(&mut self) {
        self.awaited = Awaited::of(true, self.awaits_record());
    }

    pub(crate) fn marks_told(&mut self) {
        self.awaited = Awaited::of(false, self.awaits_record());
    }

    pub(crate) fn await_record(&mut self) {
        self.awaited = Awaited::of(self.awaits_marks(), true);
    }

    /// Returns whether it was awaited.
    pub(crate) fn recorded(&mut self) -> bool {
        let awaited = self.awaits_record();
        self.awaited = Awaited::of(self.awaits_marks(), false);
        awaited
    }

    /// The conversation ended for which all this was awaited.
    pub(crate) fn await_nothing(&mut self) {
        self.awaited = Awaited::Nothing;
    }

    pub(crate) fn awaits_marks(&self) -> bool {
        matches!(self.awaited, Awaited::Marks | Awaited::Both)
    }

    fn awaits_record(&self) -> bool {
        matches!(self.awaited, Awaited::Record | Awaited::Both)
    }

    /// Before a stream something must come that a handshake decided for.
    pub(crate) fn is_awaiting(&self) -> bool {
        self.awaited != Awaited::Nothing
    }

    /// The hook is to be asked. Returns the question; none if one is open.
    pub(crate) fn ask_hook(&mut self, command: Option<CommandId>) -> Option<HookQuestion> {
        let Hook::Idle = self.hook else { return None };
        self.hook = Hook::Asked(command);
        self.question.0 += 1;
        Some(self.question)
    }

    /// The hook answered. Returns for which command it was asked, if this question is still open.
    pub(crate) fn hook_answered(&mut self, question: HookQuestion) -> Option<Option<CommandId>> {
        let Hook::Asked(command) = self.hook else { return None };
        if question != self.question {
            return None;
        }
        self.hook = Hook::Idle;
        Some(command)
    }

    /// The hook agreed. Meanwhile the world may have changed. `source`: none on a node that leads no more.
    ///
    /// # Errors
    /// Why the update does not begin now.
    pub(crate) fn hook_agreed(&mut self, source: Option<Facts>) -> Result<(), &'static str> {
        match source {
            None => Err(
                "the hook before-resync permitted the resync, but this node is no longer primary",
            ),
            Some(Facts { streams: true, .. }) => Err("nothing to resync: writes are sent in order"),
            Some(Facts { unwanted: true, .. }) => {
                Err("the hook before-resync permitted the resync, but it is no longer requested")
            }
            Some(Facts { connected: false, .. }) => {
                self.want();
                Err("the peer is no longer connected; the resync starts when it is")
            }
            // The two met again meanwhile: nothing may be copied before it is known what differs now.
            Some(_) if self.is_awaiting() => {
                self.want();
                Err("the resync starts when the nodes have exchanged their bitmaps")
            }
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_the_hook_counts_for_its_own_question_only() {
        let mut update = Update::default();
        let (first, second) = (CommandId(7), CommandId(8));
        let earlier = update.ask_hook(Some(first)).expect("nothing is open");
        assert_eq!(update.ask_hook(Some(second)), None, "one at a time");
        assert_eq!(update.give_up(), Some(first));
        let later = update.ask_hook(Some(second)).expect("nothing is open");
        assert_eq!(update.hook_answered(earlier), None, "it comes too late");
        assert_eq!(update.hook_answered(later), Some(Some(second)));
        assert_eq!(update.hook_answered(later), None, "it was answered");
    }
}

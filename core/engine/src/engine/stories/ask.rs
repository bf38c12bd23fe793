// SPDX-License-Identifier: Apache-2.0
//! Stories of verifies, and of the hook an update asks first.

use super::*;

impl Desk {
    /// The hook answers the last question.
    pub(super) fn hook_answers(&mut self, refused: Option<&str>) {
        let (question, refused) = (HookQuestion(self.hooks), refused.map(String::from));
        self.tell(Event::HookAnswered { question, refused });
    }
}

#[test]
fn a_hook_is_asked_once_it_is_known_what_differs_and_again_where_the_two_met_again_meanwhile() {
    let began = |desk: &Desk| desk.said.iter().any(|m| matches!(m, Message::Start(_)));
    let mut desk = Desk::primary(Config { hook_before_sync: true, ..config() });
    desk.meet_before_saving(hello(Lineage::default(), true));
    assert_eq!(desk.hooks, 0, "that everything is to be copied is not recorded yet");
    desk.save_all();
    assert_eq!((desk.hooks, began(&desk)), (1, false));
    desk.lose_link();
    desk.meet_before_saving(hello(Lineage::default(), true));
    desk.hook_answers(None);
    assert!(!began(&desk), "it agreed to what was known before");
    desk.save_all();
    assert_eq!((desk.hooks, began(&desk)), (2, false));
    desk.hook_answers(Some("no room"));
    assert!(!began(&desk));
    desk.command(Command::Resync);
    assert_eq!((desk.hooks, began(&desk)), (3, false));
    desk.hook_answers(None);
    assert!(desk.last_start().whole && began(&desk));
}

#[test]
fn what_was_not_compared_when_order_was_given_up_is_not_counted() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.command(Command::Verify(VerifyWish::default()));
    desk.store_all();
    desk.command(Command::Pause);
    desk.command(Command::Resync);
    let status = desk.engine.view().verify_status();
    let compared = status.run.map(|run| run.compared);
    assert_eq!((compared, status.volumes[0].last), (Some(Bytes::ZERO), None));
}

#[test]
fn a_difference_that_is_to_be_copied_lets_no_extent_go_on_older_marks() {
    let mut desk = Desk::replicating(Mode::Async);
    let before = desk.engine.local.hot_mut().next_tick();
    desk.command(Command::Verify(VerifyWish { repair: true, ..VerifyWish::default() }));
    desk.store_all();
    let asked = desk.said.iter().find_map(|message| match message {
        Message::Item(item) if item.kind == ItemKind::Verify => Some(item.sequence),
        _ => None,
    });
    let (volume, extent) = (VolumeIndex(0), Extent::new(0, 4096));
    let sequence = asked.expect("a comparison was sent");
    desk.hear(Message::Copying(Copying::Differs { volume, extent, sequence }));
    assert!(desk.engine.view().is_marked(volume, 0));
    assert!(desk.engine.local.hot().floor() > before);
}

#[test]
fn a_hook_that_agrees_when_no_update_is_wanted_any_more_begins_none() {
    for command in [Command::Pause, Command::Demote] {
        let mut desk = Desk::primary(Config { hook_before_sync: true, ..config() });
        desk.meet(hello(Lineage::default(), true));
        assert_eq!(desk.hooks, 1);
        desk.command(command);
        desk.hook_answers(None);
        desk.save_all();
        assert!(!desk.said.iter().any(|m| matches!(m, Message::Start(_))));
        assert_eq!(desk.hooks, 1);
    }
}

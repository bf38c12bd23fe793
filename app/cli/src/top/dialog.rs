// SPDX-License-Identifier: Apache-2.0
//! Dialogs: what an action would do and what is at stake, before it is requested. `y` confirms an action, and
//! `L` what the daemon reports at stake after that: a repeated `y` confirms no loss of data.

use super::action::Action;
use super::app::{Asked, Key};
use crate::offer;
use crate::typed::runnable;
use helio_api::GroupStatus;
use helio_units::{CopyName, WallTime};

/// What is about to be requested.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    action: Action,
    group: String,
    stake: String,
    /// Of the snapshot; empty for other actions.
    name: String,
}

/// What is asked on the screen.
#[derive(Clone, Debug)]
pub(crate) enum Dialog {
    /// The keys.
    Help,
    /// The name of a snapshot.
    Name(Wish),
    /// Whether to request it.
    Confirm(Wish),
    /// Whether to request it although the daemon reported what is at stake.
    AtStake { asked: Asked, question: String, stake: String },
}

/// What a key did.
pub(crate) enum Step {
    Stay(Dialog),
    Closed,
    Declined,
    Confirmed(Asked),
}

impl Dialog {
    /// The dialog of an action on a group.
    pub(crate) fn of(action: Action, g: &GroupStatus, now: WallTime) -> Self {
        let name = match action {
            Action::Snapshot => offer::snapshot_name("top", now),
            _ => String::new(),
        };
        let request = action.request(&g.name, &name);
        let stake = request.map_or_else(String::new, |request| offer::stake(&request, g, None));
        let wish = Wish { action, group: g.name.clone(), stake, name };
        if action == Action::Snapshot { Self::Name(wish) } else { Self::Confirm(wish) }
    }

    /// The dialog for what the daemon asks.
    pub(crate) fn at_stake(asked: Asked, question: String, stake: String) -> Self {
        Self::AtStake { asked, question, stake }
    }

    pub(crate) fn key(self, key: Key) -> Step {
        match (self, key) {
            (Self::Help, _) => Step::Closed,
            (Self::Name(_) | Self::Confirm(_) | Self::AtStake { .. }, Key::Escape) => {
                Step::Declined
            }
            (Self::Name(wish), Key::Enter) if CopyName::new(&wish.name).is_some() => {
                Step::Stay(Self::Confirm(wish))
            }
            (Self::Name(wish), key) => Step::Stay(Self::Name(wish.edited(key))),
            (Self::Confirm(wish), Key::Char('y' | 'Y')) => {
                match wish.action.request(&wish.group, &wish.name) {
                    Some(request) => Step::Confirmed(Asked { group: wish.group, request }),
                    None => Step::Declined,
                }
            }
            (Self::AtStake { asked, .. }, Key::Char('L')) => Step::Confirmed(asked),
            (Self::Confirm(_) | Self::AtStake { .. }, Key::Char('n' | 'N' | 'q')) => Step::Declined,
            (other, _) => Step::Stay(other),
        }
    }

    pub(crate) fn title(&self) -> String {
        match self {
            Self::Help => "keys".to_owned(),
            Self::Name(wish) | Self::Confirm(wish) => {
                format!("{} {}", wish.action.verb(), wish.group)
            }
            Self::AtStake { asked, .. } => asked.group.clone(),
        }
    }

    /// Its texts, a paragraph each.
    pub(crate) fn texts(&self) -> Vec<String> {
        match self {
            Self::Help => help(),
            Self::Name(wish) => {
                let reserved = !wish.name.is_empty() && CopyName::new(&wish.name).is_none();
                let enter = if reserved { "this name is reserved" } else { "Enter continues" };
                vec![
                    format!("name of the snapshot of {}: {}_", wish.group, wish.name),
                    format!("letters, digits, - _ . and :   {enter}   Esc cancels"),
                ]
            }
            Self::Confirm(wish) => vec![
                offer::effect(&wish.command()),
                format!(
                    "same as: {}",
                    runnable(&format!("`{}`", wish.command())).trim_matches('`')
                ),
                format!("at stake: {}", wish.stake),
                format!("{} {}? [y/N]", wish.action.verb(), wish.object()),
            ],
            Self::AtStake { question, stake, .. } => vec![
                format!("at stake: {stake}"),
                question.clone(),
                "L: yes, lose these writes   Esc: cancel".to_owned(),
            ],
        }
    }
}

impl Wish {
    fn command(&self) -> String {
        self.action.command(&self.group, &self.name)
    }

    fn object(&self) -> String {
        match self.name.as_str() {
            "" => self.group.clone(),
            name => format!("{}@{name}", self.group),
        }
    }

    fn edited(mut self, key: Key) -> Self {
        match key {
            Key::Backspace => {
                self.name.pop();
            }
            Key::Char(c) if self.name.len() < CopyName::BYTES_MAX && self.may_append(c) => {
                self.name.push(c);
            }
            _ => {}
        }
        self
    }

    /// Whether a name may have this character here. A reserved name is refused when it is complete.
    fn may_append(&self, c: char) -> bool {
        let before = if self.name.is_empty() { "" } else { "x" };
        CopyName::new(&format!("{before}{c}")).is_some()
    }
}

fn help() -> Vec<String> {
    let mut texts: Vec<String> = [
        "Up Down PgUp PgDn Home End   select a group, or scroll the details",
        "Enter   details of the group       Esc   back",
        "s       sort by the next column    o     reverse the order",
        "q       quit (also Ctrl-C)         ?     keys",
        "",
    ]
    .map(str::to_owned)
    .into();
    texts.extend(Action::ALL.map(|action| format!("{}       {}", action.key(), action.verb())));
    texts.push("Each action shows what it does and what is at stake, and asks.".to_owned());
    texts
}

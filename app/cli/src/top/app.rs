// SPDX-License-Identifier: Apache-2.0
//! The model of `helio top`: takes statuses, keys and the time, and returns which request to make. It knows no
//! terminal, no daemon and no clock.

use super::action::Action;
use super::clean;
use super::dialog::{Dialog, Step};
use super::history::{History, Track};
use super::rows::{Row, Sort};
use crate::request::Request;
use crate::typed::runnable_on;
use helio_api::{Accepted, ApiError, GroupStatus, SnapshotList, Status, code};
use std::time::Duration;

/// How long a message of success is shown.
const SHOWN: Duration = Duration::from_secs(15);
/// Rows that a page key moves in the details.
const PAGE: usize = 10;

/// A key, as far as it means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Interrupt,
}

/// What a daemon responded to one poll.
#[derive(Clone, Debug)]
pub(crate) struct Polled {
    pub(crate) status: Result<Status, ApiError>,
    /// Of the group whose details are open.
    pub(crate) snapshots: Option<Result<SnapshotList, ApiError>>,
}

/// A request for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) group: String,
    pub(crate) request: Request,
}

/// What happened.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Key(Key),
    Polled(Box<Polled>),
    /// A request ended.
    Done(Asked, Result<Accepted, ApiError>),
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Nothing,
    Quit,
    Ask(Asked),
}

/// A message below the groups.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    text: String,
    /// When it goes by itself; an error stays.
    until: Option<Duration>,
}

/// The daemon as it responded last.
#[derive(Debug, Default)]
struct Seen {
    status: Option<Status>,
    at: Duration,
    /// Why the last poll failed, and since when there is no response.
    gone: Option<(ApiError, Duration)>,
}

/// What is shown, and how.
#[derive(Debug, Default)]
struct Shown {
    /// The selected group.
    selected: String,
    sort: Sort,
    reversed: bool,
    details: bool,
    scroll: usize,
}

/// The model.
#[derive(Debug)]
pub(crate) struct App {
    interval: Duration,
    colour: bool,
    seen: Seen,
    history: History,
    shown: Shown,
    snapshots: Option<Result<SnapshotList, String>>,
    dialog: Option<Dialog>,
    notice: Option<Notice>,
    /// The request in progress.
    busy: Option<Asked>,
}

impl App {
    /// Shows all groups, or the details of one.
    pub(crate) fn new(interval: Duration, colour: bool, group: Option<String>) -> Self {
        let (details, selected) = (group.is_some(), group.unwrap_or_default());
        Self {
            interval,
            colour,
            seen: Seen::default(),
            history: History::default(),
            shown: Shown { selected, details, ..Shown::default() },
            snapshots: None,
            dialog: None,
            notice: None,
            busy: None,
        }
    }

    /// Takes what happened; `now` is a time that never goes back.
    pub(crate) fn take(&mut self, input: Input, now: Duration) -> Want {
        match input {
            Input::Key(Key::Interrupt) => Want::Quit,
            Input::Key(key) => self.key(key),
            Input::Polled(polled) => {
                self.polled(*polled, now);
                Want::Nothing
            }
            Input::Done(asked, result) => {
                self.busy = None;
                self.done(asked, result, now);
                Want::Nothing
            }
        }
    }

    /// Lets messages of success go.
    pub(crate) fn pass(&mut self, now: Duration) {
        self.notice.take_if(|notice| notice.until.is_some_and(|until| until <= now));
    }

    /// The group whose snapshots are to be listed with the next status.
    pub(crate) fn lists(&self) -> Option<&str> {
        self.group().filter(|_| self.shown.details).map(|group| group.name.as_str())
    }

    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    pub(crate) fn colour(&self) -> bool {
        self.colour
    }

    /// The last status, which may be old: see [`Self::gone`].
    pub(crate) fn status(&self) -> Option<&Status> {
        self.seen.status.as_ref()
    }

    /// When the last status arrived.
    pub(crate) fn seen_at(&self) -> Duration {
        self.seen.at
    }

    /// Why the daemon does not respond, and since when.
    pub(crate) fn gone(&self) -> Option<&(ApiError, Duration)> {
        self.seen.gone.as_ref()
    }

    pub(crate) fn track(&self, group: &str) -> Option<&Track> {
        self.history.of(group)
    }

    pub(crate) fn snapshots(&self) -> Option<&Result<SnapshotList, String>> {
        self.snapshots.as_ref()
    }

    pub(crate) fn dialog(&self) -> Option<&Dialog> {
        self.dialog.as_ref()
    }

    /// The message, or the request in progress.
    pub(crate) fn notice(&self) -> Option<String> {
        let busy = self.busy.as_ref();
        let busy = busy.map(|asked| format!("the request for {} is in progress…", asked.group));
        busy.or_else(|| self.notice.as_ref().map(|notice| notice.text.clone()))
    }

    pub(crate) fn sort(&self) -> (Sort, bool) {
        (self.shown.sort, self.shown.reversed)
    }

    /// Whether the details of the selected group are open, and from which row on.
    pub(crate) fn details(&self) -> Option<usize> {
        (self.shown.details && self.selected().is_some()).then_some(self.shown.scroll)
    }

    /// The groups in the order in which they are shown.
    pub(crate) fn rows(&self) -> Vec<Row<'_>> {
        let Some(status) = self.status() else { return Vec::new() };
        Row::sorted(status, &self.history, self.shown.sort, self.shown.reversed)
    }

    /// The place of the selected group: of the first, if it is not shown any more.
    pub(crate) fn place(&self) -> usize {
        let found = self.rows().iter().position(|row| row.name() == self.shown.selected);
        found.unwrap_or_default()
    }

    pub(crate) fn selected(&self) -> Option<Row<'_>> {
        let place = self.place();
        self.rows().into_iter().nth(place)
    }

    /// The selected group, if it is served.
    fn group(&self) -> Option<&GroupStatus> {
        let status = self.status()?;
        let name = self.selected()?.name();
        status.groups.iter().find(|group| group.name == name)
    }

    fn polled(&mut self, polled: Polled, now: Duration) {
        let unclear = |why: serde_json::Error| {
            let hint = "use the same version of helio as the daemon";
            ApiError::new(code::INTERNAL, format!("the response is invalid: {why}"), hint)
        };
        match polled.status.and_then(|status| clean::object(&status).map_err(unclear)) {
            Ok(status) => {
                self.history.take(&status, now);
                self.seen = Seen { status: Some(status), at: now, gone: None };
                // A key acts on what was selected before the order changed.
                let selected = self.selected().map(|row| row.name().to_owned());
                self.shown.selected = selected.unwrap_or_default();
            }
            Err(error) => {
                let since = self.seen.gone.take().map_or(now, |(_, since)| since);
                self.seen.gone = Some((cleaned(error), since));
            }
        }
        self.snapshots = polled.snapshots.map(|listed| {
            listed
                .and_then(|list| clean::object(&list).map_err(unclear))
                .map_err(|error| clean::text(&error.error))
        });
    }

    fn done(&mut self, asked: Asked, result: Result<Accepted, ApiError>, now: Duration) {
        let node = self.status().map(|status| status.node.clone()).unwrap_or_default();
        let (text, until) = match result.map_err(cleaned) {
            Ok(accepted) => {
                let warnings =
                    accepted.warnings.iter().map(|warning| format!("; warning: {warning}"));
                let text = accepted.message.clone() + &warnings.collect::<String>();
                let until = accepted.warnings.is_empty().then_some(now + SHOWN);
                (runnable_on(&clean::text(&text), &node), until)
            }
            Err(error) => {
                let again = asked.request.confirmed(&asked.group);
                if let (code::NEEDS_CONFIRMATION, Some(stake), Some((request, question))) =
                    (error.code.as_str(), &error.at_stake, again)
                {
                    let asked = Asked { request, ..asked };
                    self.dialog = Some(Dialog::at_stake(asked, question, stake.text.clone()));
                    return;
                }
                let stake = error
                    .at_stake
                    .map_or_else(String::new, |stake| format!("; at stake: {}", stake.text));
                let hint = error.hint.map_or_else(String::new, |hint| format!("; hint: {hint}"));
                (runnable_on(&format!("{}{stake}{hint}", error.error), &node), None)
            }
        };
        self.notice = Some(Notice { text, until });
    }

    fn key(&mut self, key: Key) -> Want {
        if let Some(dialog) = self.dialog.take() {
            return match dialog.key(key) {
                Step::Stay(dialog) => {
                    self.dialog = Some(dialog);
                    Want::Nothing
                }
                Step::Closed => Want::Nothing,
                Step::Declined => self.say("not confirmed; nothing was changed"),
                Step::Confirmed(asked) => {
                    self.notice = None;
                    self.busy = Some(asked.clone());
                    Want::Ask(asked)
                }
            };
        }
        match key {
            Key::Char('q') => return Want::Quit,
            Key::Char('?') => self.dialog = Some(Dialog::Help),
            Key::Char('s') => self.shown.sort = self.shown.sort.next(),
            Key::Char('o') => self.shown.reversed = !self.shown.reversed,
            Key::Enter => (self.shown.details, self.shown.scroll) = (self.selected().is_some(), 0),
            Key::Escape | Key::Backspace if self.notice.is_some() => self.notice = None,
            Key::Escape | Key::Backspace => self.shown.details = false,
            Key::Char(letter) if let Some(action) = Action::of_key(letter) => {
                return self.begin(action);
            }
            other => self.step(other),
        }
        Want::Nothing
    }

    /// Opens the dialog of an action.
    fn begin(&mut self, action: Action) -> Want {
        if self.busy.is_some() {
            return self.say("another request is in progress; repeat the key when it has ended");
        }
        if self.seen.gone.is_some() {
            return self.say("the daemon does not respond; no action is possible");
        }
        let (Some(group), Some(status)) = (self.group(), self.status()) else {
            return self.say("the selected group is not served; no action is possible");
        };
        self.dialog = Some(Dialog::of(action, group, status.at_ms));
        self.notice = None;
        Want::Nothing
    }

    fn say(&mut self, text: &str) -> Want {
        self.notice = Some(Notice { text: text.to_owned(), until: None });
        Want::Nothing
    }

    /// Moves through the groups, or through the details.
    fn step(&mut self, key: Key) {
        let count = self.rows().len();
        let most = if self.shown.details { usize::MAX / 2 } else { count.saturating_sub(1) };
        let at = if self.shown.details { self.shown.scroll } else { self.place() };
        let to = match key {
            Key::Up => at.saturating_sub(1),
            Key::Down => at + 1,
            Key::PageUp => at.saturating_sub(PAGE),
            Key::PageDown => at + PAGE,
            Key::Home => 0,
            Key::End => most,
            _ => return,
        };
        if self.shown.details {
            self.shown.scroll = to.min(most);
        } else if let Some(row) = self.rows().get(to.min(most)) {
            self.shown.selected = row.name().to_owned();
        }
    }

    /// The details have so many rows beyond the screen: no key scrolls further.
    pub(crate) fn bound_scroll(&mut self, most: usize) {
        self.shown.scroll = self.shown.scroll.min(most);
    }
}

/// An error whose texts are clean.
fn cleaned(error: ApiError) -> ApiError {
    clean::object(&error).unwrap_or_else(|_| {
        ApiError::new(code::INTERNAL, "the error cannot be shown", "read the log of the daemon")
    })
}

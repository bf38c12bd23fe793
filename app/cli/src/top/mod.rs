// SPDX-License-Identifier: Apache-2.0
//! `helio top`: the groups of a node, live, and the common actions by key.
//!
//! [`app`] is the model: it takes statuses, keys and the time, and says which request to make. [`view`] draws it.
//! [`worker`] has the threads that wait for the daemon and for keys; this file joins them.

mod action;
mod app;
mod clean;
mod dialog;
mod history;
mod rows;
#[cfg(test)]
pub(crate) mod sample;
mod screen;
#[cfg(test)]
mod tests;
mod view;
mod worker;

use crate::args::At;
use crate::client::Client;
use crate::failure::failed;
use crate::verbs::status_path;
use anyhow::{Result, anyhow};
use app::{App, Input, Polled, Want};
use helio_api::Status;
use screen::Screen;
use std::fmt::Display;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};
use worker::{Message, Workers};

/// Ages that are shown grow in steps of this.
const REDRAW: Duration = Duration::from_secs(1);

/// Shows the groups until the operator quits.
pub(crate) fn run(at: &At, group: Option<String>, interval: Duration) -> Result<ExitCode> {
    // Without a daemon it ends as every command does.
    let client = Client::new(at)?;
    if group.is_some() {
        client.get::<Status>(&status_path(group.as_deref()))?;
    }
    let status = client.get::<Status>(&status_path(None))?;
    if !std::io::stdout().is_terminal() {
        return Err(anyhow!(
            "helio top needs a terminal: standard output is none\n  \
             hint: `helio status --watch` prints to a file or a pipe"
        ));
    }
    let colour = std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let mut app = App::new(interval, colour, group);
    let polled = Polled { status: Ok(status), snapshots: None };
    app.take(Input::Polled(Box::new(polled)), Duration::ZERO);
    let signals = crate::signals::Signals::catch()?;
    let mut screen = Screen::open()?;
    let workers = Workers::start(at, signals)?;
    let ended = watch(&mut app, &mut screen, &workers);
    drop(screen);
    ended
}

/// Draws, waits for what happens next, and takes it, until the end.
fn watch(app: &mut App, screen: &mut Screen, workers: &Workers) -> Result<ExitCode> {
    let started = Instant::now();
    let (mut polling, mut next_poll) = (false, Duration::ZERO);
    loop {
        let now = started.elapsed();
        app.pass(now);
        if !screen.draw(|frame| view::draw(frame, app, now)).map_err(gone)? {
            return Err(anyhow!(
                "helio top failed: a thread panicked; the daemon is not affected\n  \
                 hint: report it with the message above"
            ));
        }
        if !polling && now >= next_poll {
            polling = workers.poll(app.lists().map(str::to_owned));
            next_poll = now + app.interval();
        }
        let wait = if polling { REDRAW } else { REDRAW.min(next_poll.saturating_sub(now)) };
        let message = match workers.next(wait) {
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => Message::Closed("no thread is left".into()),
            Ok(message) => message,
        };
        let now = started.elapsed();
        let want = match message {
            Message::Resized => Want::Nothing,
            Message::Closed(why) => return Err(gone(why)),
            Message::Signal(number) => return Ok(ExitCode::from(128 + number)),
            Message::Input(input) => {
                polling &= !matches!(input, Input::Polled(_));
                if matches!(input, Input::Done(..)) {
                    next_poll = now;
                }
                app.take(input, now)
            }
        };
        match want {
            Want::Nothing => {}
            Want::Quit => return Ok(ExitCode::SUCCESS),
            Want::Ask(asked) => workers.ask(asked),
        }
    }
}

fn gone(why: impl Display) -> anyhow::Error {
    failed("the terminal is gone", "run `helio top` again")(why)
}

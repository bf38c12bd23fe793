// SPDX-License-Identifier: Apache-2.0
//! Threads that wait: for the status, for the end of a request, for keys, for a signal. Each tells the one that draws;
//! a daemon that does not respond delays neither keys nor the other requests. They end with the process.

use super::app::{Asked, Input, Polled};
use super::screen::{self, FromTerminal};
use crate::args::At;
use crate::client::Client;
use crate::signals::Signals;
use crate::verbs::status_path;
use anyhow::Result;
use helio_api::{SnapshotList, Status, paths};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Messages that may wait to be taken.
const MOST: usize = 16;

/// What a thread tells.
pub(super) enum Message {
    Input(Input),
    Resized,
    /// A signal of that number.
    Signal(u8),
    /// The terminal gives no more keys.
    Closed(String),
}

/// The threads.
pub(super) struct Workers {
    messages: Receiver<Message>,
    polls: SyncSender<Option<String>>,
    asks: SyncSender<Asked>,
}

impl Workers {
    /// Starts them.
    ///
    /// # Errors
    /// The system refuses a thread, or the options name no daemon.
    pub(super) fn start(at: &At, signals: Signals) -> Result<Self> {
        let (tell, messages) = sync_channel(MOST);
        let (polls, to_poll) = sync_channel(1);
        let (asks, to_ask) = sync_channel(1);
        let (poller, asker) = (Client::new(at)?, Client::new(at)?);
        let told = tell.clone();
        spawn("helio-poll", move || poll_each(&poller, &to_poll, &told))?;
        let told = tell.clone();
        spawn("helio-ask", move || ask_each(&asker, &to_ask, &told))?;
        let told = tell.clone();
        spawn("helio-signals", move || wait_signals(signals, &told))?;
        spawn("helio-keys", move || read_keys(&tell))?;
        Ok(Self { messages, polls, asks })
    }

    /// Polls the status, and the snapshots of a group. False if it cannot be now.
    pub(super) fn poll(&self, snapshots_of: Option<String>) -> bool {
        self.polls.try_send(snapshots_of).is_ok()
    }

    /// Sends a request. The model makes one at a time, so there is room for it.
    pub(super) fn ask(&self, asked: Asked) {
        // A thread that panicked has given the terminal back, and the next frame ends the program.
        let _ = self.asks.try_send(asked);
    }

    pub(super) fn next(&self, within: Duration) -> Result<Message, RecvTimeoutError> {
        self.messages.recv_timeout(within)
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(work)?;
    Ok(())
}

fn poll_each(client: &Client, polls: &Receiver<Option<String>>, tell: &SyncSender<Message>) {
    for snapshots_of in polls {
        let status = client.get::<Status>(&status_path(None)).map_err(|error| error.report());
        let snapshots = snapshots_of.filter(|_| status.is_ok()).map(|group| {
            let path = paths::of_group(paths::SNAPSHOTS, &group);
            client.get::<SnapshotList>(&path).map_err(|error| error.report())
        });
        let polled = Input::Polled(Box::new(Polled { status, snapshots }));
        if tell.send(Message::Input(polled)).is_err() {
            return;
        }
    }
}

fn ask_each(client: &Client, asks: &Receiver<Asked>, tell: &SyncSender<Message>) {
    for asked in asks {
        let result = asked.request.post(client, &asked.group).map_err(|error| error.report());
        if tell.send(Message::Input(Input::Done(asked, result))).is_err() {
            return;
        }
    }
}

fn read_keys(tell: &SyncSender<Message>) {
    loop {
        let message = match screen::read() {
            Ok(FromTerminal::Key(key)) => Message::Input(Input::Key(key)),
            Ok(FromTerminal::Resized) => Message::Resized,
            Err(why) => Message::Closed(why.to_string()),
        };
        let closed = matches!(message, Message::Closed(_));
        if tell.send(message).is_err() || closed {
            return;
        }
    }
}

fn wait_signals(mut signals: Signals, tell: &SyncSender<Message>) {
    let number = u8::try_from(signals.wait()).unwrap_or_default();
    // Without a receiver the program ends anyway.
    let _ = tell.send(Message::Signal(number));
}

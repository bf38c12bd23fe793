// SPDX-License-Identifier: Apache-2.0
//! Orders from standard input, from signals and from the agenda, one after the other, to whatever line there is.

use super::agenda::Agenda;
use super::orders::{Order, parse};
use super::schedule::Obeys;
use super::{say, seconds};
use crate::signals::Signals;
use anyhow::Result;
use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

/// Lines of standard input that may wait to be obeyed.
const MOST_WAITING: usize = 16;

/// A line that takes orders.
pub(super) trait Governed {
    /// What it obeys.
    const OBEYS: Obeys;

    /// Carries out an order that it does not refuse, and says what came of it.
    fn obey(&mut self, order: Order) -> Result<String>;
}

/// Whatever is heard first, signal or line.
pub(super) struct Ear {
    heard: Receiver<Heard>,
    /// Holds the channel open where standard input ends: the line stays until a signal, as with `</dev/null`.
    _open: SyncSender<Heard>,
}

enum Heard {
    Line(io::Result<String>),
    Signal,
}

impl Ear {
    /// Hears signals from now on; without them, they do what they do by themselves.
    pub(super) fn listen(signals: Option<Signals>) -> Result<Self> {
        let (open, heard) = sync_channel(MOST_WAITING);
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        if let Some(mut signals) = signals {
            let signal: SyncSender<Heard> = open.clone();
            spawn("helio-signals").spawn(move || {
                signals.wait();
                // Nobody listens to a process that is ending already.
                let _ = signal.send(Heard::Signal);
            })?;
        }
        let lines = open.clone();
        spawn("helio-orders").spawn(move || {
            for line in io::stdin().lock().lines() {
                if lines.send(Heard::Line(line)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { heard, _open: open })
    }

    /// What is heard until then; nothing where that comes first.
    fn hear(&self, until: Option<Instant>) -> Option<Heard> {
        let Some(until) = until else { return self.heard.recv().ok() };
        // The channel is held open: no word is that the time has come.
        self.heard.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
    }
}

/// Carries out orders until one of them, or a signal, ends it.
///
/// # Errors
/// Nobody reads what it says, or the line fails.
pub(super) fn govern<L: Governed>(line: &mut L, ear: &Ear, mut agenda: Agenda) -> Result<()> {
    let begun = Instant::now();
    loop {
        while let Some((at, entry)) = agenda.due(begun.elapsed()) {
            if entry.order == Order::Quit {
                return say(&format!("at {}, quit", seconds(at))).map_err(Into::into);
            }
            let answer = answer(line, entry.order)?;
            say(&format!("at {}, {}: {answer}", seconds(at), entry.said))?;
        }
        let until = agenda.next_at().and_then(|at| begun.checked_add(at));
        let said = match ear.hear(until) {
            None => continue,
            Some(Heard::Signal) => return Ok(()),
            Some(Heard::Line(line)) => line?,
        };
        match parse(&said, L::OBEYS.help) {
            Ok(None) => {}
            Ok(Some(Order::Quit)) => return Ok(()),
            Ok(Some(order)) => say(&answer(line, order)?)?,
            Err(why) => say(&why)?,
        }
    }
}

fn answer<L: Governed>(line: &mut L, order: Order) -> Result<String> {
    match (L::OBEYS.refuses)(&order) {
        Some(why) => Ok(why.to_owned()),
        None => line.obey(order),
    }
}

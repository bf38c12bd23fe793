// SPDX-License-Identifier: Apache-2.0
//! Chapter 5: the line is cut while an application writes, and the order of its writes survives.

use super::journal::{self, Order, Run};
use super::node::PATIENCE;
use super::plan::{JOURNAL, LYON, PARIS};
use super::promise::Broken;
use super::story::{Story, Survived, pulse, queued, span};
use super::traffic::{Pace, Request, Tally, send_all};
use anyhow::{Context, Result, bail};
use helio_api::GroupStatus;
use helio_units::{Bytes, State};
use helio_wan::Cut;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Marks this chapter's records.
const RUN: Run = Run(1);
/// Between two records: an application that writes steadily, at an eighth of what the line carries.
const STEP: Duration = Duration::from_micros(2_500);
/// How long it writes before the cut, and behind the first sight of `queuing`.
const WHILE: Duration = Duration::from_millis(1_200);
/// Between two lines that say the same but for their numbers.
const BETWEEN_LINES: Duration = Duration::from_millis(500);

/// The writer as the chapter sees it.
struct Writer {
    tally: Tally,
    ended: Receiver<Result<()>>,
}

/// Cuts the line under a writer, heals it, and looks at the order on the other side.
pub(super) fn play(story: &Story<'_>) -> Result<Survived> {
    let Story { screen, paris, .. } = story;
    screen.chapter(5, "The link is cut while an application writes")?;
    screen.say(&format!(
        "An application keeps a journal on {}: records of {} bytes, one after another, each with its \
         number and a checksum, the next only when the one before is acknowledged. So if {LYON} holds a \
         record, it must hold every record before it: at any time, whatever happens to the link.",
        JOURNAL.export(),
        journal::RECORD
    ))?;
    let client = paris.open(JOURNAL)?;
    let (mut pace, stop) = Pace::new(STEP);
    let (end, ended) = sync_channel(1);
    let writer = Writer { tally: Tally::default(), ended };
    let numbers = (0..journal::slots(JOURNAL.size)).take_while(move |_| pace.turn());
    let requests = numbers.map(|n| Ok(Request::Write(journal::offset(n), journal::record(RUN, n))));
    let tally = &writer.tally;
    thread::scope(|scope| {
        scope.spawn(move || {
            // Whoever waits for it may have given up.
            let _ = end.send(send_all(client, 1, requests, tally));
        });
        let survived = cut_and_heal(story, &writer);
        // Before the scope waits for the writer.
        drop(stop);
        let mut survived = survived?;
        match writer.ended.recv_timeout(PATIENCE) {
            Ok(result) => result.context("the application's writes failed")?,
            Err(_) => bail!("the application's last write was not acknowledged"),
        }
        finish(story, &writer, &mut survived)?;
        Ok(survived)
    })
}

/// The line goes down and comes back, and the writer notices neither.
fn cut_and_heal(story: &Story<'_>, writer: &Writer) -> Result<Survived> {
    let Story { screen, paris, lyon, line, .. } = story;
    writer.goes_on_for(WHILE)?;
    let before = writer.count();
    screen.say(&format!(
        "{before} records are acknowledged. The link is cut: no more data arrives, and neither node is informed."
    ))?;
    line.control().cut(Cut::Freeze);
    let mut most_queued = Bytes::ZERO;
    watch(story, "the state `queuing`", |group| {
        most_queued = queued(group).max(most_queued);
        Ok(group.state == State::Queuing)
    })?;
    paris.show(&["status", super::plan::GROUP])?;
    writer.goes_on_for(WHILE)?;
    let (there, here) = (lyon.status()?, paris.status()?);
    most_queued = queued(&here).max(most_queued);
    screen.line(&format!("{PARIS:<6} {}", pulse(&here)))?;
    screen.line(&format!("{LYON:<6} {}: {}", there.state, there.state_reason))?;
    let during = writer.count() - before;
    screen.promise(
        "the application continues to write while the link is down",
        during > 0,
        &format!("{during} records acknowledged since the cut"),
    )?;
    screen.say("The link is restored. The queued writes are sent in order.")?;
    line.control().heal();
    let (healed, mut looks) = (Instant::now(), 0);
    watch(story, "the state `replicating`", |group| {
        let found = in_order(story, writer)?;
        looks += 1;
        screen.line(&format!("{LYON} holds the records 1 to {found} of {}", writer.count()))?;
        most_queued = queued(group).max(most_queued);
        Ok(group.state == State::Replicating)
    })?;
    let caught_up = healed.elapsed();
    Ok(Survived { most_queued, caught_up, looks, ..Survived::default() })
}

/// The last record arrives.
fn finish(story: &Story<'_>, writer: &Writer, survived: &mut Survived) -> Result<()> {
    let Story { screen, paris, .. } = story;
    paris.wait("the last record to arrive", |group| group.lag.bytes == Bytes::ZERO)?;
    survived.records = writer.count();
    survived.looks += 1;
    let found = in_order(story, writer)?;
    screen.promise(
        &format!("{LYON} holds the application's records in their order, at any time"),
        found == survived.records,
        &format!(
            "a prefix without a gap at each of {} looks, and in the end {found} of {} records",
            survived.looks, survived.records
        ),
    )?;
    survived.longest = writer.tally.longest();
    screen.say(&format!(
        "Before, during and after the cut no record waited longer than {} for its acknowledgement.",
        span(survived.longest)
    ))?;
    Ok(())
}

/// Watches the primary, and tells its state, queue and lag when they change.
fn watch(
    story: &Story<'_>,
    what: &str,
    mut see: impl FnMut(&GroupStatus) -> Result<bool>,
) -> Result<()> {
    let mut told: Option<(State, Instant)> = None;
    let group = story.paris.watch(PATIENCE, what, |group| {
        let news =
            told.is_none_or(|(state, at)| state != group.state || at.elapsed() > BETWEEN_LINES);
        if news {
            story.screen.line(&format!("{PARIS:<6} {}", pulse(group)))?;
            told = Some((group.state, Instant::now()));
        }
        see(group)
    })?;
    story.screen.line(&format!("{PARIS} is {}: {}", group.state, group.state_reason))?;
    Ok(())
}

/// How many records the secondary holds. They must be the first ones.
fn in_order(story: &Story<'_>, writer: &Writer) -> Result<u64> {
    let member = JOURNAL.member(story.stage.folder(), LYON);
    match journal::order(&journal::look(&member, RUN, writer.tally.sent())?) {
        Order::Prefix(length) => Ok(length),
        Order::Gap { missing, later } => Err(Broken {
            promised: format!("{LYON} holds every record before one that it holds"),
            found: format!("record {} and not record {}", later + 1, missing + 1),
        }
        .into()),
    }
}

impl Writer {
    /// How many records are answered.
    fn count(&self) -> u64 {
        self.tally.answered()
    }

    /// Lets it write for a while; an error where it ended instead.
    fn goes_on_for(&self, span: Duration) -> Result<()> {
        match self.ended.recv_timeout(span) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(Err(why)) => Err(why).context("the application's writes failed"),
            Ok(Ok(())) | Err(RecvTimeoutError::Disconnected) => {
                bail!("the application stopped writing too early")
            }
        }
    }
}

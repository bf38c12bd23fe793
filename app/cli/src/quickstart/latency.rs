// SPDX-License-Identifier: Apache-2.0
//! Chapter 4: what a write costs in each mode, in the shape of the table Sun printed in 2003.

use super::plan::{GROUP, JOURNAL, PARIS};
use super::story::{Story, span};
use anyhow::{Result, anyhow};
use helio_units::{Bytes, Mode, State};
use std::time::{Duration, Instant};

/// The block sizes of the source's table.
const SIZES: [Bytes; 3] = [Bytes::kib(8), Bytes::kib(32), Bytes::kib(64)];
/// Writes per size. One in sync takes a round trip, so fewer of them have to do.
const SYNC_WRITES: u64 = 20;
const ASYNC_WRITES: u64 = 100;
/// What the source printed for the same line: TABLE 4, milliseconds sync and async.
const THEIRS: &str = "For comparison, Sun's remote mirror 3.1 over a link of the same round trip and rate (their \
                      TABLE 4, 2003, on their machines and disks, so only for orientation): 60 and 10 ms for 8 KiB, \
                      66 and 18 ms for 32 KiB, 124 and 25 ms for 64 KiB.";

/// Median response times for one block size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) size: Bytes,
    pub(super) sync: Duration,
    pub(super) queued: Duration,
}

/// Measures both modes.
pub(super) fn play(story: &Story<'_>) -> Result<Vec<Row>> {
    let Story { screen, .. } = story;
    screen.chapter(4, "What a write costs: sync against async")?;
    screen.say(&format!(
        "Sequential writes to {}, one at a time: {SYNC_WRITES} of each size in sync, where a write is \
         acknowledged when both nodes have completed it, and {ASYNC_WRITES} in async.",
        JOURNAL.export()
    ))?;
    let sync = measure(story, Mode::Sync, SYNC_WRITES)?;
    let queued = measure(story, Mode::Async, ASYNC_WRITES)?;
    let rows = SIZES.into_iter().zip(sync).zip(queued);
    let rows: Vec<Row> = rows.map(|((size, sync), queued)| Row { size, sync, queued }).collect();
    table(&rows).iter().try_for_each(|line| screen.line(line))?;
    screen.say(
        "Medians, measured by the client, including the socket. Improvement is (sync - async) / async.",
    )?;
    screen.say(THEIRS)?;
    Ok(rows)
}

/// Changes the mode and waits until writes meet it.
pub(super) fn set_mode(story: &Story<'_>, mode: Mode) -> Result<()> {
    story.paris.order(&["mode", GROUP, mode.word()])?;
    let what = format!("the mode {mode} to take effect on {PARIS}");
    let effective = |group: &helio_api::GroupStatus| {
        group.mode.effective == Some(mode) && group.state == State::Replicating
    };
    story.paris.wait(&what, effective).map(drop)
}

/// The median for each size, in one mode.
fn measure(story: &Story<'_>, mode: Mode, count: u64) -> Result<Vec<Duration>> {
    set_mode(story, mode)?;
    let mut client = story.paris.open(JOURNAL)?;
    let medians = SIZES.into_iter().map(|size| {
        // Each size begins with an empty queue: what the one before left in it would not be its own cost.
        story.paris.wait("an empty queue", |group| group.lag.bytes == Bytes::ZERO)?;
        let data = vec![0xa5; size.0 as usize];
        let times: Result<Vec<Duration>> = (0..count)
            .map(|number| {
                let began = Instant::now();
                client.write(number * size.0, &data, false)?;
                Ok(began.elapsed())
            })
            .collect();
        median(times?).ok_or_else(|| anyhow!("nothing was measured"))
    });
    let medians: Result<Vec<Duration>> = medians.collect();
    client.disconnect()?;
    medians
}

/// The middle one; of an even count, the mean of the middle two.
fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    let upper = *times.get(times.len() / 2)?;
    let lower = *times.get((times.len() - 1) / 2)?;
    Some((lower + upper) / 2)
}

/// The table, line by line.
fn table(rows: &[Row]) -> Vec<String> {
    let cells = |a: &str, b: &str, c: &str, d: &str, e: &str| {
        format!("{a:<12}{b:<13}{c:>16}{d:>16}{e:>14}").trim_end().to_owned()
    };
    let mut lines = vec![
        cells("Block Sizes", "Write Type", "Synchronous", "Asynchronous", "Improvement"),
        cells("", "", "Response Time", "Response Time", "Percent"),
    ];
    for row in rows {
        let (sync, queued) = (span(row.sync), span(row.queued));
        let gain = improvement(row.sync, row.queued);
        lines.push(cells(&row.size.to_string(), "Sequential", &sync, &queued, &gain));
    }
    lines
}

/// By how much async is quicker, in percent of async.
fn improvement(sync: Duration, queued: Duration) -> String {
    if queued.is_zero() {
        return "-".to_owned();
    }
    format!("{:.0}", (sync.as_secs_f64() / queued.as_secs_f64() - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_improvement_is_counted_as_the_source_counts_it() {
        assert_eq!(improvement(ms(60), ms(10)), "500");
        assert_eq!(improvement(ms(124), ms(25)), "396");
        assert_eq!(improvement(ms(10), ms(20)), "-50");
        assert_eq!(improvement(ms(10), Duration::ZERO), "-");
    }

    #[test]
    fn the_table_has_the_columns_of_the_source() {
        let rows = [Row { size: Bytes::kib(8), sync: ms(60), queued: Duration::from_micros(1234) }];
        let expected = [
            "Block Sizes Write Type        Synchronous    Asynchronous   Improvement",
            "                            Response Time   Response Time       Percent",
            "8 KiB       Sequential            60.0 ms         1.23 ms          4762",
        ];
        assert_eq!(table(&rows), expected);
    }

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median(vec![ms(9), ms(1), ms(5)]), Some(ms(5)));
        assert_eq!(median(vec![ms(4), ms(1), ms(9), ms(2)]), Some(ms(3)));
        assert_eq!(median(Vec::new()), None);
    }
}

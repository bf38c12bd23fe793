// SPDX-License-Identifier: Apache-2.0
//! A primary's run: who is to be measured, and how.

use crate::channel::Tally;
use crate::error::LabError;
use crate::lane::{Lane, Shared};
use crate::meet::{Place, Stage, gather};
use crate::outcome::{Counts, End, Outcome, Told, Wire};
use crate::pause::Waking;
use crate::payload;
use crate::store::Disk;
use crate::watch::Event;
use crate::wire::{Again, Granted, Hello, LEAST_FLUSH, MOST_FLUSH, MOST_STREAMS, Mode, Plan};
use helio_link::Figures;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant, SystemTime};

/// The most standbys of a run.
pub const MOST_STANDBYS: usize = 16;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Job {
    /// When a flush is over.
    pub mode: Mode,
    /// Bytes of a flush.
    pub flush: u64,
    /// How long; none goes on until something else ends it.
    pub time: Option<Duration>,
    /// How many flushes on all streams; none goes on until something else ends it.
    pub flushes: Option<u64>,
    /// Bytes a second at most.
    pub target: Option<f64>,
    /// The disk here; none takes no time.
    pub disk: Option<Disk>,
    /// How far flushes are compressible, and compressed.
    pub compress: Option<f64>,
    /// The most bytes of a stream that may be sent and not acknowledged.
    pub window: Option<u64>,
    /// Connections to each standby.
    pub streams: u16,
    /// How many standbys.
    pub standbys: usize,
}

impl Job {
    /// Refuses what makes no sense, or too much of it.
    fn check(&self) -> Result<(), LabError> {
        let asked = |text: String| Err(LabError::Asked(text));
        if !(LEAST_FLUSH..=MOST_FLUSH).contains(&self.flush) {
            let flush = self.flush;
            return asked(format!(
                "a flush of {flush} bytes is not between {LEAST_FLUSH} and {MOST_FLUSH}"
            ));
        }
        if !(1..=MOST_STREAMS).contains(&self.streams) {
            return asked(format!("{} streams are not between 1 and {MOST_STREAMS}", self.streams));
        }
        if !(1..=MOST_STANDBYS).contains(&self.standbys) {
            return asked(format!(
                "{} standbys are not between 1 and {MOST_STANDBYS}",
                self.standbys
            ));
        }
        if self.target.is_some_and(|rate| rate.is_nan() || rate <= 0.0) {
            return asked("the target rate must be greater than zero".to_owned());
        }
        if let Some(window) = self.window.filter(|window| *window < self.flush) {
            let flush = self.flush;
            return asked(format!(
                "--window: {window} bytes are less than a flush of {flush}; hint: use a smaller --flush, or a larger \
                 --window"
            ));
        }
        self.compress.map_or(Ok(()), payload::check)?;
        self.disk.as_ref().map_or(Ok(()), Disk::check)
    }
}

/// Waits for the standbys and runs. What was measured before something broke it off is in the outcome, with what broke
/// it.
///
/// # Errors
/// There is nothing to measure: what was asked for makes no sense, or nobody came.
pub fn run_primary(
    place: &Place,
    job: &Job,
    waking: Waking,
    stage: &Stage<'_>,
) -> Result<Outcome, LabError> {
    run_once(place, job, waking, stage, None)
}

/// One run, after which another may follow on the same standbys.
pub(crate) fn run_once(
    place: &Place,
    job: &Job,
    waking: Waking,
    stage: &Stage<'_>,
    again: Option<Again>,
) -> Result<Outcome, LabError> {
    job.check()?;
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let plan = Plan {
        mode: job.mode,
        compressed: job.compress.is_some(),
        streams: job.streams,
        // Differs from any other's by the time and the process; 0 means none, and the low byte counts standbys.
        run: ((since_1970.as_nanos() as u64) << 16 ^ u64::from(std::process::id()) << 8)
            | 1 << 63
            | 1,
        flush: job.flush,
        // Known when the first connection is there.
        began_ms: 0,
    };
    let mut lines: Vec<_> =
        gather(place, stage, &plan, job.standbys)?.into_iter().map(Vec::into_iter).collect();
    (stage.watch)(&Event::Running);
    let shared = Shared {
        job,
        stage: *stage,
        waking,
        began: Instant::now(),
        begun: AtomicU64::new(0),
        broken: AtomicBool::new(false),
    };
    let (mut lanes, mut hellos) = (Vec::new(), Vec::new());
    for _ in 0..job.streams {
        let (channels, said): (Vec<_>, Vec<_>) =
            lines.iter_mut().filter_map(Iterator::next).unzip();
        hellos.push(said);
        lanes.push(Lane::new(&shared, channels));
    }
    let failures: Vec<LabError> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            lanes.iter_mut().map(|lane| scope.spawn(move || lane.run(again))).collect();
        let ends = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ends.filter_map(Result::err).collect()
    });
    Ok(Outcome { failure: worst(failures), again, ..outcome(place, &shared, lanes, hellos) })
}

/// What the streams counted, together.
fn outcome(
    place: &Place,
    shared: &Shared<'_>,
    lanes: Vec<Lane<'_>>,
    hellos: Vec<Vec<Hello>>,
) -> Outcome {
    let job = shared.job;
    let over = lanes.iter().map(|lane| lane.over).max().unwrap_or(shared.began);
    let (mut counts, mut tally, mut wires) = (Counts::default(), Tally::default(), Vec::new());
    for (lane, said) in lanes.into_iter().zip(hellos) {
        counts.merge(lane.counts);
        for (n, channel) in lane.channels.iter().enumerate() {
            tally.merge(&channel.tally);
            let figures = Figures::of(channel.socket()).unwrap_or_default();
            let report = lane.reports[n].map(Into::into);
            wires.push(Wire {
                standby: n,
                peer: channel.peer,
                here: granted(place, &figures),
                there: Some(buffers_there(&said[n], report.as_ref())),
                figures,
                report,
            });
        }
    }
    Outcome {
        end: End::Primary,
        mode: job.mode,
        flush: job.flush,
        streams: job.streams,
        span: over - shared.began,
        counts,
        tally,
        wires,
        failure: None,
        interrupted: shared.stage.stopped(),
        again: None,
    }
}

/// The buffers of a standby: the kernel may have tuned them since it called.
fn buffers_there(said: &Hello, told: Option<&Told>) -> [Granted; 2] {
    let last = |granted: Granted, of: fn(&Told) -> u64| {
        let actual = told.map(of).filter(|bytes| *bytes > 0).unwrap_or(granted.actual);
        Granted { actual, ..granted }
    };
    [last(said.send, |told| told.send), last(said.receive, |told| told.receive)]
}

/// What broke a run off: not what ended the other streams because of it.
pub(crate) fn worst(failures: Vec<LabError>) -> Option<LabError> {
    let mut failures = failures.into_iter();
    let first = failures.next()?;
    match first {
        LabError::Interrupted => failures.find(|why| !matches!(why, LabError::Interrupted)),
        why => Some(why),
    }
}

/// The buffers of a connection here.
pub(crate) fn granted(place: &Place, figures: &Figures) -> [Granted; 2] {
    let asked = |bytes: Option<u64>| bytes.unwrap_or(0);
    [
        Granted { asked: asked(place.ask.send), actual: figures.send_buffer.0 },
        Granted { asked: asked(place.ask.receive), actual: figures.receive_buffer.0 },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Report;

    #[test]
    fn the_buffers_there_are_those_of_the_end_where_it_was_told() {
        let send = Granted { asked: 65_536, actual: 131_072 };
        let said =
            Hello { send, receive: Granted { asked: 0, actual: 131_072 }, ..Hello::default() };
        assert_eq!(buffers_there(&said, None), [said.send, said.receive]);
        let told = Told::from(Report { receive: 6 << 20, ..Report::default() });
        let tuned = Granted { asked: 0, actual: 6 << 20 };
        assert_eq!(buffers_there(&said, Some(&told)), [send, tuned], "0 is what nobody knows");
    }
}

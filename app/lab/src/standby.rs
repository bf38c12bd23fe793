// SPDX-License-Identifier: Apache-2.0
//! A standby: receives, writes and applies as it was told, and acknowledges as the mode says.

use crate::channel::{Channel, STALL, Tally, wait_any};
use crate::error::LabError;
use crate::meet::{Place, Stage, call};
use crate::outcome::{Counts, End, Outcome, Wire, total};
use crate::pause::Waking;
use crate::primary::{granted, worst};
use crate::series::Series;
use crate::socket::SLICE;
use crate::store::Disk;
use crate::watch::Event;
use crate::wire::{self, Ack, Again, Frame, Head, Mode, Plan, Report, WireError, longest};
use helio_link::Figures;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The receive buffer in flushes where nothing is said, as HADR has it.
const FLUSHES: u64 = 4;
/// The largest receive buffer of a stream that may be asked for.
pub const MOST_BUFFER: u64 = 1 << 30;

/// What a standby does with what it receives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Duty {
    /// The disk it writes to; none takes no time.
    pub disk: Option<Disk>,
    /// Bytes a second it applies; none takes no time.
    pub apply: Option<f64>,
    /// Bytes each stream may hold that were received and not applied, and takes in one call; four flushes where
    /// nothing is said.
    pub buffer: Option<u64>,
}

impl Duty {
    /// Refuses what never ends.
    fn check(&self) -> Result<(), LabError> {
        if self.apply.is_some_and(|rate| rate.is_nan() || rate <= 0.0) {
            let why = "the apply rate must be greater than zero; omit it for no limit";
            return Err(LabError::Asked(why.to_owned()));
        }
        self.disk.as_ref().map_or(Ok(()), Disk::check)
    }
}

/// Calls the primary, and serves one run.
///
/// # Errors
/// There is nothing to measure: nobody answers, or not who should.
pub fn run_standby(
    place: &Place,
    duty: &Duty,
    waking: Waking,
    stage: &Stage<'_>,
) -> Result<Outcome, LabError> {
    duty.check()?;
    let (first, plan) = call(place, stage, (0, 0))?;
    let Plan { mode, flush, began_ms, .. } = plan;
    (stage.watch)(&Event::Terms { sent: false, mode, flush, began_ms });
    let buffer = duty.buffer.unwrap_or(FLUSHES * flush);
    if !(flush..=MOST_BUFFER).contains(&buffer) {
        let text = format!(
            "a receive buffer of {buffer} bytes does not hold a flush of {flush}, or is beyond {MOST_BUFFER}; hint: \
             use another --room (simhadr: -hadrBufSize), or smaller flushes at the primary"
        );
        return Err(LabError::Asked(text));
    }
    let mut channels = vec![first];
    for stream in 1..u32::from(plan.streams) {
        channels.push(call(place, stage, (plan.run, stream))?.0);
    }
    (stage.watch)(&Event::Running);
    let broken = AtomicBool::new(false);
    let hall =
        Hall { place, duty, buffer, waking, stage, plan, broken: &broken, began: OnceLock::new() };
    let mut shores: Vec<Shore<'_>> =
        channels.into_iter().map(|channel| Shore::new(&hall, channel)).collect();
    let failures: Vec<LabError> = std::thread::scope(|scope| {
        let threads: Vec<_> = shores.iter_mut().map(|shore| scope.spawn(|| shore.run())).collect();
        let ends = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ends.filter_map(Result::err).collect()
    });
    Ok(hall.outcome(shores, failures))
}

/// What the streams of a standby share.
struct Hall<'a> {
    place: &'a Place,
    duty: &'a Duty,
    buffer: u64,
    waking: Waking,
    stage: &'a Stage<'a>,
    plan: Plan,
    broken: &'a AtomicBool,
    /// When the first bytes came: before that the primary may have waited for other standbys.
    began: OnceLock<Instant>,
}

impl Hall<'_> {
    /// When the run began here; now, where it did not yet.
    fn began(&self) -> Instant {
        *self.began.get_or_init(Instant::now)
    }

    /// Whether a signal came, or another stream ended the run.
    fn is_over(&self) -> bool {
        self.stage.stopped() || self.broken.load(Ordering::Relaxed)
    }

    /// Waits for a moment; whether it came before the run was over.
    fn pause(&self, until: Instant) -> bool {
        self.waking.until(until, || self.is_over())
    }

    fn outcome(&self, shores: Vec<Shore<'_>>, failures: Vec<LabError>) -> Outcome {
        let over = shores.iter().filter_map(|shore| shore.over).max();
        let span = over.map_or(Duration::ZERO, |over| over - self.began());
        let again = shores.first().and_then(|shore| shore.again);
        let (mut counts, mut tally, mut wires) = (Counts::default(), Tally::default(), Vec::new());
        for shore in shores {
            tally.merge(&shore.channel.tally);
            let figures = shore.figures;
            wires.push(Wire {
                standby: 0,
                peer: shore.channel.peer,
                here: granted(self.place, &figures),
                there: None,
                figures,
                report: None,
            });
            counts.merge(shore.counts);
        }
        Outcome {
            end: End::Standby,
            mode: self.plan.mode,
            flush: self.plan.flush,
            streams: self.plan.streams,
            span,
            counts,
            tally,
            wires,
            failure: worst(failures),
            interrupted: self.stage.stopped(),
            again,
        }
    }
}

/// One stream.
struct Shore<'a> {
    hall: &'a Hall<'a>,
    channel: Channel<'a>,
    counts: Counts,
    figures: Figures,
    number: u64,
    /// When everything received so far is written, and when it is applied.
    written: Instant,
    applied: Instant,
    /// When the last flush was received; none where none was.
    over: Option<Instant>,
    plain: Vec<u8>,
    again: Option<Again>,
}

impl<'a> Shore<'a> {
    fn new(hall: &'a Hall<'a>, mut channel: Channel<'a>) -> Self {
        // A flush that cannot be compressed is a little longer than its bytes.
        let slack = longest(hall.plan.flush) - hall.plan.flush;
        let compressed = hall.plan.compressed;
        channel.enlarge((hall.buffer + if compressed { slack } else { 0 }) as usize);
        let now = Instant::now();
        Self {
            hall,
            channel,
            counts: Counts::default(),
            figures: Figures::default(),
            number: 0,
            written: now,
            applied: now,
            over: None,
            plain: if compressed { vec![0; hall.plan.flush as usize] } else { Vec::new() },
            again: None,
        }
    }

    fn run(&mut self) -> Result<(), LabError> {
        self.channel.begin();
        let result = self.receive();
        if self.figures == Figures::default() {
            self.figures = Figures::of(self.channel.socket()).unwrap_or_default();
        }
        if result.is_err() {
            self.hall.broken.store(true, Ordering::Relaxed);
        }
        result
    }

    fn receive(&mut self) -> Result<(), LabError> {
        loop {
            while let Some((frame, body)) = self.channel.frame(self.hall.plan.flush)? {
                match frame {
                    Frame::Flush(head) if head.number == self.number + 1 => {
                        self.flush(head, body)?
                    }
                    Frame::End(end) if end.flushes == self.number => return self.end(end),
                    _ => {
                        let peer = self.channel.peer;
                        return Err(LabError::WrongPeer { peer, why: WireError::Kind });
                    }
                }
            }
            if self.hall.is_over() {
                return Ok(());
            }
            if self.channel.pull_waiting()? {
                // What TLS says for itself is no part of the run.
                if self.channel.has_unread() {
                    self.hall.began();
                }
            } else {
                // Before the first flush other standbys may still be on their way to the primary.
                let limit = if self.number == 0 { self.hall.place.patience } else { STALL };
                self.channel.check("receiving", limit)?;
                wait_any(std::slice::from_ref(&self.channel), true, SLICE);
            }
        }
    }

    fn flush(&mut self, head: Head, body: Range<usize>) -> Result<(), LabError> {
        let Hall { duty, plan, .. } = *self.hall;
        self.number = head.number;
        let bytes = u64::from(head.raw);
        if plan.compressed {
            let peer = self.channel.peer;
            let sealed = self.channel.bytes(body);
            let room = &mut self.plain[..head.raw as usize - wire::HEAD];
            let length = lz4_flex::block::decompress_into(sealed, room);
            if length.ok() != Some(room.len()) {
                return Err(LabError::WrongPeer { peer, why: WireError::Damaged });
            }
        }
        let now = Instant::now();
        self.over = Some(now);
        self.counts.flushes.add(bytes);
        self.counts.wire += u64::from(head.stored);
        self.counts.series.add(now - self.hall.began(), bytes, Duration::ZERO);
        let write = duty.disk.map_or(Duration::ZERO, |disk| disk.time(bytes));
        self.written = self.written.max(now) + write;
        // What is not written is not acknowledged.
        if plan.mode == Mode::Sync && !self.hall.pause(self.written) {
            return Ok(());
        }
        let waiting = self.apply(bytes, now);
        self.acknowledge(Ack { number: self.number, bytes: total(&self.counts.flushes), waiting })?;
        // The thread that receives is the one that writes, as in HADR; meanwhile TCP receives.
        self.hall.pause(self.written);
        self.make_room(bytes);
        Ok(())
    }

    /// Books what is to be applied, and returns how much waits.
    fn apply(&mut self, bytes: u64, now: Instant) -> u64 {
        let Some(rate) = self.hall.duty.apply else { return 0 };
        let takes = Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or(STALL);
        self.applied = self.applied.max(now) + takes;
        let waiting = ((self.applied - now).as_secs_f64() * rate) as u64;
        self.counts.most_waiting = self.counts.most_waiting.max(waiting);
        waiting
    }

    /// Receives nothing until the next flush would find room behind what waits to be applied.
    fn make_room(&mut self, bytes: u64) {
        let Some(rate) = self.hall.duty.apply else { return };
        let now = Instant::now();
        let room = self.hall.buffer.saturating_sub(bytes) as f64 / rate;
        let room = Duration::try_from_secs_f64(room).unwrap_or(Duration::MAX);
        let until = self.applied.checked_sub(room).unwrap_or(now);
        if until > now {
            self.hall.pause(until);
            self.counts.blocked += now.elapsed().min(until - now);
        }
    }

    fn acknowledge(&mut self, ack: Ack) -> Result<(), LabError> {
        self.channel.queue(&ack.encode());
        self.drain("acknowledging")
    }

    fn drain(&mut self, doing: &'static str) -> Result<(), LabError> {
        while !self.channel.push()? {
            self.channel.check(doing, STALL)?;
            if self.hall.broken.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            wait_any(std::slice::from_ref(&self.channel), true, SLICE);
        }
        Ok(())
    }

    fn end(&mut self, end: wire::End) -> Result<(), LabError> {
        self.again = end.again;
        self.figures = Figures::of(self.channel.socket()).unwrap_or_default();
        let series: &Series = &self.counts.series;
        let (late_bytes, late_span) = series.later_half();
        let report = Report {
            scaling: self.figures.window_scale.is_some(),
            flushes: self.number,
            bytes: total(&self.counts.flushes),
            span: self.over.map_or(Duration::ZERO, |over| over - self.hall.began()),
            late_bytes,
            late_span,
            send: self.figures.send_buffer.0,
            receive: self.figures.receive_buffer.0,
            calls: self.channel.tally.received.count(),
            blocked: self.counts.blocked,
            most_waiting: self.counts.most_waiting,
        };
        let before = self.channel.tally.sent.clone();
        self.channel.queue(&report.encode());
        self.drain("reporting")?;
        self.channel.tally.sent = before;
        // The primary hangs up when it has heard it: closing first could take the report along.
        let deadline = Instant::now() + STALL;
        while Instant::now() < deadline && self.channel.pull().is_ok() {
            wait_any(std::slice::from_ref(&self.channel), false, SLICE);
        }
        Ok(())
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The search for the socket buffer: doubled until throughput no longer improves, as IBM's article on tuning TCP for
//! HADR has it. The primary decides; the standby asks for the same buffers in the next run, as the end of each run
//! tells it.

use crate::error::LabError;
use crate::meet::{Place, Stage};
use crate::outcome::{Outcome, Wire};
use crate::pause::Waking;
use crate::primary::{Job, run_once};
use crate::standby::{Duty, run_standby};
use crate::wire::{Again, Granted, Mode};
use serde::Serialize;
use std::time::Duration;

/// Less than this share of the best is no plateau yet, and a step that gains less does not improve. The source's own
/// table gains 2 % behind its plateau.
const SAME: f64 = 0.95;
/// So many steps in a row without improvement end the search.
const FLAT: u32 = 2;
/// Recommended sizes are whole multiples of this, which is also the least the source recommends.
const GRAIN: u64 = 64 << 10;
/// The largest size that is recommended: Linux counts a buffer, twice what is asked for, in an int.
const MOST: u64 = (1 << 30) - GRAIN;

/// How it is searched.
#[derive(Clone, Debug)]
pub struct Search {
    /// The first buffer, in bytes.
    pub from: u64,
    /// The last one at most.
    pub most: u64,
    /// How long each run is.
    pub time: Duration,
    /// Bytes of a flush; throughput hardly depends on it.
    pub flush: u64,
    /// Connections.
    pub streams: u16,
    /// Doubles an exact window of the application in place of socket buffers, which Linux grants twice.
    pub exact: bool,
    /// A rate in bytes a second, and how long it is to go on while the link stands still.
    pub hiccup: Option<(f64, Duration)>,
}

/// One run of the search.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Bytes asked for, of the buffers or the exact window; 0 where the kernel chose the buffers.
    pub asked: u64,
    /// Send and receive buffer here.
    pub here: [Granted; 2],
    /// Those of the standby.
    pub there: [Granted; 2],
    /// Bytes a second that arrived.
    pub rate: f64,
    /// Least round trip, microseconds.
    pub rtt_us: u64,
    /// Segments sent again, of so many.
    pub resent: [u32; 2],
    /// Shifts of the offered windows; none where scaling is off on a connection, as one of its ends sees it.
    pub window_scale: Option<[u8; 2]>,
    /// Share of the time with something to send in which the peer's window was the limit.
    pub window_limited: f64,
    /// Share in which this end's send buffer was.
    pub buffer_limited: f64,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Whether windows were exact.
    pub exact: bool,
    /// The doubled sizes, in order.
    pub steps: Vec<Step>,
    /// What the kernel's own buffers reached.
    pub kernel: Option<Step>,
    /// The best rate, in bytes a second.
    pub bandwidth: f64,
    /// The least round trip of an idle link, microseconds.
    pub rtt_us: u64,
    /// The smallest size with at least 95 % of the best rate; none where only the kernel's own buffers reached it.
    pub plateau: Option<u64>,
    /// 2 × bandwidth × delay.
    pub computed: u64,
    /// Room for a hiccup: rate × seconds.
    pub hiccup: Option<u64>,
    /// What to ask for: twice the plateau, or the room for a hiccup. Where there is no plateau, the computed size or
    /// twice the last.
    pub recommended: u64,
    /// What would be recommended if a socket could have as much; none where it can.
    pub beyond: Option<u64>,
    /// Where the system's limit stopped it: the size that was not granted.
    pub capped: Option<u64>,
    /// Whether window scaling was in force.
    pub scaling: bool,
}

/// Searches. `told` hears of every step.
///
/// # Errors
/// The standby does not come, or a run breaks off.
pub fn search(
    place: &Place,
    search: &Search,
    waking: Waking,
    stage: &Stage<'_>,
    told: &mut dyn FnMut(&Step),
) -> Result<Advice, LabError> {
    if search.from < 1024 || search.from > search.most {
        let (from, most) = (search.from, search.most);
        return Err(LabError::Asked(format!(
            "a search from {from} to {most} bytes has no steps; from 1 KiB on"
        )));
    }
    let runs = Runs { place, search, waking, stage };
    // The first meeting tells the standby what to ask for, and how far it is.
    let meeting = runs.run(0, None, Some(search.from))?;
    let mut rtt = step(0, &meeting).rtt_us;
    let (mut steps, mut flat, mut best, mut capped) = (Vec::<Step>::new(), 0, 0.0_f64, None);
    let mut asked = search.from;
    while flat < FLAT && asked <= search.most && capped.is_none() {
        let next = asked.saturating_mul(2);
        let done = runs.run(asked, Some(search.time), Some(next))?;
        let this = step(asked, &done);
        told(&this);
        flat = if this.rate * SAME > best { 0 } else { flat + 1 };
        best = best.max(this.rate);
        rtt = least(rtt, this.rtt_us);
        capped = (!search.exact && cut(&this)).then_some(asked);
        steps.push(this);
        asked = next;
    }
    // The last step's end promised the standby another one: it is the kernel's own choice, told by a meeting.
    runs.run(asked, None, Some(0))?;
    let done = runs.run(0, Some(search.time), None)?;
    let kernel = step(0, &done);
    told(&kernel);
    Ok(advise(search, steps, kernel, rtt, capped))
}

/// The smaller of two, of which 0 says nothing.
fn least(one: u64, other: u64) -> u64 {
    if one == 0 || other == 0 { one.max(other) } else { one.min(other) }
}

/// Whether one of the four buffers is smaller than was asked for: the system's limit cut it.
fn cut(step: &Step) -> bool {
    step.here.iter().chain(&step.there).any(|buffer| buffer.actual < buffer.asked.saturating_mul(2))
}

/// What the steps mean.
fn advise(
    search: &Search,
    steps: Vec<Step>,
    kernel: Step,
    rtt_us: u64,
    capped: Option<u64>,
) -> Advice {
    let bandwidth = steps.iter().map(|step| step.rate).fold(kernel.rate, f64::max);
    let enough = |step: &&Step| step.rate >= SAME * bandwidth;
    let plateau = steps.iter().find(enough).map(|step| step.asked);
    let computed = (2.0 * bandwidth * rtt_us as f64 / 1e6) as u64;
    let hiccup = search.hiccup.map(|(rate, span)| (rate * span.as_secs_f64()) as u64);
    let last = steps.last().map_or(0, |step| step.asked);
    let twice = plateau.map_or(computed.max(last.saturating_mul(2)), |size| size.saturating_mul(2));
    let wanted = twice.max(hiccup.unwrap_or(0));
    Advice {
        exact: search.exact,
        bandwidth,
        rtt_us,
        plateau,
        computed,
        hiccup,
        recommended: wanted.div_ceil(GRAIN).max(1).saturating_mul(GRAIN).min(MOST),
        beyond: (wanted > MOST).then_some(wanted),
        capped,
        scaling: steps.iter().all(|step| step.window_scale.is_some()),
        steps,
        kernel: Some(kernel),
    }
}

/// The runs of one search.
struct Runs<'a, 'w> {
    place: &'a Place,
    search: &'a Search,
    waking: Waking,
    stage: &'a Stage<'w>,
}

impl Runs<'_, '_> {
    /// One run with this buffer or window, 0 for none; no time for a meeting alone. `next` is what the standby is to
    /// ask for in the one after it.
    fn run(
        &self,
        asked: u64,
        time: Option<Duration>,
        next: Option<u64>,
    ) -> Result<Outcome, LabError> {
        let Search { exact, flush, streams, .. } = *self.search;
        let some = (asked > 0).then_some(asked);
        let mut place = self.place.clone();
        if !exact {
            (place.ask.send, place.ask.receive) = (some, some);
        }
        let job = Job {
            mode: Mode::Async,
            // A window is kept by whole flushes: eight of them make it fine enough.
            flush: if exact && asked > 0 { flush.min((asked / 8).max(1024)) } else { flush },
            time,
            flushes: if time.is_none() { Some(0) } else { None },
            target: None,
            disk: None,
            compress: None,
            window: some.filter(|_| exact),
            streams,
            standbys: 1,
        };
        let again = next.map(|buffer| Again { buffer: if exact { 0 } else { buffer } });
        let mut outcome = run_once(&place, &job, self.waking, self.stage, again)?;
        match outcome.failure.take() {
            Some(why) => Err(why),
            None if outcome.interrupted => Err(LabError::Interrupted),
            None => Ok(outcome),
        }
    }
}

/// Whether both ends of a connection scale windows; between them there may be a relay.
fn scales(wire: &Wire) -> bool {
    wire.figures.window_scale.is_some() && wire.report.is_none_or(|told| told.scaling)
}

/// What one run says.
fn step(asked: u64, outcome: &Outcome) -> Step {
    let wires = &outcome.wires;
    let first = wires.first();
    let share = |part: fn(&helio_link::Figures) -> Duration| {
        let sum = |of: fn(&helio_link::Figures) -> Duration| -> f64 {
            wires.iter().map(|wire| of(&wire.figures).as_secs_f64()).sum()
        };
        let busy = sum(|figures| figures.busy);
        if busy > 0.0 { sum(part) / busy } else { 0.0 }
    };
    let rtt = wires.iter().map(|wire| crate::series::micros(wire.figures.round_trip_min)).min();
    Step {
        asked,
        here: first.map_or_else(Default::default, |wire| wire.here),
        there: first.and_then(|wire| wire.there).unwrap_or_default(),
        rate: outcome.arrived().unwrap_or_else(|| outcome.rate()),
        rtt_us: rtt.unwrap_or(0),
        resent: [
            wires.iter().map(|wire| wire.figures.retransmits).sum(),
            wires.iter().map(|wire| wire.figures.segments).sum(),
        ],
        window_scale: first
            .filter(|_| wires.iter().all(scales))
            .and_then(|wire| wire.figures.window_scale),
        window_limited: share(|figures| figures.window_limited),
        buffer_limited: share(|figures| figures.buffer_limited),
    }
}

/// Serves a primary's runs, one or, in a search, many. `each` hears what came of every one.
///
/// # Errors
/// The primary does not answer, or one run breaks off.
pub fn follow(
    place: &Place,
    duty: &Duty,
    waking: Waking,
    stage: &Stage<'_>,
    each: &mut dyn FnMut(&Outcome),
) -> Result<(), LabError> {
    let mut place = place.clone();
    let own = place.ask.clone();
    loop {
        let mut outcome = run_standby(&place, duty, waking, stage)?;
        each(&outcome);
        if let Some(why) = outcome.failure.take() {
            return Err(why);
        }
        let Some(Again { buffer }) = outcome.again.filter(|_| !outcome.interrupted) else {
            return Ok(());
        };
        let some = (buffer > 0).then_some(buffer);
        (place.ask.send, place.ask.receive) = (some.or(own.send), some.or(own.receive));
    }
}

impl Advice {
    /// The part of a configuration file that asks for the recommended buffers.
    #[must_use]
    pub fn config(&self, group: &str) -> String {
        let size = helio_units::Bytes(self.recommended).0 >> 10;
        let level = match self.plateau {
            Some(size) => format!("{} KiB are sufficient", size >> 10),
            None => "which no tested size reached".to_owned(),
        };
        format!(
            "# By `helio lab search`: {:.2} Mbit/s over a round trip of {:.3} ms, {level}.\n\
             [group.{group}.link]\nsend-buffer = \"{size}KiB\"\nreceive-buffer = \"{size}KiB\"\n",
            self.bandwidth * 8.0 / 1e6,
            self.rtt_us as f64 / 1e3,
        )
    }

    /// A file for sysctl.d that lets sockets ask for them; never less than the limits `now` are: receive and send.
    #[must_use]
    pub fn sysctl(&self, now: [u64; 2]) -> String {
        let [receive, send] = now.map(|limit| limit.max(self.recommended));
        format!(
            "{SYSCTL_HEAD}\nnet.core.rmem_max = {receive}\nnet.core.wmem_max = {send}\n\
             net.ipv4.tcp_window_scaling = 1\n"
        )
    }
}

/// By which a file of ours is known.
pub const SYSCTL_HEAD: &str = "# Written by `helio lab search`, which replaces it: the maximum size of socket \
                               buffers.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Report;

    /// IBM's table: Portland to San Francisco, 0.032 s.
    const PORTLAND: [(u64, f64); 5] = [
        (64, 1_554_048.0),
        (128, 3_347_476.0),
        (256, 4_734_673.0),
        (512, 4_834_047.0),
        (1024, 4_821_998.0),
    ];

    fn one(kib: u64, rate: f64) -> Step {
        let granted = Granted { asked: kib << 10, actual: kib << 11 };
        Step {
            asked: kib << 10,
            here: [granted; 2],
            there: [granted; 2],
            rate,
            rtt_us: 32_000,
            resent: [0, 1],
            window_scale: Some([7, 7]),
            window_limited: 0.0,
            buffer_limited: 0.0,
        }
    }

    fn how(hiccup: Option<(f64, Duration)>) -> Search {
        let time = Duration::from_secs(60);
        Search { from: GRAIN, most: 1 << 20, time, flush: GRAIN, streams: 1, exact: false, hiccup }
    }

    #[test]
    fn the_sources_own_table_leads_to_the_sources_own_advice() {
        let steps: Vec<Step> = PORTLAND.into_iter().map(|(kib, rate)| one(kib, rate)).collect();
        let advice = advise(&how(None), steps.clone(), one(0, 1e6), 32_000, None);
        assert_eq!(advice.plateau, Some(256 << 10), "levelling off from 256 KB");
        assert_eq!(advice.recommended, 512 << 10, "512 KB is recommended");
        // Twice the source's 153 KB, which is once bandwidth x delay.
        assert_eq!(advice.computed, 309_379);
        let text = advice.config("db");
        assert!(text.contains("[group.db.link]") && text.contains("\"512KiB\""), "{text}");
        // 30 MB to buffer 10 seconds of 3 MB/s.
        let roomy = how(Some((3e6, Duration::from_secs(10))));
        let advice = advise(&roomy, steps, one(0, 1e6), 32_000, None);
        assert_eq!(advice.hiccup, Some(30_000_000));
        assert_eq!(advice.recommended, 30_015_488, "rounded up to whole 64 KiB");
        assert_eq!(advice.beyond, None);
    }

    #[test]
    fn no_more_is_recommended_than_a_socket_can_have() {
        let of = |rate| {
            let roomy = how(Some((rate, Duration::from_secs(10))));
            advise(&roomy, vec![one(256, 1e6)], one(0, 1e6), 1000, None)
        };
        let most = (1 << 30) - (64 << 10);
        let just = of(most as f64 / 10.0);
        assert_eq!((just.recommended, just.beyond), (most, None));
        let advice = of(1e9);
        assert_eq!((advice.recommended, advice.beyond), (most, Some(10_000_000_000)));
        assert!(advice.config("db").contains("\"1048512KiB\""), "below 1 GiB");
        let text = crate::show::advice(&advice);
        assert!(text.contains("no socket can have"), "{text}");
        assert_eq!(of(1e300).recommended, most);
    }

    #[test]
    fn where_the_kernel_alone_is_fast_no_size_is_called_level() {
        let steps: Vec<Step> = PORTLAND.into_iter().map(|(kib, rate)| one(kib, rate)).collect();
        let advice = advise(&how(None), steps.clone(), one(0, 10e6), 32_000, None);
        assert_eq!((advice.plateau, advice.bandwidth), (None, 10e6));
        assert_eq!(advice.computed, 640_000);
        assert_eq!(advice.recommended, 2 << 20, "twice the last is more than the computed size");
        assert!(advice.config("db").contains("no tested size"), "{}", advice.config("db"));
        let text = crate::show::advice(&advice);
        assert!(text.contains("no tested size reached 95 % of the best"), "{text}");
        let advice = advise(&how(None), steps, one(0, 100e6), 32_000, None);
        assert_eq!(advice.recommended, 6_422_528, "6.4 MB, rounded up to whole 64 KiB");
    }

    #[test]
    fn limits_are_raised_and_never_lowered() {
        let advice = advise(&how(None), vec![one(256, 1e6)], one(0, 1e6), 1000, None);
        let text = advice.sysctl([4_194_304, 212_992]);
        assert!(
            text.contains("rmem_max = 4194304") && text.contains("wmem_max = 524288"),
            "{text}"
        );
    }

    #[test]
    fn windows_are_scaled_where_both_ends_say_so() {
        let wire = |window_scale, scaling| Wire {
            standby: 0,
            peer: ([192, 0, 2, 1], 4000).into(),
            here: Default::default(),
            there: None,
            figures: helio_link::Figures { window_scale, ..Default::default() },
            report: Some(Report { scaling, ..Report::default() }.into()),
        };
        let shifts = Some([7, 7]);
        assert!(
            scales(&wire(shifts, true)) && scales(&Wire { report: None, ..wire(shifts, true) })
        );
        assert!(!scales(&wire(shifts, false)) && !scales(&wire(None, true)));
    }

    #[test]
    fn a_buffer_that_was_not_granted_is_noticed() {
        assert!(!cut(&one(64, 1.0)));
        let mut step = one(8192, 1.0);
        step.there[1].actual = 8 << 20;
        assert!(cut(&step), "8 MiB asked, twice that expected, 8 MiB granted");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What a workload comes to: totals, rates over time, peaks, sizes, transactions, overwriting.
//!
//! It asks what IBM's `db2logscan` asks of a log, of a volume. "Written" is by writes alone; zeros and discards are
//! counted, and are no bytes on a link.

use crate::{Distribution, Kind, Request, Workload};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use helio_units::{Bytes, Extent, Items, Moment};

/// The windows in which peaks and overwriting are looked for, beside the whole.
pub const WINDOWS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)];
/// Steps over time where nothing else is said: about so many lines.
const LINES: u32 = 20;
/// The lengths that steps have by themselves, in seconds.
const STEPS: [u64; 17] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400];
/// The most steps a caller may ask for.
pub const MOST_STEPS: u64 = 100_000;

/// How many, and how much together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub requests: Items,
    /// Their bytes.
    pub bytes: Bytes,
}

impl Tally {
    fn add(&mut self, request: &Request) {
        self.requests.0 += 1;
        self.bytes.0 = self.bytes.0.saturating_add(request.extent.length);
    }
}

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfKind {
    /// Which.
    pub kind: Kind,
    /// All of them.
    pub tally: Tally,
    /// Those with FUA.
    pub fua: Items,
}

/// A step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// When it begins.
    pub from: Duration,
    /// How long it is; the last one may be shorter.
    pub length: Duration,
    /// Reads.
    pub reads: Tally,
    /// Writes.
    pub writes: Tally,
    /// Flushes.
    pub flushes: Items,
}

/// The most that was written within a window, wherever it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// How long the window is.
    pub window: Duration,
    /// The most bytes, and when that window begins.
    pub bytes: (Bytes, Duration),
    /// The most writes, and when that window begins.
    pub writes: (Items, Duration),
}

/// Writes between one flush, or write with FUA, of a volume and the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transactions {
    /// Bytes of each.
    pub bytes: Distribution,
    /// Writes of each.
    pub writes: Distribution,
}

/// How much of what was written was written again in the same window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwriting {
    /// How long each window is; they follow each other.
    pub window: Duration,
    /// All that was written.
    pub written: Bytes,
    /// What is left where every byte counts once in a window.
    pub distinct: Bytes,
    /// The most regions of a mark map that one window touches, in bytes.
    pub marked: Bytes,
}

impl Overwriting {
    /// The share of what was written that was written again within its window; 0 where nothing was written.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.written.0 == 0 {
            return 0.0;
        }
        1.0 - self.distinct.0 as f64 / self.written.0 as f64
    }
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How long the workload lasts.
    pub span: Duration,
    /// Kind by kind, those that there are.
    pub kinds: Vec<OfKind>,
    /// Over time.
    pub steps: Vec<Step>,
    /// The most that was written in [`WINDOWS`], those that are shorter than the whole, and in the whole.
    pub peaks: Vec<Peak>,
    /// Bytes of each read.
    pub read_sizes: Distribution,
    /// Bytes of each write.
    pub write_sizes: Distribution,
    /// Where there are flushes or writes with FUA.
    pub transactions: Option<Transactions>,
    /// In [`WINDOWS`], those that are shorter than the whole, and in the whole.
    pub overwriting: Vec<Overwriting>,
}

/// The size of the regions that [`Overwriting::marked`] counts: that of a mark map where nothing else is said.
pub const REGION: Bytes = Bytes::kib(64);

impl Summary {
    /// What a workload comes to, in steps of `every`, or of a round length where nothing is said. A length that would
    /// give more than [`MOST_STEPS`] is made longer.
    #[must_use]
    pub fn of(workload: &Workload, every: Option<Duration>) -> Self {
        let span = workload.span();
        let requests = workload.requests();
        let shorter = WINDOWS.into_iter().filter(|length| *length < span);
        let windows = || shorter.clone().map(Window::Every).chain([Window::Whole(span)]);
        let (mut read_sizes, mut write_sizes) = <(Distribution, Distribution)>::default();
        for request in requests {
            match request.kind {
                Kind::Read => read_sizes.add(request.extent.length),
                Kind::Write => write_sizes.add(request.extent.length),
                Kind::Zero | Kind::Discard | Kind::Flush => {}
            }
        }
        let writes: Vec<Request> =
            requests.iter().filter(|r| r.kind == Kind::Write).copied().collect();
        Self {
            span,
            kinds: kinds(requests),
            steps: steps(requests, span, every),
            peaks: windows().map(|window| peak(&writes, window)).collect(),
            read_sizes,
            write_sizes,
            transactions: transactions(workload),
            overwriting: windows().map(|window| overwriting(&writes, window)).collect(),
        }
    }
}

/// Where requests are looked at together.
#[derive(Clone, Copy)]
enum Window {
    /// Less than that apart.
    Every(Duration),
    /// All of them.
    Whole(Duration),
}

impl Window {
    fn length(self) -> Duration {
        match self {
            Self::Every(length) | Self::Whole(length) => length,
        }
    }

    /// Whether a window that begins at `from` holds what is at `at`.
    fn holds(self, from: Duration, at: Duration) -> bool {
        match self {
            Self::Every(length) => at - from < length,
            Self::Whole(_) => true,
        }
    }

    /// Which of the windows that follow each other from the start holds what is at `at`.
    fn number(self, at: Duration) -> u128 {
        match self {
            Self::Every(length) => at.as_nanos() / length.as_nanos(),
            Self::Whole(_) => 0,
        }
    }
}

fn since_start(request: &Request) -> Duration {
    request.at - Moment::ZERO
}

fn kinds(requests: &[Request]) -> Vec<OfKind> {
    let of = |kind| OfKind { kind, tally: Tally::default(), fua: Items(0) };
    let mut all = Kind::ALL.map(of);
    for request in requests {
        let of_kind = &mut all[request.kind as usize];
        of_kind.tally.add(request);
        of_kind.fua.0 += u64::from(request.fua);
    }
    all.into_iter().filter(|of| of.tally.requests.0 > 0).collect()
}

/// The length of steps over time.
fn step_length(span: Duration, every: Option<Duration>) -> Duration {
    let least =
        Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX) / MOST_STEPS);
    let round = || {
        let rough = span / LINES;
        let steps = STEPS.map(Duration::from_secs);
        steps.into_iter().find(|step| *step >= rough).unwrap_or(rough)
    };
    every.unwrap_or_else(round).max(least).max(Duration::from_nanos(1))
}

fn steps(requests: &[Request], span: Duration, every: Option<Duration>) -> Vec<Step> {
    let length = step_length(span, every);
    // What lies on the very end belongs to the last step.
    let count = span.as_nanos().div_ceil(length.as_nanos()).max(1) as usize;
    let mut all = vec![Step { length, ..Step::default() }; count];
    let mut from = Duration::ZERO;
    for step in &mut all {
        step.from = from;
        step.length = length.min(span - from);
        from += length;
    }
    for request in requests {
        let at = (since_start(request).as_nanos() / length.as_nanos()) as usize;
        let step = &mut all[at.min(count - 1)];
        match request.kind {
            Kind::Read => step.reads.add(request),
            Kind::Write => step.writes.add(request),
            Kind::Flush => step.flushes.0 += 1,
            Kind::Zero | Kind::Discard => {}
        }
    }
    all
}

/// Windows that begin with a write are enough: any other can be moved to the next write without losing one.
fn peak(writes: &[Request], window: Window) -> Peak {
    let mut peak = Peak {
        window: window.length(),
        bytes: (Bytes::ZERO, Duration::ZERO),
        writes: (Items(0), Duration::ZERO),
    };
    let (mut end, mut bytes) = (0, 0u64);
    for (begin, first) in writes.iter().enumerate() {
        let from = since_start(first);
        while let Some(next) = writes.get(end).filter(|w| window.holds(from, since_start(w))) {
            bytes = bytes.saturating_add(next.extent.length);
            end += 1;
        }
        if bytes > peak.bytes.0.0 {
            peak.bytes = (Bytes(bytes), from);
        }
        let count = (end - begin) as u64;
        if count > peak.writes.0.0 {
            peak.writes = (Items(count), from);
        }
        bytes = bytes.saturating_sub(first.extent.length);
    }
    peak
}

fn transactions(workload: &Workload) -> Option<Transactions> {
    let mut open = vec![Tally::default(); workload.volumes().len()];
    let mut found = Transactions::default();
    let mut boundaries = false;
    for request in workload.requests() {
        let open = &mut open[usize::from(request.volume.0)];
        if request.kind == Kind::Write {
            open.add(request);
        }
        if request.kind != Kind::Flush && !request.fua {
            continue;
        }
        boundaries = true;
        let done = core::mem::take(open);
        // A flush behind nothing ends no transaction.
        if done.requests.0 > 0 {
            found.bytes.add(done.bytes.0);
            found.writes.add(done.requests.0);
        }
    }
    boundaries.then_some(found)
}

fn overwriting(writes: &[Request], window: Window) -> Overwriting {
    let (written, distinct, marked) = (Bytes::ZERO, Bytes::ZERO, Bytes::ZERO);
    let mut all = Overwriting { window: window.length(), written, distinct, marked };
    let number = |request: &Request| window.number(since_start(request));
    let mut extents: Vec<(u16, Extent)> = Vec::new();
    for same in writes.chunk_by(|a, b| number(a) == number(b)) {
        extents.clear();
        extents.extend(same.iter().map(|write| (write.volume.0, write.extent)));
        extents.sort_unstable_by_key(|(volume, extent)| (*volume, extent.offset));
        let written = same.iter().fold(0u64, |sum, w| sum.saturating_add(w.extent.length));
        all.written.0 = all.written.0.saturating_add(written);
        all.distinct.0 = all.distinct.0.saturating_add(covered(&extents, 1));
        all.marked.0 = all.marked.0.max(covered(&extents, REGION.0));
    }
    all
}

/// The bytes of a union of extents, sorted by volume and offset, each made as large as regions of that size.
fn covered(extents: &[(u16, Extent)], region: u64) -> u64 {
    let (mut sum, mut volume, mut reach) = (0u64, None, 0);
    for (on, extent) in extents {
        if volume != Some(*on) {
            (volume, reach) = (Some(*on), 0);
        }
        let from = (extent.offset / region * region).max(reach);
        let end = extent.end().div_ceil(region).saturating_mul(region);
        sum = sum.saturating_add(end.saturating_sub(from));
        reach = reach.max(end);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Volume;
    use helio_units::VolumeIndex;

    const SECOND: u64 = 1_000_000_000;

    fn write(at: u64, offset: u64, length: u64) -> Request {
        let extent = Extent::new(offset, length);
        Request { at: Moment(at), extent, volume: VolumeIndex(0), kind: Kind::Write, fua: false }
    }

    fn flush(at: u64) -> Request {
        Request { kind: Kind::Flush, ..write(at, 0, 0) }
    }

    fn summary(requests: Vec<Request>, seconds: u64) -> Summary {
        let volumes = vec![Volume { name: "data".into(), size: Bytes::gib(1) }];
        let workload = Workload::new(volumes, requests, Duration::from_secs(seconds));
        Summary::of(&workload.expect("it is sound"), None)
    }

    #[test]
    fn totals_and_steps_add_up() {
        let every_half_second = (0..80).map(|n| write(n * SECOND / 2, n * 4096, 4096)).collect();
        let told = summary(every_half_second, 40);
        assert_eq!(told.kinds.len(), 1);
        assert_eq!(told.kinds[0].tally, Tally { requests: Items(80), bytes: Bytes(80 * 4096) });
        assert_eq!(told.steps.len(), 20);
        assert!(told.steps.iter().all(|step| step.writes.requests == Items(4)));
        assert_eq!(told.steps[19].from, Duration::from_secs(38));
    }

    #[test]
    fn a_peak_is_found_wherever_its_window_begins() {
        let mut requests: Vec<Request> = (0..30).map(|n| write(n * SECOND, 0, 512)).collect();
        // Two seconds share these ten, and each of them has five.
        requests
            .extend((0..10).map(|n| write(10 * SECOND + SECOND / 2 + n * SECOND / 10, 0, 4096)));
        requests.sort_by_key(|request| request.at);
        let told = summary(requests, 60);
        let second = told.peaks[0];
        assert_eq!(second.window, Duration::from_secs(1));
        assert_eq!(second.bytes, (Bytes(10 * 4096 + 512), Duration::from_millis(10_500)));
        assert_eq!(second.writes.0, Items(11));
        let whole = told.peaks[told.peaks.len() - 1];
        assert_eq!((whole.window.as_secs(), whole.writes.0), (60, Items(40)));
    }

    #[test]
    fn transactions_end_with_a_flush_or_a_write_that_is_durable() {
        let durable = Request { fua: true, ..write(4, 0, 512) };
        let told = summary(
            vec![
                write(1, 0, 4096),
                write(2, 0, 4096),
                flush(3),
                durable,
                flush(5),
                write(6, 0, 512),
            ],
            1,
        );
        let transactions = told.transactions.expect("there are boundaries");
        assert_eq!((transactions.bytes.count(), transactions.bytes.max()), (2, 8192));
        assert_eq!((transactions.writes.min(), transactions.writes.max()), (1, 2));
        assert_eq!(summary(vec![write(1, 0, 512)], 1).transactions, None);
    }

    #[test]
    fn overwriting_counts_every_byte_once_in_its_window() {
        // The same 8 KiB in every second, and half of it twice.
        let requests: Vec<Request> = (0..20u64)
            .flat_map(|n| [write(n * SECOND, 0, 8192), write(n * SECOND + 1, 4096, 4096)])
            .collect();
        let told = summary(requests, 20);
        let of = |at: usize| (told.overwriting[at].distinct.0 >> 10, told.overwriting[at].marked);
        assert_eq!(told.overwriting.len(), 3);
        assert_eq!(told.overwriting[0].written, Bytes::kib(240));
        assert_eq!([of(0), of(1), of(2)], [(160, REGION), (16, REGION), (8, REGION)]);
        assert!((told.overwriting[0].share() - 1.0 / 3.0).abs() < 1e-9);
        let apart = summary(vec![write(0, 65_000, 1000), write(1, 1 << 20, 512)], 1);
        assert_eq!(apart.overwriting[0].marked, Bytes(3 * REGION.0));
    }

    #[test]
    fn a_workload_of_one_moment_or_none_has_a_summary() {
        let told = summary(vec![write(0, 0, 512), write(0, 0, 512)], 0);
        assert_eq!(told.peaks.len(), 1);
        assert_eq!((told.peaks[0].writes.0, told.steps.len()), (Items(2), 1));
        let nothing = summary(vec![], 5);
        assert!(nothing.kinds.is_empty());
        assert!(nothing.overwriting[0].share().abs() < 1e-9);
    }
}

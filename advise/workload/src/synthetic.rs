// SPDX-License-Identifier: Apache-2.0
//! Workloads drawn from a description and a seed, for whoever plans before there is anything to record.

use crate::{Kind, Request, Volume, Workload, WorkloadError};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use helio_netmodel::{Dice, Ppm};
use helio_units::{Bytes, Extent, Items, Moment, SECTOR, VolumeIndex};

/// The alignment that requests get where their size allows it: a page of memory, and of most file systems and databases.
const PAGE: u64 = 4096;

/// Requests per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestRate(pub u64);

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

/// A size that requests have, and how often they have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeShare {
    /// The size, a multiple of a sector.
    pub size: Bytes,
    /// How often, against the sum of all weights.
    pub weight: u32,
}

/// How requests are spread over the time in which there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Each at its own random moment, as those of many clients that know nothing of each other: a Poisson process.
    #[default]
    Random,
    /// With equal gaps, as those of one client with a timer.
    Even,
}

/// Times without requests between times with all of them; the average rate stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// From the beginning of one burst to the beginning of the next.
    pub every: Duration,
    /// How long each lasts, at most `every`.
    pub lasting: Duration,
}

/// A part of the volume that gets more than its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hot {
    /// The share of requests that go there...
    pub requests: Ppm,
    /// ...and the share of the volume, from its beginning, that it is.
    pub volume: Ppm,
}

/// What a drawn workload is like: one volume, reads and writes, and flushes between writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synthetic {
    /// Reads and writes per second, on the average over the whole duration.
    pub rate: RequestRate,
    /// Their sizes.
    pub sizes: Vec<SizeShare>,
    /// The share of reads.
    pub reads: Ppm,
    /// The share of writes that go on where the write before ended, as a log's do.
    pub sequential: Ppm,
    /// The share of writes with FUA.
    pub fua: Ppm,
    /// A flush follows every so many writes; none where it is 0.
    pub flush_every: Items,
    /// How they come.
    pub arrivals: Arrivals,
    /// Whether in bursts.
    pub burst: Option<Burst>,
    /// Whether some places are hotter.
    pub hot: Option<Hot>,
    /// For how long.
    pub duration: Duration,
    /// The size of the volume.
    pub span: Bytes,
    /// What chance is drawn from: the same seed gives the same workload.
    pub seed: u64,
}

/// 4 KiB writes at random places and moments, 1,000 a second for a minute, on 1 GiB.
impl Default for Synthetic {
    fn default() -> Self {
        Self {
            rate: RequestRate(1000),
            sizes: vec![SizeShare { size: Bytes::kib(4), weight: 1 }],
            reads: Ppm::NONE,
            sequential: Ppm::NONE,
            fua: Ppm::NONE,
            flush_every: Items(0),
            arrivals: Arrivals::Random,
            burst: None,
            hot: None,
            duration: Duration::from_secs(60),
            span: Bytes::gib(1),
            seed: 0,
        }
    }
}

/// Why a description is none of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntheticError {
    /// No size has a weight.
    NoSize,
    /// A size that is not a multiple of a sector, or larger than the volume, or than the hot part of it.
    Size(Bytes),
    /// A burst that is empty or longer than its period.
    Burst,
    /// What was drawn breaks a bound of [`Workload`].
    Workload(WorkloadError),
}

impl fmt::Display for SyntheticError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSize => f.write_str("no request has a size; give one, such as 4KiB"),
            Self::Size(size) => {
                write!(
                    f,
                    "requests of {size} do not fit: a multiple of {SECTOR} bytes, within the volume \
                     and its hot part"
                )
            }
            Self::Burst => f.write_str("a burst must last more than zero and at most its period"),
            Self::Workload(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SyntheticError {}

impl Synthetic {
    /// Draws the workload.
    ///
    /// The count of reads and writes is exactly rate times duration; only their moments, kinds, sizes and places are
    /// left to chance, each by dice of its own, so that a change of one leaves the others as they were.
    ///
    /// # Errors
    /// Names what no workload can be drawn from.
    pub fn draw(&self) -> Result<Workload, SyntheticError> {
        self.check()?;
        let dice = Dice::new(self.seed);
        let moments = self.moments(dice.split("moments"))?;
        let mut places = Places::new(self, &dice);
        let (mut kinds, mut fuas) = (dice.split("kinds"), dice.split("fua"));
        let mut requests = Vec::with_capacity(moments.len());
        let mut writes = 0;
        for at in moments {
            let read = roll(&mut kinds, self.reads);
            let fua = roll(&mut fuas, self.fua) && !read;
            let kind = if read { Kind::Read } else { Kind::Write };
            let request =
                Request { at, extent: places.next(kind), volume: VolumeIndex(0), kind, fua };
            requests.push(request);
            writes += u64::from(!read);
            if !read && self.flush_every.0 > 0 && writes.is_multiple_of(self.flush_every.0) {
                let extent = Extent::default();
                requests.push(Request { kind: Kind::Flush, extent, fua: false, ..request });
            }
        }
        let volumes = vec![Volume { name: String::from("synthetic"), size: self.span }];
        Workload::new(volumes, requests, self.duration).map_err(SyntheticError::Workload)
    }

    fn check(&self) -> Result<(), SyntheticError> {
        if self.sizes.iter().all(|share| share.weight == 0) {
            return Err(SyntheticError::NoSize);
        }
        let within = self.hot_span().unwrap_or(self.span);
        let fits = |size: Bytes| size.0 > 0 && size.0.is_multiple_of(SECTOR) && size <= within;
        if let Some(share) = self.sizes.iter().find(|share| !fits(share.size)) {
            return Err(SyntheticError::Size(share.size));
        }
        match self.burst {
            Some(Burst { every, lasting }) if lasting.is_zero() || lasting > every => {
                Err(SyntheticError::Burst)
            }
            _ => Ok(()),
        }
    }

    /// The size of the hot part.
    fn hot_span(&self) -> Option<Bytes> {
        self.hot.map(|hot| share_of(self.span.0, hot.volume)).map(Bytes)
    }

    /// The moments of reads and writes, in order.
    fn moments(&self, mut dice: Dice) -> Result<Vec<Moment>, SyntheticError> {
        if self.duration > Workload::LONGEST {
            return Err(SyntheticError::Workload(WorkloadError::TooLong));
        }
        let nanos = self.duration.as_nanos();
        let count = u128::from(self.rate.0) * nanos / 1_000_000_000;
        if count > u128::from(Workload::MOST_REQUESTS.0) {
            return Err(SyntheticError::Workload(WorkloadError::TooManyRequests));
        }
        // Fits: it is at most a year.
        let active = self.active(nanos as u64);
        let mut moments: Vec<u64> = match self.arrivals {
            // Given their count, the moments of a Poisson process are independent and uniform.
            Arrivals::Random => (0..count).map(|_| dice.below(active)).collect(),
            Arrivals::Even => (0..count).map(|n| (n * u128::from(active) / count) as u64).collect(),
        };
        moments.sort_unstable();
        Ok(moments.into_iter().map(|at| Moment(self.in_bursts(at))).collect())
    }

    /// How many of the duration's nanoseconds lie in bursts; all of them where there are none.
    fn active(&self, nanos: u64) -> u64 {
        let Some((every, lasting)) = self.burst_nanos() else { return nanos };
        nanos / every * lasting + (nanos % every).min(lasting)
    }

    /// Where a nanosecond of the active time lies in the whole.
    fn in_bursts(&self, at: u64) -> u64 {
        let Some((every, lasting)) = self.burst_nanos() else { return at };
        at / lasting * every + at % lasting
    }

    fn burst_nanos(&self) -> Option<(u64, u64)> {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.burst.map(|burst| (nanos(burst.every), nanos(burst.lasting)))
    }
}

/// Sizes and places of requests, in turn.
struct Places<'a> {
    of: &'a Synthetic,
    hot: Option<(Ppm, u64)>,
    weights: u64,
    sizes: Dice,
    offsets: Dice,
    sequences: Dice,
    /// Where the write before ended.
    end: u64,
}

impl<'a> Places<'a> {
    fn new(of: &'a Synthetic, dice: &Dice) -> Self {
        Self {
            of,
            hot: of.hot.zip(of.hot_span()).map(|(hot, span)| (hot.requests, span.0)),
            weights: of.sizes.iter().map(|share| u64::from(share.weight)).sum(),
            sizes: dice.split("sizes"),
            offsets: dice.split("offsets"),
            sequences: dice.split("sequences"),
            end: 0,
        }
    }

    fn next(&mut self, kind: Kind) -> Extent {
        let length = self.size().0;
        let goes_on = roll(&mut self.sequences, self.of.sequential);
        let (hot, anywhere) = (self.hot, self.of.span.0);
        let within = match hot {
            Some((share, span)) if roll(&mut self.offsets, share) => span,
            _ => anywhere,
        };
        // Aligned to what its size is a multiple of, as file systems and databases do.
        let align = (1 << length.trailing_zeros()).min(PAGE);
        let drawn = self.offsets.below((within - length) / align + 1) * align;
        if kind != Kind::Write {
            return Extent::new(drawn, length);
        }
        let fits = length <= anywhere - self.end;
        let offset = match (goes_on, fits) {
            (false, _) => drawn,
            (true, true) => self.end,
            // A log begins anew at its end.
            (true, false) => 0,
        };
        self.end = offset + length;
        Extent::new(offset, length)
    }

    fn size(&mut self) -> Bytes {
        let mut rolled = self.sizes.below(self.weights);
        for share in &self.of.sizes {
            match rolled.checked_sub(u64::from(share.weight)) {
                Some(rest) => rolled = rest,
                None => return share.size,
            }
        }
        unreachable!("a roll below the sum of all weights ends at one of them")
    }
}

fn roll(dice: &mut Dice, share: Ppm) -> bool {
    share > Ppm::NONE && dice.chance(share.0.into(), Ppm::ALL.0.into())
}

fn share_of(whole: u64, share: Ppm) -> u64 {
    let part = u128::from(whole) * u128::from(share.0) / u128::from(Ppm::ALL.0);
    // At most the whole, for a share of at most all.
    u64::try_from(part).unwrap_or(u64::MAX).min(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(n: u32) -> Ppm {
        Ppm(n * 10_000)
    }

    #[test]
    fn a_seed_gives_the_same_workload_and_another_seed_another() {
        let drawn = |seed| Synthetic { seed, ..Synthetic::default() }.draw().expect("it is sound");
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn rate_times_duration_is_the_count_and_shares_are_kept() {
        let synthetic = Synthetic {
            rate: RequestRate(2000),
            sizes: vec![
                SizeShare { size: Bytes::kib(4), weight: 3 },
                SizeShare { size: Bytes::kib(64), weight: 1 },
            ],
            reads: percent(30),
            fua: percent(10),
            flush_every: Items(100),
            duration: Duration::from_secs(10),
            ..Synthetic::default()
        };
        for seed in 0..10 {
            let drawn = Synthetic { seed, ..synthetic.clone() }.draw().expect("it is sound");
            let count = |wanted: &dyn Fn(&Request) -> bool| {
                drawn.requests().iter().filter(|r| wanted(r)).count()
            };
            let (reads, writes) = (count(&|r| r.kind == Kind::Read), count(&|r| r.kind.changes()));
            assert_eq!(reads + writes, 20_000, "seed {seed}");
            assert_eq!(count(&|r| r.kind == Kind::Flush), writes / 100, "seed {seed}");
            // Five standard deviations of each binomial.
            assert!(reads.abs_diff(6000) < 325, "seed {seed}: {reads}");
            let large = count(&|r| r.extent.length == 64 << 10);
            assert!(large.abs_diff(5000) < 307, "seed {seed}: {large}");
            let fua = count(&|r| r.fua);
            assert!(fua.abs_diff(1400) < 195, "seed {seed}: {fua}");
        }
    }

    #[test]
    fn bursts_leave_the_average_and_hold_every_request() {
        let burst = Burst { every: Duration::from_secs(10), lasting: Duration::from_secs(2) };
        for arrivals in [Arrivals::Random, Arrivals::Even] {
            let burst = Some(burst);
            let drawn = Synthetic { burst, arrivals, ..Synthetic::default() }.draw().expect("fine");
            assert_eq!(drawn.requests().len(), 60_000);
            assert!(drawn.requests().iter().all(|r| r.at.0 % 10_000_000_000 < 2_000_000_000));
        }
    }

    #[test]
    fn even_arrivals_have_equal_gaps() {
        let even = Synthetic { arrivals: Arrivals::Even, ..Synthetic::default() };
        let drawn = even.draw().expect("fine");
        assert!(drawn.requests().windows(2).all(|two| two[1].at.0 - two[0].at.0 == 1_000_000));
    }

    #[test]
    fn a_hot_part_and_a_sequence_get_their_share() {
        let hot = Hot { requests: percent(90), volume: percent(10) };
        let drawn = Synthetic { hot: Some(hot), ..Synthetic::default() }.draw().expect("fine");
        let inside = drawn.requests().iter().filter(|r| r.extent.end() <= 107_374_182).count();
        // 90 % go there on purpose, and a tenth of the rest by chance.
        assert!(inside.abs_diff(54_600) < 400, "{inside}");
        let log = Synthetic { sequential: Ppm::ALL, span: Bytes::mib(1), ..Synthetic::default() };
        let drawn = log.draw().expect("fine");
        let follows = |two: &[Request]| two[1].extent.offset == two[0].extent.end() % (1 << 20);
        assert!(drawn.requests().windows(2).all(follows));
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let one = |size| vec![SizeShare { size, weight: 1 }];
        let base = Synthetic::default;
        let refused = |synthetic: Synthetic| synthetic.draw().expect_err("it is unsound");
        assert_eq!(refused(Synthetic { sizes: vec![], ..base() }), SyntheticError::NoSize);
        for size in [Bytes(0), Bytes(513), Bytes::gib(2)] {
            let refusal = refused(Synthetic { sizes: one(size), ..base() });
            assert_eq!(refusal, SyntheticError::Size(size));
        }
        let burst = Some(Burst { every: Duration::from_secs(1), lasting: Duration::from_secs(2) });
        assert_eq!(refused(Synthetic { burst, ..base() }), SyntheticError::Burst);
        let rate = RequestRate(u64::MAX);
        let too_many = SyntheticError::Workload(WorkloadError::TooManyRequests);
        assert_eq!(refused(Synthetic { rate, ..base() }), too_many);
    }
}

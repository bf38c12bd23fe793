// SPDX-License-Identifier: Apache-2.0
//! Disks and synthetic workloads as people write them: `key=value`, with commas between.

use crate::setting::disk_called;
use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;
use helio_netmodel::Ppm;
use helio_twin::{DiskModel, ServiceTime};
use helio_units::{Bytes, Items, parse_bytes, parse_duration, parse_rate};
use helio_workload::{Arrivals, Burst, Hot, RequestRate, SizeShare, Synthetic};

/// A field that says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairsError {
    field: String,
    why: String,
}

impl fmt::Display for PairsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.why)
    }
}

impl core::error::Error for PairsError {}

/// One `key=value`.
struct Field<'a> {
    whole: &'a str,
    key: &'a str,
    value: &'a str,
}

impl<'a> Field<'a> {
    fn all(text: &'a str) -> impl Iterator<Item = Self> {
        text.split(',').map(|whole| {
            let (key, value) = whole.split_once('=').unwrap_or((whole, ""));
            Self { whole, key, value }
        })
    }

    fn wrong(&self, why: impl fmt::Display) -> PairsError {
        PairsError { field: self.whole.to_owned(), why: why.to_string() }
    }

    fn time(&self, text: &str) -> Result<Duration, PairsError> {
        parse_duration(text).map_err(|error| self.wrong(error))
    }

    fn size(&self, text: &str) -> Result<Bytes, PairsError> {
        parse_bytes(text).map_err(|error| self.wrong(error))
    }

    fn share(&self, text: &str) -> Result<Ppm, PairsError> {
        text.parse().map_err(|error: helio_netmodel::NoShare| self.wrong(error))
    }

    fn number(&self, text: &str) -> Result<u64, PairsError> {
        text.parse().map_err(|_| self.wrong("is not a whole number"))
    }

    /// `MEDIAN..P99`, or one time for all.
    fn service(&self) -> Result<ServiceTime, PairsError> {
        let (median, p99) = self.value.split_once("..").unwrap_or((self.value, self.value));
        let time = ServiceTime { median: self.time(median)?, p99: self.time(p99)? };
        if time.p99 < time.median {
            return Err(self.wrong("the 99th percentile is less than the median"));
        }
        if time.p99 > Duration::from_secs(60) {
            return Err(self.wrong("longer than a minute; check the unit"));
        }
        Ok(time)
    }
}

/// Reads a disk: a name, or fields that change it, as `ssd,flush=2ms..9ms`. Where no name comes first, it is `ssd`.
///
/// # Errors
/// Names the field that says nothing.
pub fn disk(text: &str) -> Result<DiskModel, PairsError> {
    let Some(mut disk) = disk_called("ssd") else { unreachable!("the default has a name") };
    for field in Field::all(text) {
        match field.key {
            "read" => disk.read = field.service()?,
            "write" => disk.write = field.service()?,
            "flush" => disk.flush = field.service()?,
            "lanes" => {
                let lanes =
                    u32::try_from(field.number(field.value)?).ok().and_then(NonZeroU32::new);
                let few = lanes.filter(|lanes| lanes.get() <= 4096);
                disk.lanes = few.ok_or_else(|| field.wrong("from 1 to 4096"))?;
            }
            "rate" => {
                let rate = parse_rate(field.value).map_err(|error| field.wrong(error))?;
                disk.bandwidth = Some(rate).filter(|rate| rate.0 > 0);
                disk.bandwidth.ok_or_else(|| field.wrong("a disk that moves nothing"))?;
            }
            name => {
                disk = disk_called(name).ok_or_else(|| {
                    field.wrong(
                        "nvme, ssd or hdd, or read=, write= or flush=MEDIAN..P99, lanes= or rate=",
                    )
                })?;
            }
        }
    }
    Ok(disk)
}

/// Reads a synthetic workload: `rate=2000,size=4KiB,for=1h`.
///
/// # Errors
/// Names the field that says nothing.
pub fn synthetic(text: &str) -> Result<Synthetic, PairsError> {
    let mut of = Synthetic::default();
    let mut sizes = Vec::new();
    for field in Field::all(text) {
        let value = field.value;
        match field.key {
            "rate" => {
                of.rate = RequestRate(field.number(value.strip_suffix("/s").unwrap_or(value))?)
            }
            "size" => {
                let (size, weight) = value.split_once('*').unwrap_or((value, "1"));
                let weight = u32::try_from(field.number(weight)?);
                let weight = weight.map_err(|_| field.wrong("too heavy a weight"))?;
                sizes.push(SizeShare { size: field.size(size)?, weight });
            }
            "reads" => of.reads = field.share(value)?,
            "sequential" => of.sequential = field.share(value)?,
            "fua" => of.fua = field.share(value)?,
            "flush-every" => of.flush_every = Items(field.number(value)?),
            "for" => of.duration = field.time(value)?,
            "volume" => of.span = field.size(value)?,
            "seed" => of.seed = field.number(value)?,
            "even" => of.arrivals = Arrivals::Even,
            "burst" => {
                let (lasting, every) = value
                    .split_once('/')
                    .ok_or_else(|| field.wrong("write LASTING/EVERY, for example 2s/10s"))?;
                of.burst = Some(Burst { every: field.time(every)?, lasting: field.time(lasting)? });
            }
            "hot" => {
                let (requests, volume) = value
                    .split_once('/')
                    .ok_or_else(|| field.wrong("write REQUESTS/VOLUME, for example 90%/10%"))?;
                of.hot =
                    Some(Hot { requests: field.share(requests)?, volume: field.share(volume)? });
            }
            _ => {
                return Err(field.wrong(
                    "write rate=, size=SIZE[*WEIGHT], reads=, sequential=, fua=, flush-every=, for=, volume=, \
                     burst=, hot=, seed= or even",
                ));
            }
        }
    }
    if !sizes.is_empty() {
        of.sizes = sizes;
    }
    Ok(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_named_and_changed_field_by_field() {
        let found = disk("hdd,write=1ms..5ms,lanes=4,rate=100MB/s").expect("it is complete");
        assert_eq!((found.write.median.as_millis(), found.write.p99.as_millis()), (1, 5));
        assert_eq!((found.lanes.get(), found.flush.median.as_millis()), (4, 12));
        for wrong in ["floppy", "write=5ms..1ms", "write=1", "lanes=0", "rate=0MB/s", "flush=2h"] {
            let error = disk(wrong).expect_err(wrong).to_string();
            assert!(error.starts_with(wrong), "{error}");
        }
    }

    #[test]
    fn a_workload_is_told_field_by_field() {
        let found = synthetic(
            "rate=2000/s,size=4KiB*3,size=64KiB,reads=30%,for=1h,burst=2s/10s,hot=90%/10%,even",
        );
        let found = found.expect("it is complete");
        assert_eq!((found.rate, found.sizes.len()), (RequestRate(2000), 2));
        assert_eq!(found.burst.map(|burst| burst.every.as_secs()), Some(10));
        for wrong in
            ["rate=fast", "size=4", "reads=2", "burst=2s", "speed=9", "size=4KiB*99999999999"]
        {
            let error = synthetic(wrong).expect_err(wrong).to_string();
            assert!(error.starts_with(wrong), "{error}");
        }
    }
}

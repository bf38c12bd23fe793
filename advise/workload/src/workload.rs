// SPDX-License-Identifier: Apache-2.0
//! A workload whose promises were checked once, so that nobody who reads it checks again.

use crate::{Kind, Request, Volume};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use helio_format::trace::{NAME_BYTES_MAX, VOLUMES_MAX};
use helio_units::{Extent, Items, Moment};

/// What applications asked of volumes over a span of time.
///
/// Requests are in the order of their moments, each lies inside its volume and inside the span, a flush has no extent
/// and everything else has one, and there are no more of either than the bounds say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    volumes: Vec<Volume>,
    requests: Vec<Request>,
    span: Duration,
}

impl Workload {
    /// The most requests one workload holds: 2 GiB of them, nine hours of 2,000 a second. Longer times are sampled.
    pub const MOST_REQUESTS: Items = Items(1 << 26);
    /// The most volumes.
    pub const MOST_VOLUMES: Items = Items(VOLUMES_MAX as u64);
    /// The longest span, a year: what claims more has its unit wrong.
    pub const LONGEST: Duration = Duration::from_secs(366 * 86_400);

    /// A workload of these volumes and requests that lasts for `span`, counted from the moment zero of its requests.
    ///
    /// # Errors
    /// Names the first request that breaks one of the promises, or the bound that was passed.
    pub fn new(
        volumes: Vec<Volume>,
        requests: Vec<Request>,
        span: Duration,
    ) -> Result<Self, WorkloadError> {
        let too_many = |found: usize, most: Items| found as u64 > most.0;
        if volumes.is_empty() {
            return Err(WorkloadError::NoVolume);
        }
        if too_many(volumes.len(), Self::MOST_VOLUMES) {
            return Err(WorkloadError::TooManyVolumes);
        }
        if let Some(volume) = volumes.iter().find(|v| v.name.len() > NAME_BYTES_MAX) {
            return Err(WorkloadError::LongName { bytes: volume.name.len() });
        }
        if too_many(requests.len(), Self::MOST_REQUESTS) {
            return Err(WorkloadError::TooManyRequests);
        }
        if span > Self::LONGEST {
            return Err(WorkloadError::TooLong);
        }
        let end = Moment::ZERO + span;
        let mut before = Moment::ZERO;
        for (at, request) in requests.iter().enumerate() {
            let fault = if request.at < before {
                Some(Fault::Order)
            } else if request.at > end {
                Some(Fault::BehindTheEnd)
            } else {
                Self::fault(&volumes, request)
            };
            if let Some(fault) = fault {
                return Err(WorkloadError::Request { number: Items(at as u64 + 1), fault });
            }
            before = request.at;
        }
        Ok(Self { volumes, requests, span })
    }

    /// What is wrong with a request on these volumes, its moment apart.
    #[must_use]
    pub fn fault(volumes: &[Volume], request: &Request) -> Option<Fault> {
        let Some(volume) = volumes.get(usize::from(request.volume.0)) else {
            return Some(Fault::NoSuchVolume);
        };
        let Extent { offset, length } = request.extent;
        let end = offset.checked_add(length);
        if request.fua && !request.kind.changes() {
            Some(Fault::Fua)
        } else if (request.kind == Kind::Flush) != (length == 0) {
            Some(Fault::Length)
        } else if end.is_none_or(|end| end > volume.size.0) {
            Some(Fault::OutsideTheVolume)
        } else {
            None
        }
    }

    /// The volumes, which requests name by their index.
    #[must_use]
    pub fn volumes(&self) -> &[Volume] {
        &self.volumes
    }

    /// The requests, in the order of their moments.
    #[must_use]
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// How long it lasts.
    #[must_use]
    pub fn span(&self) -> Duration {
        self.span
    }
}

/// What is wrong with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It was made before the one in front of it.
    Order,
    /// It was made after the workload ended.
    BehindTheEnd,
    /// Its volume is not among the workload's.
    NoSuchVolume,
    /// It reaches beyond its volume.
    OutsideTheVolume,
    /// A flush with an extent, or anything else without one.
    Length,
    /// A read or a flush that is to be durable.
    Fua,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Order => "has an earlier time than the one before it; sort by time",
            Self::BehindTheEnd => "is after the end of the workload",
            Self::NoSuchVolume => "has a volume that is not in the workload",
            Self::OutsideTheVolume => "exceeds the end of its volume",
            Self::Length => {
                "is a flush with a length, or something else without one; a flush has length 0"
            }
            Self::Fua => {
                "is a read or a flush with FUA; only writes, zeroes and discards can have it"
            }
        })
    }
}

/// Why volumes and requests are no workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadError {
    /// There is no volume.
    NoVolume,
    /// There are more than [`Workload::MOST_VOLUMES`].
    TooManyVolumes,
    /// A volume's name has more bytes than a trace can tell.
    LongName {
        /// How many.
        bytes: usize,
    },
    /// There are more than [`Workload::MOST_REQUESTS`].
    TooManyRequests,
    /// It lasts for longer than [`Workload::LONGEST`].
    TooLong,
    /// A request is wrong.
    Request {
        /// Which, counted from 1.
        number: Items,
        /// What is wrong with it.
        fault: Fault,
    },
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVolume => f.write_str("a workload without a volume"),
            Self::TooManyVolumes => {
                write!(f, "more than {} volumes; use fewer", Workload::MOST_VOLUMES)
            }
            Self::LongName { bytes } => {
                write!(f, "a volume's name of {bytes} bytes; at most {NAME_BYTES_MAX}")
            }
            Self::TooManyRequests => {
                write!(f, "more than {} requests; use a shorter time", Workload::MOST_REQUESTS)
            }
            Self::TooLong => f.write_str("longer than a year; check the unit of its times"),
            Self::Request { number, fault } => write!(f, "request {number} {fault}"),
        }
    }
}

impl core::error::Error for WorkloadError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use helio_units::{Bytes, VolumeIndex};

    fn write(at: u64, offset: u64, length: u64) -> Request {
        let extent = Extent::new(offset, length);
        Request { at: Moment(at), extent, volume: VolumeIndex(0), kind: Kind::Write, fua: false }
    }

    fn workload(requests: Vec<Request>) -> Result<Workload, WorkloadError> {
        let volumes = vec![Volume { name: "data".into(), size: Bytes::mib(1) }];
        Workload::new(volumes, requests, Duration::from_nanos(100))
    }

    #[test]
    fn requests_in_order_inside_their_volume_are_a_workload() {
        let flush = Request { kind: Kind::Flush, ..write(7, 0, 0) };
        let made = workload(vec![write(5, 0, 512), write(5, (1 << 20) - 512, 512), flush]);
        let made = made.expect("it keeps every promise");
        assert_eq!((made.requests().len(), made.volumes().len()), (3, 1));
        assert_eq!(made.span(), Duration::from_nanos(100));
    }

    #[test]
    fn every_broken_promise_is_told_with_the_number_of_the_request() {
        let broken = [
            (write(4, 0, 512), Fault::Order),
            (write(101, 0, 512), Fault::BehindTheEnd),
            (Request { volume: VolumeIndex(1), ..write(5, 0, 512) }, Fault::NoSuchVolume),
            (write(5, (1 << 20) - 511, 512), Fault::OutsideTheVolume),
            (write(5, u64::MAX, 512), Fault::OutsideTheVolume),
            (write(5, 0, 0), Fault::Length),
            (Request { kind: Kind::Flush, ..write(5, 0, 512) }, Fault::Length),
            (Request { kind: Kind::Read, fua: true, ..write(5, 0, 512) }, Fault::Fua),
        ];
        for (request, fault) in broken {
            let told = workload(vec![write(5, 0, 512), request]);
            assert_eq!(told, Err(WorkloadError::Request { number: Items(2), fault }));
        }
        assert_eq!(Workload::new(vec![], vec![], Duration::ZERO), Err(WorkloadError::NoVolume));
        let volumes = vec![Volume { name: "data".into(), size: Bytes(512) }];
        let long = Workload::LONGEST + Duration::from_nanos(1);
        assert_eq!(Workload::new(volumes, vec![], long), Err(WorkloadError::TooLong));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Requests as they come out of lines, until they are a workload.

use super::line::Fault;
use super::{Reading, TextError};
use crate::{Kind, Request, Volume, Workload};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use helio_format::trace::NAME_BYTES_MAX;
use helio_units::{Bytes, Extent, Moment, VolumeIndex};

/// The longest read or write: what is longer has its unit wrong.
const LONGEST_DATA: u64 = 1 << 30;
/// Where a volume may end at most: the last byte that a file offset reaches.
const FURTHEST: u64 = i64::MAX as u64;

/// Which of a request's fields is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Time,
    Offset,
    Length,
    /// All of it together.
    Line,
}

#[derive(Debug, Default)]
pub(super) struct Gather {
    names: BTreeMap<String, VolumeIndex>,
    /// Name, and how far requests reach.
    volumes: Vec<(String, u64)>,
    requests: Vec<Request>,
    /// The earliest and the latest moment.
    times: Option<(Moment, Moment)>,
    pub(super) remarks: Vec<String>,
}

impl Gather {
    pub(super) fn volume(&mut self, name: &str) -> Result<VolumeIndex, Fault> {
        if let Some(index) = self.names.get(name) {
            return Ok(*index);
        }
        if name.is_empty() {
            return Err("is not a name");
        }
        if name.len() > NAME_BYTES_MAX {
            return Err("is longer than 255 bytes");
        }
        if self.volumes.len() as u64 >= Workload::MOST_VOLUMES.0 {
            return Err("exceeds the maximum of 1,024 volumes");
        }
        let index = VolumeIndex(self.volumes.len() as u16);
        self.volumes.push((name.into(), 0));
        self.names.insert(name.into(), index);
        Ok(index)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Takes a request whose volume came from [`Gather::volume`].
    pub(super) fn add(&mut self, request: Request) -> Result<(), (Wrong, Fault)> {
        let Extent { offset, length } = request.extent;
        if self.requests.len() as u64 >= Workload::MOST_REQUESTS.0 {
            return Err((
                Wrong::Line,
                "exceeds the maximum number of requests; use a shorter time",
            ));
        }
        let (first, last) = self.times.unwrap_or((request.at, request.at));
        let times = (first.min(request.at), last.max(request.at));
        if times.1 - times.0 > Workload::LONGEST {
            return Err((Wrong::Time, "is more than a year off; check the unit"));
        }
        if (request.kind == Kind::Flush) != (length == 0) {
            return Err((Wrong::Length, "must be zero for a flush, and for nothing else"));
        }
        if length > LONGEST_DATA && matches!(request.kind, Kind::Read | Kind::Write) {
            return Err((Wrong::Length, "is more than 1 GiB for one request; check the unit"));
        }
        let end = offset.checked_add(length).filter(|end| *end <= FURTHEST);
        let end = end.ok_or((Wrong::Offset, "is beyond 8 EiB; check the unit"))?;
        if request.fua && !request.kind.changes() {
            return Err((Wrong::Line, "has FUA, which only writes, zeroes and discards can have"));
        }
        let reach = &mut self.volumes[usize::from(request.volume.0)].1;
        *reach = end.max(*reach);
        self.times = Some(times);
        self.requests.push(request);
        Ok(())
    }

    /// What all of them come to. Sizes of volumes that are not told are as far as requests reach, in whole MiB. Where
    /// the span is told, moments count from zero; otherwise from the first request to the last.
    pub(super) fn finish(
        mut self,
        sizes: &BTreeMap<String, Bytes>,
        span: Option<Duration>,
        nothing: &'static str,
    ) -> Result<Reading, TextError> {
        let Some((first, last)) = self.times else { return Err(TextError::Nothing(nothing)) };
        let mut guessed = false;
        let mut size = |(name, reach): (String, u64)| {
            let told = sizes.get(&name).copied();
            guessed |= told.is_none();
            let size = told.unwrap_or(Bytes(reach.max(1).next_multiple_of(1 << 20)));
            Volume { name, size }
        };
        let volumes = self.volumes.into_iter().map(&mut size).collect();
        if guessed {
            let remark =
                "the file has no volume sizes: each volume ends after the last request to it";
            self.remarks.push(remark.into());
        }
        if span.is_none() {
            self.requests.iter_mut().for_each(|r| r.at = Moment::ZERO + (r.at - first));
        }
        // Tools with a buffer per processor merge them nearly in order.
        if !self.requests.is_sorted_by_key(|request| request.at) {
            self.requests.sort_by_key(|request| request.at);
            self.remarks.push("requests were not sorted by time, and are now".into());
        }
        if last == first && self.requests.len() > 1 {
            let remark = format!("all {} requests have the same time", self.requests.len());
            self.remarks.push(remark);
        }
        let span = span.unwrap_or(last - first);
        let workload = Workload::new(volumes, self.requests, span).map_err(TextError::Workload)?;
        Ok(Reading { workload, group: None, began: None, remarks: self.remarks })
    }
}

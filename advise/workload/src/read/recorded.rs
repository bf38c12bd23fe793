// SPDX-License-Identifier: Apache-2.0
//! Traces of our own, whole or not.

use super::Reading;
use crate::{Request, Workload, WorkloadError};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use helio_format::Checksum;
use helio_format::trace::{
    BLOCK_HEAD_BYTES, BlockHead, HEADER_LEAD_BYTES, Header, MAGIC, REQUESTS_MAX, TraceError,
    encode_block, encode_end,
};
use helio_units::{Items, Moment};

/// Why a trace cannot be read. `E` is what the source of its bytes says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError<E> {
    /// The source failed.
    Source(E),
    /// It does not begin as a trace does, or its header is damaged; or it is cut off within it.
    Header(TraceError),
    /// What it holds is no workload.
    Workload(WorkloadError),
}

impl<E: fmt::Display> fmt::Display for ReadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => error.fmt(f),
            Self::Header(TraceError::Damaged) => f.write_str("the header is damaged or truncated"),
            Self::Header(error) => error.fmt(f),
            Self::Workload(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for ReadError<E> {}

/// Bytes in order, with how many were taken.
struct Source<F> {
    more: F,
    taken: u64,
}

impl<E, F: FnMut(&mut [u8]) -> Result<usize, E>> Source<F> {
    /// Fills as much of the buffer as there is; less than all of it is the end.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, E> {
        let mut filled = 0;
        while filled < buffer.len() {
            match (self.more)(&mut buffer[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        self.taken += filled as u64;
        Ok(filled)
    }
}

/// What blocks came to.
#[derive(Default)]
struct Blocks {
    requests: Vec<Request>,
    end: Option<Moment>,
    dropped: u64,
    damaged: u64,
    remarks: Vec<String>,
}

/// Reads a trace. `more` fills a buffer with what comes next, at least a byte, and returns how much; 0 is the end.
///
/// A trace that was cut off, or has damaged blocks, tells the rest; what is missing is among the remarks.
///
/// # Errors
/// Its header cannot be read, or what it holds breaks a promise of a workload.
pub fn read_recorded<E>(
    more: impl FnMut(&mut [u8]) -> Result<usize, E>,
    checksum: Checksum,
) -> Result<Reading, ReadError<E>> {
    let mut source = Source { more, taken: 0 };
    let mut lead = [0; HEADER_LEAD_BYTES];
    let damaged = ReadError::Header(TraceError::Damaged);
    let got = source.fill(&mut lead).map_err(ReadError::Source)?;
    if got < lead.len() {
        let foreign = !lead.starts_with(&MAGIC);
        return Err(if foreign { ReadError::Header(TraceError::Foreign) } else { damaged });
    }
    let length = Header::length(&lead).map_err(ReadError::Header)?;
    let mut bytes = vec![0; length];
    bytes[..lead.len()].copy_from_slice(&lead);
    if source.fill(&mut bytes[lead.len()..]).map_err(ReadError::Source)? < length - lead.len() {
        return Err(damaged);
    }
    let header = Header::decode(&bytes, checksum).map_err(ReadError::Header)?;
    let mut blocks = Blocks::default();
    blocks.read(&mut source, checksum).map_err(|error| match error {
        Stop::Source(error) => ReadError::Source(error),
        Stop::TooMany => ReadError::Workload(WorkloadError::TooManyRequests),
    })?;
    blocks.tell();
    let last = blocks.requests.last().map_or(Moment::ZERO, |request| request.at);
    let span: Duration = blocks.end.unwrap_or(last).max(last) - Moment::ZERO;
    let workload = Workload::new(header.volumes, blocks.requests, span);
    let workload = workload.map_err(ReadError::Workload)?;
    let group = Some(header.group).filter(|group| !group.is_empty());
    Ok(Reading { workload, group, began: Some(header.began), remarks: blocks.remarks })
}

enum Stop<E> {
    Source(E),
    TooMany,
}

impl Blocks {
    fn read<E, F: FnMut(&mut [u8]) -> Result<usize, E>>(
        &mut self,
        source: &mut Source<F>,
        checksum: Checksum,
    ) -> Result<(), Stop<E>> {
        let mut body = Vec::new();
        loop {
            let at = source.taken;
            let mut head = [0; BLOCK_HEAD_BYTES];
            let got = source.fill(&mut head).map_err(Stop::Source)?;
            if got == 0 && self.end.is_some() {
                return Ok(());
            }
            if got == 0 {
                let remark = "it has no end: the trace is still being recorded, or was truncated";
                self.remarks.push(remark.into());
                return Ok(());
            }
            if self.end.is_some() {
                self.remarks.push(format!("data after its end, at byte {at}, is ignored"));
                return Ok(());
            }
            if got < head.len() {
                self.cut_off(at);
                return Ok(());
            }
            let Ok(head) = BlockHead::decode(&head, checksum) else {
                let remark = format!("it is damaged at byte {at}; the rest is ignored");
                self.remarks.push(remark);
                return Ok(());
            };
            body.resize(head.body, 0);
            if source.fill(&mut body).map_err(Stop::Source)? < head.body {
                self.cut_off(at);
                return Ok(());
            }
            self.block(&head, &body, checksum);
            if self.requests.len() as u64 > Workload::MOST_REQUESTS.0 {
                return Err(Stop::TooMany);
            }
        }
    }

    fn block(&mut self, head: &BlockHead, body: &[u8], checksum: Checksum) {
        self.dropped = self.dropped.saturating_add(head.dropped.0);
        if head.end {
            self.end = Some(head.at);
        } else if head.decode_body(body, checksum, &mut self.requests).is_err() {
            self.damaged = self.damaged.saturating_add(head.requests as u64);
        }
    }

    fn cut_off(&mut self, at: u64) {
        self.remarks.push(format!("it is truncated within a block, which starts at byte {at}"));
    }

    fn tell(&mut self) {
        if self.damaged > 0 {
            let count = Items(self.damaged);
            self.remarks.push(format!("{count} requests are in damaged blocks, and are ignored"));
        }
        if self.dropped > 0 {
            let count = Items(self.dropped);
            let remark = format!(
                "{count} requests are missing, because the disk was too slow for the recording"
            );
            self.remarks.push(remark);
        }
    }
}

/// What a workload would be as a trace, a header or a block at a time.
pub fn write_recorded<E>(
    reading: &Reading,
    checksum: Checksum,
    mut bytes: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let workload = &reading.workload;
    let header = Header {
        began: reading.began.unwrap_or_default(),
        group: reading.group.clone().unwrap_or_default(),
        volumes: workload.volumes().to_vec(),
    };
    let mut out = header.encode(checksum);
    for block in workload.requests().chunks(REQUESTS_MAX) {
        encode_block(block, Items(0), checksum, &mut out);
        bytes(&out)?;
        out.clear();
    }
    let end = Moment::ZERO + workload.span();
    encode_end(end, Items(0), checksum, &mut out);
    bytes(&out)
}

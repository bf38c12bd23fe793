// SPDX-License-Identifier: Apache-2.0
//! The replies to clients' requests, in the NBD protocol.

use crate::shard::clients::client::{Client, plain};
use crate::shard::group::Group;
use crate::shard::requests::{Failure, Place, Reply, Target};
use helio_driver::{Piece, Run, Shared};
use helio_engine::{CopyView, Denial, StoreFault};
use helio_format::before::CHUNK_BYTES;
use helio_nbd::{
    Context, ErrorCode, Form, MAX_STATUS_EXTENTS, ReadPart, ReadPiece, Request, StatusExtent,
    status, zero_runs,
};
use helio_units::{Extent, VolumeIndex};

/// Regions or chunks looked at for one block status: the client asks again for the rest.
const REGIONS_MAX: u64 = 64 << 10;

/// Zeroes shorter than that are sent as they are, in bytes.
const HOLE_BYTES: u32 = 32 << 10;

/// Replies to a request that ended.
pub(super) fn reply(client: &mut Client, request: &Request, reply: Reply, group: &Group) {
    match reply {
        Reply::Done => client.session.reply_done(request, plain(&mut client.out)),
        Reply::Read(data) => read(client, request, data),
        Reply::Map(runs) => block_status(client, request, runs.as_deref(), group),
        Reply::Failed(failure) => {
            let (code, text) = (code(failure), failure.text());
            client.session.reply_error(request, code, text, plain(&mut client.out));
        }
    }
}

/// The data, without the zeroes in it where the client can take that.
fn read(client: &mut Client, request: &Request, data: Shared) {
    let length = request.extent.length as usize;
    let Client { session, out, .. } = client;
    if session.form() == Form::Simple || request.one {
        session.reply_read(request, plain(out));
        out.push(Piece::Shared(data, 0..length));
        return;
    }
    let bytes = &data[..length];
    let parts = zero_runs(request.extent.offset, bytes, HOLE_BYTES).map(ReadPart::from);
    session.reply_read_parts(request, parts, |piece| match piece {
        ReadPiece::Bytes(bytes) => plain(out).extend_from_slice(bytes),
        ReadPiece::Payload(range) => out.push(Piece::Shared(Shared::clone(&data), range)),
    });
}

/// What of the extent is allocated, from the store's map, and what may differ from the peer's copy, or may have changed since a
/// snapshot, from the engine.
fn block_status(client: &mut Client, request: &Request, runs: Option<&[Run]>, group: &Group) {
    let Some(Place { volume, target, .. }) = client.place else { return };
    // An allocated member keeps its space whatever it reads as.
    let sparse = group.volumes[usize::from(volume.0)].sparse;
    let hole = if sparse { status::HOLE | status::ZERO } else { status::ZERO };
    let allocation: Vec<StatusExtent> = runs
        .unwrap_or_default()
        .iter()
        .map(|run| StatusExtent { length: run.length, flags: if run.data { 0 } else { hole } })
        .collect();
    let asked = |context| request.contexts.has(context);
    let marks = asked(Context::Marks).then(|| marks(group, volume, request.extent));
    let changed = match target {
        Target::Snapshot(on) if asked(Context::Changed) => {
            changed(group, on, volume, request.extent)
        }
        _ => None,
    };
    let (marks, changed) = (marks.unwrap_or_default(), changed.unwrap_or_default());
    let told = [
        (Context::Allocation, &allocation[..]),
        (Context::Marks, &marks),
        (Context::Changed, &changed),
    ];
    let told: Vec<_> = told.into_iter().filter(|(_, extents)| !extents.is_empty()).collect();
    client.session.reply_block_status(request, &told, plain(&mut client.out));
}

/// What of an extent may differ from the peer's copy.
fn marks(group: &Group, volume: VolumeIndex, extent: Extent) -> Vec<StatusExtent> {
    let grain = group.config.granularity.0;
    let is_marked = |at| group.engine.view().is_marked(volume, at);
    flagged(looked_at(extent, grain), grain, status::MARKED, is_marked)
}

/// What of an extent may have changed since a snapshot, if that can be used.
fn changed(
    group: &Group,
    on: CopyView,
    volume: VolumeIndex,
    extent: Extent,
) -> Option<Vec<StatusExtent>> {
    let extent = looked_at(extent, CHUNK_BYTES);
    let changed = group.engine.view().changed(on, volume, extent)?;
    let is_changed = |at| {
        let next = changed.get(changed.partition_point(|part| part.end() <= at));
        next.is_some_and(|part| part.offset <= at)
    };
    Some(flagged(extent, CHUNK_BYTES, status::CHANGED, is_changed))
}

/// As much of an extent as one block status reports in units of that grain.
fn looked_at(extent: Extent, grain: u64) -> Extent {
    let end = (extent.offset / grain + REGIONS_MAX).saturating_mul(grain);
    Extent::new(extent.offset, extent.end().min(end) - extent.offset)
}

/// Where an extent has that flag, in units of a grain, neighbours joined.
fn flagged(extent: Extent, grain: u64, flag: u32, has: impl Fn(u64) -> bool) -> Vec<StatusExtent> {
    let mut told: Vec<StatusExtent> = Vec::new();
    let (mut at, end) = (extent.offset, extent.end());
    while at < end && told.len() < MAX_STATUS_EXTENTS {
        let next = ((at / grain + 1) * grain).min(end);
        let flags = if has(at) { flag } else { 0 };
        match told.last_mut() {
            Some(last) if last.flags == flags => last.length += next - at,
            _ => told.push(StatusExtent { length: next - at, flags }),
        }
        at = next;
    }
    told
}

/// The protocol's error for a failure.
const fn code(failure: Failure) -> ErrorCode {
    match failure {
        Failure::Denied(Denial::NotPrimary) => ErrorCode::Shutdown,
        Failure::Denied(Denial::OutOfBounds | Denial::Unaligned) => ErrorCode::Invalid,
        Failure::Denied(Denial::QueueFull | Denial::Store(StoreFault::NoSpace)) => {
            ErrorCode::NoSpace
        }
        Failure::Denied(Denial::Store(
            StoreFault::Io
            | StoreFault::Short
            | StoreFault::Silent
            | StoreFault::Unrecorded
            | StoreFault::Unissued
            | StoreFault::Other(_),
        ))
        | Failure::Inconsistent => ErrorCode::Io,
        Failure::ReadOnly => ErrorCode::Permission,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::requests::FAILURES;

    #[test]
    fn flags_are_told_in_units_of_a_grain_up_to_a_bound() {
        let run = |length, flags| StatusExtent { length, flags };
        let told = flagged(Extent::new(6, 24), 8, 1, |at| (8..24).contains(&at));
        assert_eq!(told, [run(2, 0), run(16, 1), run(6, 0)]);
        assert_eq!(looked_at(Extent::new(6, 24), 8), Extent::new(6, 24));
        let most = Extent::new(6, 8 * REGIONS_MAX - 6);
        assert_eq!(looked_at(Extent::new(6, u64::MAX / 2), 8), most);
        let told = flagged(most, 8, 1, |at| at / 8 % 2 == 0);
        assert_eq!(told.len(), MAX_STATUS_EXTENTS);
    }

    #[test]
    fn every_failure_has_its_error_in_the_protocol() {
        let [io, invalid, no_space] = [ErrorCode::Io, ErrorCode::Invalid, ErrorCode::NoSpace];
        let (shutdown, permission) = (ErrorCode::Shutdown, ErrorCode::Permission);
        let codes = [
            shutdown, invalid, invalid, no_space, no_space, io, io, io, io, io, io, permission, io,
        ];
        for (failure, error) in FAILURES.into_iter().zip(codes) {
            assert_eq!(code(failure), error, "{}", failure.text());
        }
    }
}

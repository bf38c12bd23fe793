// SPDX-License-Identifier: Apache-2.0
//! The replies to clients' requests, in the NBD protocol.

use crate::shard::clients::client::{Client, plain};
use crate::shard::group::Group;
use crate::shard::requests::{Failure, Place, Reply};
use helio_driver::{Piece, Run, Shared};
use helio_engine::{Denial, StoreFault};
use helio_nbd::{
    Context, ErrorCode, Form, MAX_STATUS_EXTENTS, ReadPart, ReadPiece, Request, StatusExtent,
    status, zero_runs,
};
use helio_units::{Extent, VolumeIndex};

/// Regions looked at for one block status: the client asks again for the rest.
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

/// What of the extent is allocated, from the store's map, and what may differ from the peer's copy, from the engine.
fn block_status(client: &mut Client, request: &Request, runs: Option<&[Run]>, group: &Group) {
    let Some(Place { volume, .. }) = client.place else { return };
    // An allocated member keeps its space whatever it reads as.
    let sparse = group.volumes[usize::from(volume.0)].sparse;
    let hole = if sparse { status::HOLE | status::ZERO } else { status::ZERO };
    let allocation: Vec<StatusExtent> = runs
        .unwrap_or_default()
        .iter()
        .map(|run| StatusExtent { length: run.length, flags: if run.data { 0 } else { hole } })
        .collect();
    let marks = if request.contexts.has(Context::Marks) {
        marks(group, volume, request.extent)
    } else {
        Vec::new()
    };
    let told = [(Context::Allocation, &allocation[..]), (Context::Marks, &marks)];
    let told: Vec<_> = told.into_iter().filter(|(_, extents)| !extents.is_empty()).collect();
    client.session.reply_block_status(request, &told, plain(&mut client.out));
}

/// What of an extent may differ from the peer's copy, neighbours joined.
fn marks(group: &Group, volume: VolumeIndex, extent: Extent) -> Vec<StatusExtent> {
    let mut told: Vec<StatusExtent> = Vec::new();
    let (mut at, grain) = (extent.offset, group.config.granularity.0);
    let end = extent.end().min((at / grain + REGIONS_MAX) * grain);
    while at < end && told.len() < MAX_STATUS_EXTENTS {
        let next = ((at / grain + 1) * grain).min(end);
        let flags = if group.engine.view().is_marked(volume, at) { status::MARKED } else { 0 };
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
            StoreFault::Io | StoreFault::Short | StoreFault::Silent | StoreFault::Other(_),
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
    fn every_failure_has_its_error_in_the_protocol() {
        let [io, invalid, no_space] = [ErrorCode::Io, ErrorCode::Invalid, ErrorCode::NoSpace];
        let (shutdown, permission) = (ErrorCode::Shutdown, ErrorCode::Permission);
        let codes =
            [shutdown, invalid, invalid, no_space, no_space, io, io, io, io, permission, io];
        for (failure, error) in FAILURES.into_iter().zip(codes) {
            assert_eq!(code(failure), error, "{}", failure.text());
        }
    }
}

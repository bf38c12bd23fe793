// SPDX-License-Identifier: Apache-2.0
//! What clients are told of their requests.

use crate::shard::clients::client::{Client, plain};
use helio_driver::{Piece, Run, Shared};
use helio_engine::{Answer, Denial, StoreFault};
use helio_nbd::{
    Context, ErrorCode, Form, ReadPart, ReadPiece, Request, StatusExtent, status, zero_runs,
};

/// Zeroes shorter than that are sent as they are, in bytes.
const HOLE_BYTES: u32 = 32 << 10;

/// The engine's answer.
pub(super) fn tell(client: &mut Client, request: &Request, answer: Answer, data: Option<Shared>) {
    match (answer, data) {
        (Answer::Denied(denial), _) => {
            let (code, text) = denied(denial);
            refuse(client, request, code, text);
        }
        (Answer::Read(_), Some(shared)) => read(client, request, shared),
        _ => client.session.reply_done(request, plain(&mut client.out)),
    }
}

pub(super) fn refuse(client: &mut Client, request: &Request, code: ErrorCode, text: &str) {
    client.session.reply_error(request, code, text, plain(&mut client.out));
}

/// The data, without the zeroes in it where the client can take that.
pub(super) fn read(client: &mut Client, request: &Request, data: Shared) {
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

/// What of an extent is allocated, from the member's map, and what is marked, from the engine.
pub(super) fn block_status(
    client: &mut Client,
    request: &Request,
    runs: Option<&[Run]>,
    sparse: bool,
    marks: &[StatusExtent],
) {
    // An allocated member keeps its space whatever it reads as.
    let hole = if sparse { status::HOLE | status::ZERO } else { status::ZERO };
    let allocation: Vec<StatusExtent> = runs
        .unwrap_or_default()
        .iter()
        .map(|run| StatusExtent { length: run.length, flags: if run.data { 0 } else { hole } })
        .collect();
    let told = [(Context::Allocation, &allocation[..]), (Context::Marks, marks)];
    let told: Vec<_> = told.into_iter().filter(|(_, extents)| !extents.is_empty()).collect();
    client.session.reply_block_status(request, &told, plain(&mut client.out));
}

fn denied(denial: Denial) -> (ErrorCode, &'static str) {
    match denial {
        Denial::NotPrimary => (ErrorCode::Shutdown, "this node is no longer primary for the group"),
        Denial::OutOfBounds => (ErrorCode::Invalid, "the request exceeds the volume"),
        Denial::Unaligned => (ErrorCode::Invalid, "not a multiple of the export's minimum block"),
        Denial::QueueFull => {
            (ErrorCode::NoSpace, "the replication queue is full and its policy is to fail writes")
        }
        Denial::Store(StoreFault::NoSpace) => {
            (ErrorCode::NoSpace, "the local disk has no space left")
        }
        Denial::Store(_) => (ErrorCode::Io, "the local disk failed"),
    }
}

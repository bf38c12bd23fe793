// SPDX-License-Identifier: Apache-2.0
//! The network block device protocol: how applications reach a volume without a kernel module of ours.
//!
//! * [`codec`]: the bytes, shared by both ends.
//! * [`Session`]: the server's end of one connection as a pure state machine. It owns no socket and no
//!   payload; the shard feeds it what arrived and sends what it wrote.
//! * [`Client`]: a small blocking client for the quickstart, the tests and the tools.
//!
//! Absent on purpose: threads, sockets on the server's side, disks, and TLS itself: a session says when it
//! begins, and reads what came out of it. RESIZE, an experiment of the protocol's, is not offered.

mod client;
pub mod codec;
mod server;

pub use client::{
    Client, ClientError, ClientOptions, ClientReceiver, ClientSender, ExportShape, ListedExport,
    Reply, ServerError,
};
pub use codec::{
    Context, Contexts, Cookie, ErrorCode, Form, StatusExtent, TransmissionFlags, status,
};
pub use server::{
    Command, ExportInfo, Exports, MAX_ANSWERED_PAYLOAD, MAX_LIST_REPLY, MAX_NAME, MAX_OPTION_DATA,
    MAX_OPTION_LENGTH, MAX_OPTIONS, MAX_PAYLOAD, MAX_QUERIES, MAX_STATUS_EXTENTS, OpenRefusal,
    ReadPart, ReadPiece, Request, Session, SessionError, SessionOptions, Step, TlsPolicy,
    zero_runs,
};

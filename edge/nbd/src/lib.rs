// SPDX-License-Identifier: Apache-2.0
//! The network block device protocol: how applications reach a volume without a kernel module of ours.
//!
//! * [`codec`]: the bytes, shared by both ends.
//! * [`Session`]: the server's end of one connection as a pure state machine. It owns no socket and no
//!   payload; the shard feeds it what arrived and sends what it wrote.
//! * [`Client`]: a small blocking client for the quickstart, the tests and the tools.
//!
//! Absent on purpose: threads, sockets on the server's side, disks. TLS, metadata contexts and extended
//! headers are answered as unsupported; see `server/options.rs` for the place they will live in.

mod client;
pub mod codec;
mod server;

pub use client::{
    Client, ClientError, ClientReceiver, ClientSender, ExportShape, ListedExport, Reply,
    ServerError,
};
pub use codec::{Cookie, ErrorCode, TransmissionFlags};
pub use server::{
    Command, ExportInfo, Exports, MAX_ANSWERED_PAYLOAD, MAX_LIST_REPLY, MAX_NAME, MAX_OPTION_DATA,
    MAX_OPTION_LENGTH, MAX_OPTIONS, MAX_PAYLOAD, OpenRefusal, Request, Session, SessionError, Step,
};

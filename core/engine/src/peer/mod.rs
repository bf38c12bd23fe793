// SPDX-License-Identifier: Apache-2.0
//! What a primary keeps for its peer, the conversation with it, and what it is owed.

pub(crate) mod handshake;
pub(crate) mod heartbeat;
pub(crate) mod invalid;
pub(crate) mod lease;
pub(crate) mod link;
pub(crate) mod outgoing;
pub(crate) mod owed;
pub(crate) mod primary;
pub(crate) mod read_server;
pub(crate) mod session;

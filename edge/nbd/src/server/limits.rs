// SPDX-License-Identifier: Apache-2.0
//! What one client may cost. A connection holds at most [`MAX_OPTION_DATA`] bytes of a partial option and
//! [`MAX_NAME`] bytes of the name it chose contexts for while it negotiates, and one partial header
//! afterwards, whatever the client sends; the rest is the caller's own buffers.

use crate::codec::MAX_STRING;

/// Longest export name, in bytes: the protocol's own bound on strings.
pub const MAX_NAME: usize = MAX_STRING;

/// Largest option whose data is looked at, in bytes: a longest name and some two thousand info requests,
/// of which the protocol knows four. It is all a connection ever buffers of what arrives.
pub const MAX_OPTION_DATA: u32 = 8192;

/// Largest option that is skipped and answered with an error, in bytes. Nothing honest comes near it; a
/// longer one is a stray or hostile stream and ends the connection.
pub const MAX_OPTION_LENGTH: u32 = 64 << 10;

/// Options per connection. A client that lists exports asks about each on the same connection, twice if
/// it wants metadata too; beyond this many it only keeps the server busy.
pub const MAX_OPTIONS: u32 = 1024;

/// Most bytes one LIST is answered with, so that one short option cannot fill memory: some ten thousand
/// exports. What does not fit is cut off with an error that says so.
pub const MAX_LIST_REPLY: usize = 1 << 20;

/// Most bytes one READ or WRITE moves, advertised as the maximum payload: the size the protocol promises
/// clients that never ask, and where the engine splits large items.
pub const MAX_PAYLOAD: u32 = 32 << 20;

/// Largest WRITE that is skipped and answered with an error, in bytes. Twice what was advertised is a
/// client with a bug; a longer one costs more to skip than a new connection.
pub const MAX_ANSWERED_PAYLOAD: u32 = 64 << 20;

/// Most queries looked at in one choice of metadata contexts. There are two contexts to find.
pub const MAX_QUERIES: u32 = 64;

/// Most stretches one context is reported in per answer, which makes at most 256 KiB; the client asks
/// again for what is missing.
pub const MAX_STATUS_EXTENTS: usize = 16 << 10;

// SPDX-License-Identifier: Apache-2.0
//! What a client asks, once it is worth serving, and what a session tells its caller.

use crate::codec::{Contexts, Cookie};
use helio_units::Extent;
use std::ops::Range;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Read the extent.
    Read,
    /// Write the payload that follows to the extent.
    Write,
    /// Make everything answered so far durable. Its extent is empty.
    Flush,
    /// Forget the extent.
    Trim,
    /// The extent will be wanted soon. Advice: doing nothing is a full answer.
    Cache,
    /// Make the extent read as zero.
    WriteZeroes,
    /// Tell what the contexts of [`Request::contexts`] say of the extent.
    BlockStatus,
}

/// A request worth serving: in bounds, aligned, allowed. Its answer needs it again, so keep it: it is
/// small and owns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Names it in the reply.
    pub cookie: Cookie,
    /// What to do.
    pub command: Command,
    /// Whether it must be durable before it is answered. Only ever set for changes.
    pub fua: bool,
    /// Whether zeroes must stay allocated. Only ever set for `WriteZeroes`.
    pub no_hole: bool,
    /// Whether zeroes are only wanted where they are faster than data; fail with
    /// [`ErrorCode::NotSupported`](crate::ErrorCode::NotSupported) otherwise. Only ever set for
    /// `WriteZeroes`, and only where [`ExportInfo::fast_zero`](crate::ExportInfo::fast_zero) holds.
    pub fast: bool,
    /// Whether the answer to a `Read` may have one chunk only, or that to a `BlockStatus` one stretch per
    /// context. The session's answers see to it.
    pub one: bool,
    /// The contexts a `BlockStatus` is to tell about, at least one. Empty for other commands.
    pub contexts: Contexts,
    /// Where. A read or write is at most [`MAX_PAYLOAD`](crate::MAX_PAYLOAD) long, a trim or zeroes as long
    /// as [`ExportInfo::longest_effect`](crate::ExportInfo::longest_effect) says, anything else may be as
    /// long as the export.
    pub extent: Extent,
}

/// What [`Session::consume`](crate::Session::consume) found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// All input is used up; come back with more.
    NeedMore,
    /// The handshake went on by one message; there may be output to send before going on.
    Negotiating,
    /// The client asked for TLS and was granted it: send the output as it is, let TLS shake hands on the
    /// connection, then call [`Session::secured`](crate::Session::secured). Nothing is consumed before.
    StartTls,
    /// The client chose an export; requests follow.
    Ready {
        /// From [`ExportInfo::handle`](crate::ExportInfo::handle).
        handle: u64,
        /// The export's own name, which may not be the one the client used.
        name: String,
    },
    /// A request. After a `Write`, `Payload` steps follow until `last`.
    Request(Request),
    /// The next bytes of the last `Write`.
    Payload {
        /// Where in the input of this very call.
        chunk: Range<usize>,
        /// Whether the write is complete.
        last: bool,
    },
    /// The client leaves: answer what is outstanding, send it, close.
    Disconnect,
}

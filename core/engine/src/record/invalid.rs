// SPDX-License-Identifier: Apache-2.0
//! `bitmap failed` (rule 14): a primary whose metadata cannot be written goes on once its peer durably knows that.
//!
//! ```text
//!   primary                                               peer
//!      │ writes to extents that are not hot wait             │
//!      │ ── metadata failed, in this generation ───────────> │ its record says so
//!      │ <──────────────────────────────────────── recorded  │
//!      │ writes go on, uncovered; without the peer they fail  │
//! ```
//! What the primary's own file tells is not enough from then on, and the peer's record makes up for it: whoever comes back,
//! everything is compared (`metadata-failed`). That record ends with such a copy: at the peer that follows, once it is
//! consistent and heard of no failure since; at one that leads, when its own record says that everything is to be copied.
//! A primary that still runs knows by its memory what its peer lacks, and goes on by that. While a disk is shipped there
//! is no such peer: its metadata is replaced together with the disk.

/// What was said in this conversation of metadata that cannot be written. Two nodes that both fail hang up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Nothing,
    /// The peer was told of this node's own.
    Sent,
    /// The peer recorded that.
    Recorded,
    /// The peer said it of its own.
    PeerFails,
}

/// What the two nodes record of metadata that cannot be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Invalidity {
    said: Said,
    /// The stream that was adopted last brings everything.
    compared: bool,
}

impl Invalidity {
    /// The peer recorded that this node's metadata tells nothing.
    pub(crate) fn is_recorded(&self) -> bool {
        self.said == Said::Recorded
    }

    pub(crate) const fn new() -> Self {
        Self { said: Said::Nothing, compared: false }
    }

    /// A stream is adopted; a `whole` one brings everything.
    pub(crate) fn adopts(&mut self, whole: bool) {
        self.compared = whole;
    }

    /// Whether a stream that brings everything has done so, and its sender's metadata is as it should be.
    pub(crate) const fn is_peer_proven(&self) -> bool {
        self.compared && !matches!(self.said, Said::PeerFails)
    }

    /// Whether the peer is to be told of this node's own metadata, as it now is.
    pub(crate) fn tells(&mut self) -> bool {
        let tells = matches!(self.said, Said::Nothing | Said::PeerFails);
        self.said = if tells { Said::Sent } else { self.said };
        tells
    }

    /// The peer recorded what it was told. Returns whether that is news.
    pub(crate) fn recorded(&mut self) -> bool {
        let news = self.said == Said::Sent;
        self.said = if news { Said::Recorded } else { self.said };
        news
    }

    /// The peer's metadata cannot be written.
    pub(crate) fn peer_fails(&mut self) {
        self.said = Said::PeerFails;
    }

    pub(crate) fn conversation_ended(&mut self) {
        self.said = Said::Nothing;
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What a completion is about, packed into the driver's token: kind (8 bits), index (24), detail (32).

use helio_driver::Token;

/// Whose operation it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The waker: something was asked of the shard.
    Woken,
    /// A listener for NBD clients; index: which.
    AcceptClient,
    /// The listener for peers.
    AcceptPeer,
    /// Bytes from an NBD client; detail: its epoch.
    ClientRecv,
    /// Bytes to an NBD client; detail: its epoch.
    ClientSend,
    /// A member's operation; index: group, detail: the engine's name for it.
    Store,
    /// The flush behind a zero or discard that must be durable.
    StoreSync,
    /// The write of a member's stamp; index: group, detail: volume and member.
    Stamp,
    /// The superblock's write or flush; index: group.
    Metadata,
    /// An operation for the before-image file; index: group, detail: which of a batch.
    Before,
    /// A group's connection; index: group, detail: epoch.
    LinkConnect,
    /// Bytes from a group's peer.
    LinkRecv,
    /// Bytes to a group's peer.
    LinkSend,
    /// The last words on a connection given up; index: slot.
    PartingSend,
    /// The first words of a peer not yet known; index: slot, detail: epoch.
    StrangerRecv,
    /// A part of the handshake to one, detail: its epoch; or the last words to one.
    StrangerSend,
    /// The arithmetic of a handshake with one; detail: its epoch.
    StrangerShake,
    /// The arithmetic of a handshake with an NBD client; detail: its epoch.
    ClientShake,
    /// A store's operation for a request that the engine has no part in; index: the request.
    Request,
    /// The kernel has a request for an attached volume; index: slot, detail: its epoch.
    AttachReady,
}

const KINDS: [Kind; 20] = [
    Kind::Woken,
    Kind::AcceptClient,
    Kind::AcceptPeer,
    Kind::ClientRecv,
    Kind::ClientSend,
    Kind::Store,
    Kind::StoreSync,
    Kind::Stamp,
    Kind::Metadata,
    Kind::Before,
    Kind::LinkConnect,
    Kind::LinkRecv,
    Kind::LinkSend,
    Kind::PartingSend,
    Kind::StrangerRecv,
    Kind::StrangerSend,
    Kind::StrangerShake,
    Kind::ClientShake,
    Kind::Request,
    Kind::AttachReady,
];

/// Packs a token.
pub(crate) fn token(kind: Kind, index: usize, detail: u32) -> Token {
    assert!(index < 1 << 24, "a shard with {index} of one thing");
    Token((kind as u64) << 56 | (index as u64) << 32 | u64::from(detail))
}

/// Unpacks it.
pub(crate) fn unpack(token: Token) -> (Kind, usize, u32) {
    let kind = KINDS[(token.0 >> 56) as usize];
    (kind, (token.0 >> 32) as usize & 0xFF_FFFF, token.0 as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_they_were_packed() {
        for (n, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, n, "the list and the enum disagree");
            assert_eq!(unpack(token(kind, 0xAB_CDEF, u32::MAX)), (kind, 0xAB_CDEF, u32::MAX));
        }
    }
}

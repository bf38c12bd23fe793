// SPDX-License-Identifier: Apache-2.0
//! Messages to bytes.

use crate::checksum;
use helio_driver::{Piece, Shared};
use helio_format::frame;
use helio_format::message::Message;

/// Appends the frame of `message` to `pieces`: header and body behind what the last piece holds already where that is
/// plain bytes, then the payload as it lies in the pool. Returns the frame's length in bytes.
///
/// # Panics
/// On a message that announces payload and comes without it, which is our own mistake.
pub fn frame(message: &Message, payload: Option<&Shared>, pieces: &mut Vec<Piece>) -> u64 {
    let length = message.payload_length() as usize;
    let crc = match payload {
        Some(shared) if length > 0 => checksum(&shared[..length]),
        _ => {
            assert_eq!(length, 0, "a frame without the payload it announces");
            0
        }
    };
    if !matches!(pieces.last(), Some(Piece::Bytes(_))) {
        pieces.push(Piece::Bytes(Vec::with_capacity(128)));
    }
    let Some(Piece::Bytes(bytes)) = pieces.last_mut() else { return 0 };
    let before = bytes.len();
    frame::encode(message, crc, checksum, bytes);
    let head = bytes.len() - before;
    if let Some(shared) = payload
        && length > 0
    {
        pieces.push(Piece::Shared(Shared::clone(shared), 0..length));
    }
    (head + length) as u64
}

// SPDX-License-Identifier: Apache-2.0
//! A client's end of a connection.

/// What [`Stream::receive`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// At least one byte, appended.
    Bytes,
    /// Nothing now.
    Nothing,
    /// The peer closed its direction; nothing more comes.
    End,
    /// The connection was reset.
    Reset,
}

/// A byte stream that never blocks.
pub trait Stream {
    /// Sends as much of `bytes` as there is room for; how many bytes that were.
    ///
    /// # Errors
    /// The connection is gone. There is one reason only, which [`Stream::receive`] reports.
    #[allow(clippy::result_unit_err, reason = "receive reports the reason")]
    fn send(&mut self, bytes: &[u8]) -> Result<usize, ()>;

    /// Appends at most `most` bytes to `into`.
    fn receive(&mut self, into: &mut Vec<u8>, most: usize) -> Received;

    /// Closes the connection in order: what was sent still arrives.
    fn close(&mut self);

    /// Aborts the connection: what was sent may be lost.
    fn reset(&mut self);
}

// SPDX-License-Identifier: Apache-2.0
//! What one client or device has under way.

/// Requests one client or device may have under way. Clients in the field keep 16 to 128, a loop device 128.
const REQUESTS_MAX: u32 = 256;

/// Requests under way, and the bytes of payload that they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    requests: u32,
    bytes: u64,
}

impl Load {
    /// One request more.
    pub(crate) const fn begin(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
    }

    /// One request less.
    pub(crate) const fn end(&mut self, bytes: u64) {
        self.requests -= 1;
        self.bytes -= bytes;
    }

    /// Whether nothing is under way.
    pub(crate) const fn is_idle(&self) -> bool {
        self.requests == 0
    }

    /// Whether no further request may begin, however small.
    pub(crate) const fn is_full(&self) -> bool {
        self.requests >= REQUESTS_MAX
    }

    /// Requests under way.
    pub(crate) const fn requests(&self) -> u64 {
        self.requests as u64
    }

    /// Bytes held.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Buffers: page-aligned, of fixed capacity, owned by one party at a time.

use crate::memory::Block;
use crate::pool::Home;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Where every buffer starts, in bytes: enough for direct I/O on any device.
pub const ALIGNMENT: usize = 4096;

/// A buffer that several parties read at once: the disk, the queue and the link. The last one to let go
/// gives the memory back to its pool.
pub type Shared = Arc<Buffer>;

/// An aligned buffer. Whoever holds it may write it; an operation in flight holds it.
pub struct Buffer {
    block: Block,
    length: usize,
    home: Option<Arc<Home>>,
}

impl Buffer {
    /// `length` zero bytes outside any pool.
    #[must_use]
    pub fn zeroed(length: usize) -> Self {
        Self { block: Block::zeroed(length), length, home: None }
    }

    /// A buffer of `length` bytes over memory that returns to `home`.
    pub(crate) fn lent(block: Block, length: usize, home: Arc<Home>) -> Self {
        Self { block, length, home: Some(home) }
    }

    /// Bytes the memory behind the buffer could hold; at least `len`.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.block.capacity()
    }

    /// Makes the buffer `length` bytes long, or as long as its memory where that is less. Bytes that come
    /// into view hold whatever was there before.
    pub fn resize(&mut self, length: usize) {
        self.length = length.min(self.block.capacity());
    }

    /// Gives up writing so that many may read.
    #[must_use]
    pub fn into_shared(self) -> Shared {
        Arc::new(self)
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.block.bytes()[..self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.block.bytes_mut()[..self.length]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Names the size only: payload has no place in a log.
impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} B)", self.length)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.take_back(std::mem::replace(&mut self.block, Block::empty()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_start_on_a_page_and_hold_zeroes() {
        for length in [0, 1, 512, 4096, 4097, 1 << 20] {
            let buffer = Buffer::zeroed(length);
            assert_eq!(buffer.len(), length);
            assert!(length == 0 || (buffer.as_ptr() as usize).is_multiple_of(ALIGNMENT));
            assert!(buffer.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn a_buffer_never_grows_past_its_memory() {
        let mut buffer = Buffer::zeroed(100);
        buffer.resize(40);
        assert_eq!(buffer.len(), 40);
        buffer.resize(4000);
        assert_eq!(buffer.len(), buffer.capacity());
    }
}

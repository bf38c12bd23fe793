// SPDX-License-Identifier: Apache-2.0
//! Page-aligned memory, the one thing here that safe Rust cannot ask for without wasting a page per buffer
//! (and the pool's bound would then lie by up to a factor of two).
#![allow(unsafe_code)]

use crate::buffer::ALIGNMENT;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// An owned run of initialised bytes that starts on a page boundary.
pub(crate) struct Block {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: a Block owns its memory alone, as a Box<[u8]> does; nothing in it is tied to a thread.
unsafe impl Send for Block {}
// SAFETY: shared access only reads bytes; writing takes `&mut self`.
unsafe impl Sync for Block {}

impl Block {
    /// No bytes, and no allocation.
    pub(crate) const fn empty() -> Self {
        Self { start: NonNull::dangling(), capacity: 0 }
    }

    /// `capacity` zero bytes. Ends the process where memory has run out, as every Rust allocation does.
    pub(crate) fn zeroed(capacity: usize) -> Self {
        if capacity == 0 {
            return Self::empty();
        }
        let layout = Self::layout(capacity);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Self { start, capacity },
            None => handle_alloc_error(layout),
        }
    }

    /// Bytes in the block.
    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// All of them.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is valid for `capacity` initialised bytes (dangling only with capacity 0), and the
        // shared borrow of self keeps writers away.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.capacity) }
    }

    /// All of them, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the exclusive borrow of self makes this the only view.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.capacity) }
    }

    fn layout(capacity: usize) -> Layout {
        match Layout::from_size_align(capacity, ALIGNMENT) {
            Ok(layout) => layout,
            // Only a size beyond half the address space gets here: memory has run out by any measure.
            Err(_) => handle_alloc_error(Layout::new::<u8>()),
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.capacity > 0 {
            // SAFETY: allocated by `zeroed` with this very layout, and never freed before.
            unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) };
        }
    }
}

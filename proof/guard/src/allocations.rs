// SPDX-License-Identifier: Apache-2.0
//! Counts the allocations of the code that is measured.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Whether this thread runs code that is measured. Threads of a driver never do.
    static COUNTS: Cell<bool> = const { Cell::new(false) };
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

/// Counts allocations of measured code; everything else is the system's.
struct Counting;

// SAFETY: every call is passed to the system's allocator unchanged; counting allocates nothing and touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the system's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is the system's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is the system's.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    if COUNTS.get() {
        COUNTED.set(COUNTED.get() + 1);
    }
}

/// Runs code with its allocations counted, or not counted.
pub(crate) fn counting<R>(counts: bool, run: impl FnOnce() -> R) -> R {
    let before = COUNTS.replace(counts);
    let result = run();
    COUNTS.set(before);
    result
}

/// How many were counted.
pub(crate) fn counted() -> u64 {
    COUNTED.get()
}

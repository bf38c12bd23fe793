// SPDX-License-Identifier: Apache-2.0
//! Panics of what runs in a world. A daemon goes on without the group that panicked, so each one is noted when it happens.

use crate::model::{Promise, Violation};
use std::cell::RefCell;

thread_local! {
    static NOTED: RefCell<Option<Violation>> = const { RefCell::new(None) };
}

/// Notes panics from now on, instead of printing them.
pub fn note_panics() {
    std::panic::set_hook(Box::new(|panic| {
        NOTED.with_borrow_mut(|noted| {
            noted.get_or_insert_with(|| {
                Violation::new(Promise::NoPanic, format!("a panic: {panic}"))
            });
        });
    }));
}

/// The first panic of this thread since the last call.
pub(crate) fn noted() -> Option<Violation> {
    NOTED.take()
}

// SPDX-License-Identifier: Apache-2.0
//! Panics of what runs in a world. A daemon goes on without the group that panicked, so each one is noted when it happens.

use crate::model::{Promise, Violation};
use std::cell::RefCell;
use std::panic::PanicHookInfo;
use std::sync::Once;

thread_local! {
    static NOTED: RefCell<Option<Violation>> = const { RefCell::new(None) };
}

/// Notes panics from now on, instead of printing them.
pub fn note_panics() {
    std::panic::set_hook(Box::new(note));
}

/// Notes panics from now on, and does what was done with them before.
pub(crate) fn note_panics_too() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            note(panic);
            before(panic);
        }));
    });
}

fn note(panic: &PanicHookInfo<'_>) {
    NOTED.with_borrow_mut(|noted| {
        noted.get_or_insert_with(|| Violation::new(Promise::NoPanic, format!("a panic: {panic}")));
    });
}

/// The first panic of this thread since the last call.
pub(crate) fn noted() -> Option<Violation> {
    NOTED.take()
}

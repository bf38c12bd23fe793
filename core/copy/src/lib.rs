// SPDX-License-Identifier: Apache-2.0
//! What every copy of dirty regions shares, whichever way the bytes go.
//!
//! * [`Walk`]: which region is next, which are being copied, and which of those were written meanwhile.
//! * [`Pace`]: how much may be under way at once, so that clients hardly notice it.
//! * [`Guess`]: whether comparing digests first costs less than sending everything.
//! * [`Progress`]: how far a resync is, its rate, and when it ends.
//!
//! Pure: nothing here does I/O or knows the time. The owner moves the bytes, and clears bits of its bitmap by its own
//! durability.
#![no_std]

extern crate alloc;

mod guess;
mod pace;
mod progress;
mod walk;

pub use guess::Guess;
pub use pace::{Pace, ResyncConfig};
pub use progress::Progress;
pub use walk::{Claim, Walk};

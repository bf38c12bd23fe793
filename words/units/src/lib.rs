// SPDX-License-Identifier: Apache-2.0
//! The names and units every room shares: sizes, times, places, modes, roles.
//!
//! Absent on purpose: clocks, randomness, I/O, bytes. A bare integer never crosses a room; it crosses
//! as one of these types.
#![no_std]

extern crate alloc;

mod copy_name;
pub mod form;
mod parse;
mod place;
mod shell;
mod size;
mod time;
mod vocabulary;

pub use copy_name::CopyName;
pub use parse::{ParseError, parse_bytes, parse_duration, parse_rate};
pub use place::{
    Extent, Generation, IoId, MemberIndex, Payload, PayloadId, Position, RequestId, Sequence,
    VolumeIndex,
};
pub use shell::shell_word;
pub use size::{Bandwidth, Bytes, Items, Rate, SECTOR};
pub use time::{Moment, WallTime};
pub use vocabulary::{MemberState, Mode, Role, State, Verdict};

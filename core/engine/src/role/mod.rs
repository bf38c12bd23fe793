// SPDX-License-Identifier: Apache-2.0
//! What a node is to its group, and how that changes: promotion, demotion, stopping, coming back.
//! `standing` has the stages, drawn.

use crate::refusal::Refusal;

mod accept;
pub(crate) mod asked;
mod command;
pub(crate) mod copies;
pub(crate) mod cross;
mod fault;
mod heard;
mod hook;
mod invalid;
mod keep;
mod keeping;
mod kept;
mod lease;
pub(crate) mod leave;
mod promote;
mod received;
pub(crate) mod record;
mod replace;
pub(crate) mod resolve;
mod restore;
mod seeding;
mod standing;
pub(crate) mod switch;
mod verifying;

pub(crate) use standing::{Following, Leading, LeaveStage, Stage, Standing};

pub(crate) fn busy() -> Refusal {
    Refusal::later(
        "busy",
        "another change of role is in progress",
        "wait for its end; `helio status` shows it",
    )
}

/// Refuses while a record is being written: the next one cannot be prepared before it is durable.
pub(crate) fn recording() -> Refusal {
    Refusal::later(
        "busy",
        "the last change is still being recorded on the disk of the metadata",
        "repeat; if it is never recorded, `helio status` shows that disk as failed",
    )
}

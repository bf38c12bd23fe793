// SPDX-License-Identifier: Apache-2.0
//! What a node reports of itself for the status of its peer. Nothing is decided by it: it is shown.
//!
//! | kind | body, in order |
//! |---|---|
//! | 28 report | mode in force u8 (0 for none, else 1 + index in the vocabulary's list), paused flag, ahead flag, differing u64, only here flag and u64 (0 without the flag), last write flag and its age in ms u64 (0 without the flag), fault, hint (texts as in a goodbye; empty for none) |
//!
//! A hello ends with the same fields. The message follows whenever they change. Integers and texts are as in
//! [`crate::message`].

use crate::cursor::{Reader, Short, Writer, code_of, from_code};
use alloc::string::String;
use core::time::Duration;
use helio_units::{Bytes, Mode};

/// See the table above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The mode by which writes are acknowledged now; none from a secondary, and while no write waits for, or queues to,
    /// the peer.
    pub effective: Option<Mode>,
    /// An operator paused replication.
    pub paused: bool,
    /// As a secondary that was primary, the sender has acknowledged writes that the receiver may not have.
    pub ahead: bool,
    /// Differences that a verify found and that were not repaired.
    pub differing: u64,
    /// Data that the receiver may not have, as an upper bound; none where the sender does not know.
    pub only_here: Option<Bytes>,
    /// How long before this report a client changed data on the sender; none if no client did since its daemon started.
    pub last_write: Option<Duration>,
    /// What failed on the sender and was not repaired; empty for nothing.
    pub fault: String,
    /// What an operator does about it.
    pub hint: String,
}

impl Report {
    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        w.u8(code_of(&Mode::ALL, self.effective));
        w.flag(self.paused);
        w.flag(self.ahead);
        w.u64(self.differing);
        w.flag(self.only_here.is_some());
        w.u64(self.only_here.unwrap_or_default().0);
        w.flag(self.last_write.is_some());
        let age = self.last_write.unwrap_or_default().as_millis();
        w.u64(u64::try_from(age).unwrap_or(u64::MAX));
        w.text(&self.fault);
        w.text(&self.hint);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, Short> {
        let effective = from_code(&Mode::ALL, r.u8()?)?;
        let (paused, ahead, differing) = (r.flag()?, r.flag()?, r.u64()?);
        let only_here = match (r.flag()?, r.u64()?) {
            (true, bytes) => Some(Bytes(bytes)),
            (false, 0) => None,
            _ => return Err(Short),
        };
        let last_write = match (r.flag()?, r.u64()?) {
            (true, age) => Some(Duration::from_millis(age)),
            (false, 0) => None,
            _ => return Err(Short),
        };
        Ok(Self {
            effective,
            paused,
            ahead,
            differing,
            only_here,
            last_write,
            fault: r.text()?,
            hint: r.text()?,
        })
    }
}

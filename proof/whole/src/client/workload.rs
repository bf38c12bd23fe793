// SPDX-License-Identifier: Apache-2.0
//! What a client is like, and which requests it makes, drawn from dice.

use super::mischief::Mischief;
use crate::model::Action;
use helio_engine::Operation;
use helio_nbd::codec::{command, command_flag};
use helio_nbd::{Form, TransmissionFlags};
use helio_units::Extent;
use std::time::Duration;

/// Gives a number below the one it is given.
pub type Dice<'a> = &'a mut dyn FnMut(u64) -> u64;

/// What a client asks of the server: each request, and its end.
pub(crate) const LABELS: [&str; 12] = [
    "read",
    "write",
    "write with FUA",
    "write zeroes",
    "write zeroes with FUA",
    "trim",
    "trim with FUA",
    "flush",
    "block status",
    "cache",
    DISCONNECT,
    BREAK_OFF,
];
/// It leaves in order.
pub(super) const DISCONNECT: &str = "disconnect";
/// It leaves within a request.
pub(crate) const BREAK_OFF: &str = "break off";

/// How a client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// With DISC, once everything was answered.
    Politely,
    /// With DISC, while requests wait for their answers.
    Early,
    /// In the middle of a request's header or payload.
    InRequest {
        /// By a reset; else it closes in order.
        reset: bool,
    },
    /// With DISC, once it is retired.
    Retired,
}

/// A client that takes its time to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Bytes it receives at once.
    pub bytes: usize,
    /// Time between.
    pub every: Duration,
}

/// What a client is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Habits {
    /// The export's name.
    pub export: String,
    /// The volume's number in the model.
    pub volume: u16,
    /// Requests it makes on each connection before it leaves.
    pub requests: u32,
    /// Requests that may wait for their answers at once.
    pub depth: usize,
    /// The form of replies it asks for.
    pub form: Form,
    /// Whether it chooses metadata contexts.
    pub contexts: bool,
    /// Longest request, in sectors.
    pub longest: u64,
    /// Sectors, from the beginning, that three of four requests are about.
    pub hot: u64,
    /// Longest pause between two requests.
    pub pause: Duration,
    /// How it receives; `None` for as much as there is.
    pub pace: Option<Pace>,
    /// How it leaves.
    pub leaving: Leaving,
    /// What it does instead of all that.
    pub mischief: Option<Mischief>,
}

impl Habits {
    /// The time until the next request.
    pub(super) fn pause(&self, dice: Dice<'_>) -> Duration {
        let most = u64::try_from(self.pause.as_nanos()).unwrap_or(u64::MAX - 1);
        Duration::from_nanos(dice(most + 1))
    }

    /// A client that makes some short requests, and leaves.
    #[must_use]
    pub fn plain(export: &str, volume: u16) -> Self {
        Self {
            export: export.to_owned(),
            volume,
            requests: 12,
            depth: 8,
            form: Form::Structured,
            contexts: true,
            longest: 8,
            hot: 64,
            pause: Duration::ZERO,
            pace: None,
            leaving: Leaving::Politely,
            mischief: None,
        }
    }

    /// Draws what a client of that export is like; one of eight misbehaves.
    pub fn draw(export: &str, volume: u16, dice: Dice<'_>) -> Self {
        let form = [Form::Simple, Form::Structured, Form::Extended][dice(3) as usize];
        let slow = dice(5) == 0;
        let pace = slow.then(|| Pace {
            bytes: 1 + dice(6000) as usize,
            every: Duration::from_micros(1 + dice(20_000)),
        });
        let leaving = match dice(4) {
            0 => Leaving::Early,
            1 => Leaving::InRequest { reset: dice(2) == 0 },
            _ => Leaving::Politely,
        };
        let rude = dice(8) == 0;
        Self {
            export: export.to_owned(),
            volume,
            requests: 1 + dice(200) as u32,
            depth: 1 + dice(24) as usize,
            form,
            contexts: dice(2) == 0,
            longest: 1 << dice(8),
            hot: 1 << (3 + dice(6)),
            pause: Duration::from_micros([0, 50, 3000][dice(3) as usize]),
            pace,
            leaving,
            mischief: rude.then(|| Mischief::ALL[dice(Mischief::ALL.len() as u64) as usize]),
        }
    }
}

/// What a request asks of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    WriteZeroes { no_hole: bool },
    Trim,
    Flush,
    Status { one: bool },
    Cache,
}

impl Kind {
    /// Whether it changes data.
    const fn changes(self) -> bool {
        matches!(self, Self::Write | Self::WriteZeroes { .. } | Self::Trim)
    }
}

/// A request before it has a name. A write that is made again after a reconnect is another write, with
/// bytes of its own, so that a late effect of the first one is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) kind: Kind,
    pub(super) extent: Extent,
    pub(super) fua: bool,
}

impl Plan {
    /// A request of a script. Whether it is forced, and whether zeros may be holes, is drawn.
    pub(super) fn of(operation: Operation, dice: Dice<'_>) -> Self {
        let (kind, extent) = match operation {
            Operation::Read(extent) => (Kind::Read, extent),
            Operation::Write { extent, .. } => (Kind::Write, extent),
            Operation::Zero { extent, .. } => (Kind::WriteZeroes { no_hole: dice(2) == 0 }, extent),
            Operation::Discard { extent, .. } => (Kind::Trim, extent),
            Operation::Flush => (Kind::Flush, Extent::default()),
        };
        Self { kind, extent, fua: kind.changes() && dice(8) == 0 }
    }

    /// The same as far as an export offers it: without TRIM it is asked for zeros.
    pub(super) fn offered(self, flags: TransmissionFlags) -> Self {
        let kind = match self.kind {
            Kind::Trim if !flags.has(TransmissionFlags::SEND_TRIM) => {
                Kind::WriteZeroes { no_hole: false }
            }
            other => other,
        };
        Self { kind, fua: self.fua && flags.has(TransmissionFlags::SEND_FUA), ..self }
    }

    /// Draws a request that the export offers.
    pub(super) fn draw(
        habits: &Habits,
        (size, block): (u64, u64),
        flags: TransmissionFlags,
        contexts: bool,
        dice: Dice<'_>,
    ) -> Self {
        let kind = match dice(32) {
            0..11 => Kind::Read,
            11..22 => Kind::Write,
            22..24 => Kind::Flush,
            24..26 => Kind::WriteZeroes { no_hole: dice(2) == 0 },
            26..28 if flags.has(TransmissionFlags::SEND_TRIM) => Kind::Trim,
            28..30 if contexts => Kind::Status { one: dice(3) == 0 },
            30 if flags.has(TransmissionFlags::SEND_CACHE) => Kind::Cache,
            _ => Kind::Read,
        };
        let kind = match kind {
            other if other.changes() && flags.has(TransmissionFlags::READ_ONLY) => Kind::Read,
            other => other,
        };
        let unit = block.max(512);
        let units = (size / unit).max(1);
        let longest = (habits.longest * 512 / unit).clamp(1, units);
        let length = 1 + dice(longest);
        let within =
            if dice(4) == 0 { units } else { (habits.hot * 512 / unit).clamp(length, units) };
        let first = dice(within - length.min(within) + 1);
        let extent = if kind == Kind::Flush {
            Extent::default()
        } else {
            Extent::new(first * unit, length * unit)
        };
        let fua = kind.changes() && flags.has(TransmissionFlags::SEND_FUA) && dice(8) == 0;
        Self { kind, extent, fua }
    }

    /// The command's number and flags.
    pub(super) const fn command(self) -> (u16, u16) {
        let fua = if self.fua { command_flag::FUA } else { 0 };
        match self.kind {
            Kind::Read => (command::READ, 0),
            Kind::Write => (command::WRITE, fua),
            Kind::WriteZeroes { no_hole: true } => {
                (command::WRITE_ZEROES, fua | command_flag::NO_HOLE)
            }
            Kind::WriteZeroes { no_hole: false } => (command::WRITE_ZEROES, fua),
            Kind::Trim => (command::TRIM, fua),
            Kind::Flush => (command::FLUSH, 0),
            Kind::Status { one: true } => (command::BLOCK_STATUS, command_flag::REQ_ONE),
            Kind::Status { one: false } => (command::BLOCK_STATUS, 0),
            Kind::Cache => (command::CACHE, 0),
        }
    }

    /// The same for people.
    pub(super) const fn label(self) -> &'static str {
        match (self.kind, self.fua) {
            (Kind::Read, _) => "read",
            (Kind::Write, false) => "write",
            (Kind::Write, true) => "write with FUA",
            (Kind::WriteZeroes { .. }, false) => "write zeroes",
            (Kind::WriteZeroes { .. }, true) => "write zeroes with FUA",
            (Kind::Trim, false) => "trim",
            (Kind::Trim, true) => "trim with FUA",
            (Kind::Flush, _) => "flush",
            (Kind::Status { .. }, _) => "block status",
            (Kind::Cache, _) => "cache",
        }
    }

    /// The same for the model.
    pub(super) const fn action(self) -> Action {
        let Self { extent, fua, .. } = self;
        match self.kind {
            Kind::Read | Kind::Status { .. } => Action::Read(extent),
            Kind::Write => Action::Write { extent, fua },
            Kind::WriteZeroes { .. } | Kind::Trim => Action::Zero { extent, fua },
            Kind::Flush => Action::Flush,
            Kind::Cache => Action::Hint,
        }
    }
}

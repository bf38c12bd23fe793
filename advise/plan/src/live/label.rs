// SPDX-License-Identifier: Apache-2.0
//! The rules by name: what each says, and who says so. docs/reference/advise.md has the same table, held to this one
//! by a test.

use core::fmt;

/// A rule of live advice. Its word is stable: programs may look for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// The queue's high water in bytes.
    QueueBytes,
    /// The same in items.
    QueueItems,
    /// More comes than is sent.
    QueueFills,
    /// Writes waited for room.
    WritesWait,
    /// Writes failed for want of room.
    WritesRefused,
    /// The queue was given up for want of room.
    QueueDropped,
    /// Less than was asked for.
    BuffersCapped,
    /// Not one size.
    BuffersUnequal,
    /// Sending waits for them.
    BuffersLimit,
    /// The mode, by Sun's TABLE 2.
    ModeUnsuited,
    /// Slower than planned.
    LinkRate,
    /// Longer than planned.
    LinkRoundTrip,
    /// Another mode than planned.
    PlanMode,
    /// A smaller queue than planned.
    PlanQueue,
    /// Fuller than planned.
    PlanHighWater,
    /// Further behind than planned.
    PlanLag,
    /// Slower answers than planned, of the slowest.
    PlanLatency,
    /// The same in the middle.
    PlanMedian,
    /// The slowest flushes.
    PlanFlushLatency,
    /// More is written than planned.
    PlanLoad,
}

const SUN: &str =
    "Sun remote mirror 3.1: \"frequently reaches 80 to 85 percent, then increase the queue size\"";
const HADR_SIZE: &str = "HADR TCP tuning: \"use a single size for all 4\" buffers, at both ends";
const OURS: &str = "ours: a forecast is right to a tenth at best";
const OURS_P99: &str = "ours: of 99th percentiles a forecast is right to a quarter";

/// Of every rule, in the order of [`Label::ALL`]: its word, what it says, and who says so.
const WORDS: [[&str; 3]; Label::ALL.len()] = [
    ["queue-bytes", "high water from 80 % of the limit on: watch; from 85 %: change", SUN],
    ["queue-items", "the same, in items", "Sun remote mirror 3.1: `async_item_hwm`"],
    [
        "queue-fills",
        "the queue was under pressure, and more was written than sent: watch, with the time until it is full",
        "Sun remote mirror 3.1, appendix A: limit ÷ (fill − drain)",
    ],
    [
        "writes-wait",
        "a write waited for space during the measurement: change; since the queue was reset: watch",
        "Sun remote mirror 3.1: `async_throttle_delay`",
    ],
    [
        "writes-refused",
        "a write failed at the limit during the measurement: change; since the queue was reset: watch",
        "ours: the policy `fail`",
    ],
    [
        "queue-dropped",
        "the queue was dropped at the limit during the measurement: change; since the queue was reset: watch",
        "ours: the policy `log`",
    ],
    [
        "buffers-capped",
        "a socket buffer is less than twice the requested size, which Linux grants: change",
        "HADR TCP tuning: \"verify the actual size against the requested size\"",
    ],
    ["buffers-unequal", "the requested sizes differ: change", HADR_SIZE],
    [
        "buffers-limit",
        "a socket buffer was full for half of the time with data to send. It carries at most twice the sent rate: \
         change; it carries more: watch",
        "ours, from the kernel's TCP_INFO; the right size is Sun's 2 × bandwidth × delay",
    ],
    [
        "mode-unsuited",
        "writers wait for a peer at 10 ms or more, or any queue fills: change; async with a nearer peer: watch",
        "Sun remote mirror 3.1, TABLE 2",
    ],
    [
        "link-rate",
        "the queue was under pressure, and less than 90 % of the planned rate was sent: change",
        "ours: protocols add 4 to 6 %",
    ],
    [
        "link-round-trip",
        "the least round trip is more than a tenth and 1 ms above the planned one: change",
        OURS,
    ],
    ["plan-mode", "another mode than the forecast's: change", "ours"],
    ["plan-queue", "a limit below the forecast's: change; an automatic one: watch", "ours"],
    ["plan-high-water", "more than a tenth above the forecast's: watch", OURS],
    [
        "plan-lag",
        "at every sample more than a tenth, 64 KiB and 10 ms above the forecast 99th percentile: change",
        OURS,
    ],
    [
        "plan-latency",
        "the p99 of writes is more than a quarter and 1 ms above the forecast: change",
        OURS_P99,
    ],
    [
        "plan-median",
        "the median of writes is more than a tenth and 1 ms above the forecast: watch",
        OURS,
    ],
    [
        "plan-flush-latency",
        "the p99 of flushes is more than a quarter and 1 ms above the forecast: change",
        OURS_P99,
    ],
    ["plan-load", "the write rate is more than a tenth above the forecast: watch", OURS],
];

/// What a rule says of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Something should be changed.
    Change,
    /// Something should be kept an eye on.
    Watch,
    /// As it should be.
    Well,
    /// It could not be judged.
    Unknown,
}

impl Verdict {
    /// The word in text and JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Watch => "watch",
            Self::Well => "well",
            Self::Unknown => "unknown",
        }
    }
}

impl Label {
    /// Every rule, in the order they are told.
    pub const ALL: [Self; 20] = [
        Self::QueueBytes,
        Self::QueueItems,
        Self::QueueFills,
        Self::WritesWait,
        Self::WritesRefused,
        Self::QueueDropped,
        Self::BuffersCapped,
        Self::BuffersUnequal,
        Self::BuffersLimit,
        Self::ModeUnsuited,
        Self::LinkRate,
        Self::LinkRoundTrip,
        Self::PlanMode,
        Self::PlanQueue,
        Self::PlanHighWater,
        Self::PlanLag,
        Self::PlanLatency,
        Self::PlanMedian,
        Self::PlanFlushLatency,
        Self::PlanLoad,
    ];

    const fn words(self) -> [&'static str; 3] {
        WORDS[self as usize]
    }

    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        self.words()[0]
    }

    /// What it says.
    #[must_use]
    pub const fn rule(self) -> &'static str {
        self.words()[1]
    }

    /// Who says so.
    #[must_use]
    pub const fn source(self) -> &'static str {
        self.words()[2]
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

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
    ["queue-bytes", "high water from 80 % of the bound on: watch; from 85 %: change", SUN],
    ["queue-items", "the same, in items", "Sun remote mirror 3.1: `async_item_hwm`"],
    [
        "queue-fills",
        "the queue was pressed, and more came than was sent: watch, with the time until it is full",
        "Sun remote mirror 3.1, appendix A: bound ÷ (fill − drain)",
    ],
    [
        "writes-wait",
        "a write waited for room during the measurement: change; since the queue was reset: watch",
        "Sun remote mirror 3.1: `async_throttle_delay`",
    ],
    [
        "writes-refused",
        "a write failed at the bound during the measurement: change; since the queue was reset: watch",
        "ours: the policy `fail`",
    ],
    [
        "queue-dropped",
        "the queue was dropped at the bound during the measurement: change; since the queue was reset: \
         watch",
        "ours: the policy `log`",
    ],
    [
        "buffers-capped",
        "a socket buffer is less than twice what was asked for, which Linux grants: change",
        "HADR TCP tuning: \"verify the actual size against the requested size\"",
    ],
    ["buffers-unequal", "not one size is asked for: change", HADR_SIZE],
    [
        "buffers-limit",
        "for half of the time there was something to send, a socket buffer was full that carries \
         no more than twice what went out: change; one that carries more: watch",
        "ours, by the kernel's TCP_INFO; what is right for them is Sun's 2 × bandwidth × delay",
    ],
    [
        "mode-unsuited",
        "writers wait for a peer 10 ms and more away, or no queue lasts: change; a nearer one \
         could be waited for: watch",
        "Sun remote mirror 3.1, TABLE 2",
    ],
    [
        "link-rate",
        "the queue was pressed, and less than 90 % of the rate that was planned was sent: change",
        "ours: what protocols add is 4 to 6 %",
    ],
    [
        "link-round-trip",
        "the least round trip is more than a tenth and 1 ms above the one that was planned: change",
        OURS,
    ],
    ["plan-mode", "another mode than the forecast's: change", "ours"],
    ["plan-queue", "a bound below the forecast's: change; an automatic one: watch", "ours"],
    ["plan-high-water", "more than a tenth above the forecast's: watch", OURS],
    [
        "plan-lag",
        "at every look more than a tenth, 64 KiB and 10 ms above what 99 % of the moments were \
         forecast: change",
        OURS,
    ],
    [
        "plan-latency",
        "99 of 100 writes take more than a quarter and 1 ms above what was forecast for 99: change",
        OURS_P99,
    ],
    [
        "plan-median",
        "half of the writes take more than a tenth and 1 ms above what was forecast for half: watch",
        OURS,
    ],
    [
        "plan-flush-latency",
        "99 of 100 flushes take more than a quarter and 1 ms above what was forecast for 99: change",
        OURS_P99,
    ],
    ["plan-load", "more than a tenth above what was forecast is written: watch", OURS],
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

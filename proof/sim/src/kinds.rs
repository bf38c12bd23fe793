// SPDX-License-Identifier: Apache-2.0
//! The kinds of misfortune, how likely each is, and those that wait for what makes them bearable.

use crate::scenario::pick;
use helio_netmodel::Dice;

/// A node whose machine went back to an earlier snapshot.
const ROLLED_BACK: u32 = 8;
/// A virtual machine whose memory went back, too.
const SUSPENDED: u32 = 20;
/// A metadata file that came back from a backup, beside a disk that did not.
const METADATA_RESTORED: u32 = 6;
/// A state directory that is lost, and sometimes found again.
const METADATA_LOST: u32 = 6;
/// A before-image file that is lost, with or without what is kept in it.
const BEFORE_LOST: u32 = 6;
/// Another disk in a volume's place.
const WRONG_DISK: u32 = 3;
/// A disk that calls flushed what is not; in few stories, since the oracle asks less of them.
const LYING_FLUSH: u32 = 4;

/// Reads and writes that a disk lies about. A story of its own class, since nothing detects them.
const LYING_STORAGE: u32 = 40;

/// A kind of misfortune.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The link gets other figures.
    Weather,
    /// Nothing arrives any more, and nobody is told.
    Silence,
    /// Nothing arrives any more one way.
    OneWay,
    /// The connection breaks.
    Reset,
    /// It breaks, and one end is not told.
    HalfOpen,
    /// The end of the old connection comes after the beginning of the new one.
    LateClose,
    /// A process is killed.
    Kill,
    /// A node loses its power.
    Power,
    /// Both go down.
    Both,
    /// An operation on a disk fails.
    Disk,
    /// A disk is full.
    Full,
    /// A disk is slow.
    Slow,
    /// A write or flush of the metadata file fails.
    Metadata,
    /// A process stands still.
    Hang,
    /// A process stands still at the worst moment: between reading its clock and acting, or between deciding on an
    /// acknowledgement and sending it; or uncounted by any clock. The other may take over meanwhile.
    Pause,
    /// A clock runs at its own speed, or leaps ahead.
    Clock,
    /// The operator says log, update, another mode at the wrong moment.
    Operator,
    /// A planned switch.
    Switch,
    /// A clean stop.
    Stop,
    /// Cut off from each other, both serve.
    Split,
    /// The serving node dies, and the other takes over at once.
    Usurp,
    /// A before-image file finds no room, or fails.
    Room,
    /// A machine is rolled back to a snapshot.
    RolledBack,
    /// A machine goes back to a snapshot of its disks and its memory: a secondary's in mid-story, a primary's as its last act.
    Suspended,
    /// A metadata file is restored from a backup.
    MetadataRestored,
    /// A metadata file is lost.
    MetadataLost,
    /// A before-image file is lost.
    BeforeLost,
    /// More generations than a lineage remembers begin on one node, out of its peer's sight.
    Forks,
    /// A disk is swapped for a wrong one.
    WrongDisk,
    /// A disk lies.
    LyingFlush,
    /// A disk reports success and did something else.
    LyingStorage,
    /// The two hear nothing of each other while one holds a lease, which is tried.
    Lease,
    /// The first sync comes by a disk that is shipped.
    Seed,
    /// The operator takes the secondary's copy over the primary's own.
    Reverse,
    /// Something is in the way of a change of roles that has begun.
    Haste,
    /// A disk is lost, and another one is put in its place while the node runs.
    Replace,
    /// A node's disk has other blocks when it comes back.
    Blocks,
    /// A setting is applied while the nodes run, on one or on both.
    Apply,
    /// The hook takes its time, or refuses.
    Hook,
    /// A group fails, and its daemon goes on without it.
    Unserved,
    /// A disk ends nothing that it is asked for.
    SilentDisk,
}

/// Kind, name, how likely in parts of the sum, and the faults it brings.
type Row = (Kind, &'static str, u32, &'static [&'static str]);

const KINDS: [Row; 41] = [
    (Kind::Weather, "weather", 8, &["weather"]),
    (Kind::Silence, "silence", 12, &["silence"]),
    (Kind::OneWay, "one-way", 8, &["one-way"]),
    (Kind::Reset, "reset", 14, &["reset"]),
    (Kind::HalfOpen, "half-open", 5, &["half-open"]),
    (Kind::LateClose, "late-close", 5, &["late-close"]),
    (Kind::Kill, "kill", 14, &["kill", "torn-at-end"]),
    (Kind::Power, "power", 8, &["power"]),
    (Kind::Both, "both-down", 2, &["both-down"]),
    (
        Kind::Disk,
        "disk",
        5,
        &[
            "read-fails",
            "write-fails",
            "write-fails-torn",
            "flush-fails",
            "overlapped-flush-fails",
            "drops-hidden",
            "drops-visible",
            "drops-hidden-leading",
            "drops-visible-leading",
            "drops-at-restart",
            "suspect-accepted",
        ],
    ),
    (Kind::Full, "disk-full", 2, &["disk-full"]),
    (Kind::Slow, "slow-disk", 5, &["slow-disk"]),
    (
        Kind::Metadata,
        "metadata",
        3,
        &["metadata-write-fails", "metadata-flush-fails", "metadata-full"],
    ),
    (Kind::Hang, "hang", 5, &["hang"]),
    (Kind::Pause, "pause", 8, &["pause", "pause-stale-clock", "pause-unsent", "pause-uncounted"]),
    (Kind::Clock, "clock", 4, &["clock-leaps", "clock-drifts"]),
    (
        Kind::Operator,
        "operator",
        12,
        &["log", "update", "full", "mode", "measure", "retry-succeeds"],
    ),
    (Kind::Switch, "switch", 8, &["switch", "promotions-crossed"]),
    (Kind::Stop, "clean-stop", 4, &["clean-stop"]),
    (Kind::Split, "split-brain", 1, &["split-brain"]),
    (Kind::Usurp, "usurp", 4, &["usurp"]),
    (Kind::Room, "room", 4, &["no-room", "before-file-fails"]),
    (Kind::RolledBack, "rolled-back", ROLLED_BACK, &["rolled-back"]),
    (Kind::Suspended, "suspended", SUSPENDED, &["resumed", "rewound"]),
    (Kind::MetadataRestored, "metadata-restored", METADATA_RESTORED, &["metadata-restored"]),
    (
        Kind::MetadataLost,
        "metadata-lost",
        METADATA_LOST,
        &["metadata-missing", "metadata-zeroed", "blank-promoted"],
    ),
    (Kind::BeforeLost, "before-lost", BEFORE_LOST, &["before-missing", "before-zeroed"]),
    (Kind::Forks, "forks", 3, &["forks"]),
    (Kind::WrongDisk, "wrong-disk", WRONG_DISK, &["wrong-disk"]),
    (Kind::LyingFlush, "lying-flush", LYING_FLUSH, &["lying-flush"]),
    (
        Kind::LyingStorage,
        "lying-storage",
        LYING_STORAGE,
        &["write-lost", "write-misdirected", "read-stale"],
    ),
    (Kind::Lease, "lease", 20, &["lease"]),
    (Kind::Seed, "seed", 10, &["seed"]),
    (Kind::Reverse, "reverse", 4, &["reverse"]),
    (Kind::Haste, "haste", 12, &["haste"]),
    (Kind::Replace, "replace", 12, &["disk-replaced-leading", "disk-replaced-following"]),
    (Kind::Blocks, "blocks", 4, &["blocks-change", "larger-blocks-refused"]),
    (
        Kind::Apply,
        "apply",
        8,
        &[
            "apply-mode",
            "apply-queue",
            "apply-timeouts",
            "apply-autosync",
            "apply-resync",
            "apply-hold",
            "apply-hook",
            "apply-safe-copy",
            "apply-on-error",
            "apply-one-node",
        ],
    ),
    (Kind::Hook, "hook", 4, &["hook-delays", "hook-refuses"]),
    (Kind::Unserved, "unserved", 6, &["unserved", "unserved-ends-check"]),
    (
        Kind::SilentDisk,
        "silent-disk",
        10,
        &["disk-silent", "silent-disk-given-up", "late-operations-end"],
    ),
];

/// How likely a kind is that is asked for by name and has no odds of its own yet.
const ASKED_FOR: u32 = 6;

impl Kind {
    /// Every kind, those that wait included.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().map(|(kind, ..)| *kind)
    }

    /// The kinds that strike without being asked for.
    pub fn common() -> impl Iterator<Item = Self> {
        KINDS.iter().filter(|(_, _, odds, _)| *odds > 0).map(|(kind, ..)| *kind)
    }

    fn row(self) -> &'static Row {
        &KINDS[self as usize]
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|kind| kind.name() == name)
    }

    /// The faults it brings, as the coverage report calls them.
    #[must_use]
    pub fn labels(self) -> &'static [&'static str] {
        self.row().3
    }
}

/// The odds of one story: what is rare together everywhere is frequent somewhere.
pub(crate) fn odds(
    dice: &mut Dice,
    asked_for: impl Fn(Kind) -> bool,
    is_out: impl Fn(Kind) -> bool,
) -> Vec<(u32, Kind)> {
    let odds = |(kind, _, odds, _): &Row| {
        let taste = pick(dice, &[0, 1, 1, 5, 20]);
        match (*odds, asked_for(*kind)) {
            (0, false) => (0, *kind),
            _ if is_out(*kind) => (0, *kind),
            (0, true) => (ASKED_FOR * taste + 1, *kind),
            (odds, _) => (odds * taste + 1, *kind),
        }
    };
    KINDS.iter().map(odds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_stands_in_its_row_and_has_a_name_of_its_own() {
        for (n, kind) in Kind::all().enumerate() {
            assert_eq!((kind as usize, Kind::named(kind.name())), (n, Some(kind)));
        }
    }
}

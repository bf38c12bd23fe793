// SPDX-License-Identifier: Apache-2.0
//! Who is source, and what must travel: the table that settles it when two nodes meet.
//!
//! One side would stream (the *source*: it serves as primary, or wants to), the other would follow (the
//! *target*). Facts come from both hellos and, for the rows that resume or copy, from the source's memory. The first
//! row that matches decides; its label stands in logs, in `helio status` and in docs/reference/recovery.md. A row that
//! matches nothing cannot exist and no combination is without a row: the test walks them all.
//!
//! * `own`: the target answered writes as a primary that the source's image may lack.
//! * `trusted`: the target's marks and hot extents cover everything in which it may differ. The source's own always
//!   do while it serves: where its record says they prove nothing, it marked everything when it became primary.
//!   A target on another disk than its record names trusts nothing of the record.
//! * a node's metadata is *old* where the other remembers a higher count of its changes than it has: the machine was
//!   rolled back, or the metadata was restored from a backup. A machine that went back with its memory shows the same: a
//!   source behind what the target received in its generation, or without that generation, a target behind what it had
//!   reported as durable.

use helio_format::lineage::Relation;
use helio_format::message::Hello;
use helio_plant::{Plant, planted};
use helio_units::{Generation, Sequence};

/// What the source should do about this target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing may travel; the rule's label says why.
    Refuse,
    /// Stream from behind what the target received.
    ResumeReceived,
    /// Stream from behind what the target has durable.
    ResumeDurable,
    /// The copies are equal: stream what comes.
    ResumeEqual,
    /// Copy the regions that either side has marked.
    UpdateMarks,
    /// Mark everything and copy it.
    UpdateAll,
    /// A disk is being shipped: nothing travels until the operator says that it is there.
    AwaitSeed,
    /// The target's image is the disk that was shipped: copy what the source marked since.
    UpdateSeeded,
}

/// How the target's history stands to the source's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinship {
    /// The target never took part.
    New,
    /// Same generation.
    Same,
    /// The target stands exactly at the fork point of the source's parent generation, cleanly.
    AtFork,
    /// The target's generation is an ancestor of the source's.
    Behind,
    /// Both forked from one generation.
    Sibling,
    /// The target's generation descends from the source's.
    Descendant,
    /// Neither.
    Unrelated,
}

impl Kinship {
    pub(crate) const ALL: [Self; 7] = [
        Self::New,
        Self::Same,
        Self::AtFork,
        Self::Behind,
        Self::Sibling,
        Self::Descendant,
        Self::Unrelated,
    ];
}

/// Everything the table looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The target is serving as primary itself.
    pub target_serves: bool,
    /// How the histories stand.
    pub kinship: Kinship,
    /// The target answered writes of its own that the source may lack.
    pub own: bool,
    /// The target gave answers that nobody else need have.
    pub alone: bool,
    /// The target's image keeps the order promise.
    pub consistent: bool,
    /// The target was primary in its generation and did not stop cleanly.
    pub crashed: bool,
    /// The target's marks cover everything in which it may differ.
    pub trusted: bool,
    /// One of the two recorded that the other's metadata tells nothing of what it did last.
    pub invalid: bool,
    /// The source's metadata is older than the target remembers.
    pub source_old: bool,
    /// The target's metadata is older than the source remembers.
    pub target_old: bool,
    /// An operator said that what the target holds counts for nothing.
    pub discarded: bool,
    /// The source's record says the copies are equal at its head, and everything since is on its line.
    pub equal: bool,
    /// The target kept its memory since the source last streamed to it.
    pub same_memory: bool,
    /// The line can be resumed behind what the target received.
    pub line_from_received: bool,
    /// The line can be resumed behind what the target is known to have durable.
    pub line_from_durable: bool,
    /// A disk is being shipped to the target; the source's marks are those against that disk, and no other copy.
    pub seeding: bool,
    /// The target's image was compared with the source's and found to be that disk, and nothing travelled since.
    pub seeded: bool,
    /// The source lacks regions of its own store, which only the target held: it has nothing to copy from.
    pub source_lacks: bool,
    /// A flush of the source's store failed: what its image holds of earlier writes is unknown.
    pub source_suspect: bool,
    /// The source reports that its copy is not consistent, or suspect.
    pub source_broken: bool,
    /// A flush of the target's store failed: what it reads there proves nothing.
    pub target_suspect: bool,
}

impl Facts {
    /// Whether the target's image is the disk that was shipped, and nothing since makes the marks against it void.
    const fn is_shipped_disk(&self) -> bool {
        self.seeded && !self.invalid && !self.target_suspect
    }

    /// Whether the target's copy is what the source's generation began from.
    const fn is_equal_at_fork(&self) -> bool {
        let vouched = self.consistent && !self.own && !self.target_old && !self.invalid;
        matches!(self.kinship, Kinship::AtFork) && vouched
    }
}

/// A row of the table: what must hold (`None`: either), and what follows.
struct Row {
    label: &'static str,
    verdict: Verdict,
    serves: Option<bool>,
    kinship: &'static [Kinship],
    own: Option<bool>,
    alone: Option<bool>,
    consistent: Option<bool>,
    crashed: Option<bool>,
    trusted: Option<bool>,
    invalid: Option<bool>,
    /// source, target
    old: [Option<bool>; 2],
    discarded: Option<bool>,
    /// equal, same memory, line from received, line from durable
    memory: [Option<bool>; 4],
    /// seeding, the image is still the shipped disk
    seed: [Option<bool>; 2],
    suspect: Option<bool>,
    /// of the source: regions are missing, the copy is suspect, the copy is broken
    source: [Option<bool>; 3],
}

const ANY: [Option<bool>; 4] = [None; 4];
const Y: Option<bool> = Some(true);
const N: Option<bool> = Some(false);

/// * `two-primaries`: both accept writes; only people can say whose count.
/// * `source-metadata-lost`: the source's metadata is younger than the target remembers, and begins a history of its own:
///   the metadata before it is lost, and with it what the source's image is.
/// * `unrelated`: the two never shared a history.
/// * `source-rolled-back`: the source's machine or metadata is older than what the target saw of it; the target may
///   hold answered writes that the source lost.
/// * `newer-elsewhere`: the target's history continued beyond the source's; the source must not lead.
/// * `split-brain`: both answered writes of their own since their histories parted.
/// * `both-crashed`: the target was primary and crashed or left more than it knew delivered, and the source had restarted
///   before it took over: it may have lost what it had confirmed and nobody had flushed.
/// * `diverged`: the target was primary and may hold answered writes the source lacks; following would destroy them.
/// * `seeded`: the target's image is the disk that was shipped; the source's marks tell what it may lack.
/// * `seeding`: a disk is on its way to the target, or not yet said to be there; nothing travels.
/// * `metadata-lost`: the target has no metadata, the source remembers some of it, and no operator said that its copy
///   counts for nothing: it may hold answered writes that the source lacks, and proves nothing.
/// * `only-copy-unproven`: the same, and the source's own copy is not complete, or not sure to be: the target's may be the
///   only one that is, so nothing may discard it.
/// * `new-peer`: nothing is there yet; everything is copied.
/// * `target-suspect`: a flush of the target's store failed since it was last written anew: everything is marked; what may
///   not be durable there is written whatever it reads, and no line is resumed.
/// * `metadata-failed`: one of the two could not write its metadata, and the other recorded that; everything is
///   compared.
/// * `target-rolled-back`: the target's machine or metadata is older than what the source saw of it; everything is
///   compared.
/// * `unproven`: the target's marks prove nothing: they are new or lost, or its image was put back from what was kept
///   of it. Everything is compared, and no line is resumed: its cursors may speak of another image.
/// * `equal-at-fork`: a planned hand-over; nothing needs to travel.
/// * `resume-equal`: both stopped in step, or the source did and the target lost nothing.
/// * `resume-received`: the link was away, nobody forgot anything.
/// * `resume-durable`: the target restarted; what it had not made durable comes again.
/// * `crashed-primary`: the target was primary and crashed; all it answered is here, and its marks tell what else it
///   wrote.
/// * `update-marks`: order was lost; the marks of both tell what may differ.
/// * `source-lacks`: something must be copied, and the source itself lacks regions that only the target held.
/// * `source-suspect`: something must be copied, and a flush of the source's own store failed.
const ROWS: [Row; 25] = {
    use Kinship::{AtFork, Behind, Descendant, New, Same, Sibling, Unrelated};
    const fn row(label: &'static str, verdict: Verdict, kinship: &'static [Kinship]) -> Row {
        Row {
            label,
            verdict,
            serves: N,
            kinship,
            own: None,
            alone: None,
            consistent: None,
            crashed: None,
            trusted: None,
            invalid: None,
            old: [None; 2],
            discarded: None,
            memory: ANY,
            seed: [None; 2],
            suspect: None,
            source: [None; 3],
        }
    }
    /// A row that copies: only from a source that has what it copies.
    const fn copy(label: &'static str, verdict: Verdict, kinship: &'static [Kinship]) -> Row {
        Row { source: [N, N, None], ..row(label, verdict, kinship) }
    }
    /// A row that resumes: only towards the image that the target was known to have.
    const fn resume(label: &'static str, verdict: Verdict, kinship: &'static [Kinship]) -> Row {
        Row { suspect: N, invalid: N, old: [None, N], trusted: Y, ..row(label, verdict, kinship) }
    }
    /// A row of a target that lost its metadata.
    const fn lost(label: &'static str) -> Row {
        let new = row(label, Verdict::Refuse, &[New]);
        Row { old: [None, Y], discarded: N, seed: [None, N], ..new }
    }
    const ALL: &[Kinship] = &Kinship::ALL;
    const LINE: &[Kinship] = &[Same, AtFork, Behind];
    const KIN: &[Kinship] = &[Same, AtFork, Behind, Sibling];
    const KNOWN: &[Kinship] = &[Same, AtFork, Behind, Sibling, Descendant];
    const MAY_FOLLOW: &[Kinship] = &[New, Same, AtFork, Behind, Sibling];
    [
        Row { serves: Y, ..row("two-primaries", Verdict::Refuse, ALL) },
        Row { old: [Y, None], ..row(SOURCE_METADATA_LOST, Verdict::Refuse, &[Unrelated]) },
        row("unrelated", Verdict::Refuse, &[Unrelated]),
        Row { old: [Y, None], ..row(SOURCE_ROLLED_BACK, Verdict::Refuse, KNOWN) },
        row(NEWER_ELSEWHERE, Verdict::Refuse, &[Descendant]),
        Row { own: Y, ..row("split-brain", Verdict::Refuse, &[Sibling]) },
        Row { own: Y, alone: N, ..row(BOTH_CRASHED, Verdict::Refuse, LINE) },
        Row { own: Y, ..row(DIVERGED, Verdict::Refuse, LINE) },
        Row { seed: [Y, None], ..row("seeding", Verdict::AwaitSeed, MAY_FOLLOW) },
        Row { seed: [N, Y], ..copy("seeded", Verdict::UpdateSeeded, &[New]) },
        Row { source: [N; 3], ..lost(METADATA_LOST) },
        lost(ONLY_COPY_UNPROVEN),
        copy("new-peer", Verdict::UpdateAll, &[New]),
        Row { suspect: Y, ..copy("target-suspect", Verdict::UpdateAll, KIN) },
        Row { invalid: Y, ..copy("metadata-failed", Verdict::UpdateAll, KIN) },
        Row { old: [None, Y], ..copy("target-rolled-back", Verdict::UpdateAll, KIN) },
        Row { trusted: N, ..copy("unproven", Verdict::UpdateAll, KIN) },
        Row {
            consistent: Y,
            memory: [Y, None, None, None],
            ..resume("equal-at-fork", Verdict::ResumeEqual, &[AtFork])
        },
        Row {
            memory: [None, Y, Y, None],
            ..resume("resume-received", Verdict::ResumeReceived, LINE)
        },
        Row {
            consistent: Y,
            memory: [Y, N, None, None],
            ..resume("resume-equal", Verdict::ResumeEqual, &[Same])
        },
        Row { memory: [N, N, None, Y], ..resume("resume-durable", Verdict::ResumeDurable, LINE) },
        Row { crashed: Y, ..copy("crashed-primary", Verdict::UpdateMarks, KIN) },
        copy("update-marks", Verdict::UpdateMarks, KIN),
        Row { source: [Y, None, None], ..row("source-lacks", Verdict::Refuse, MAY_FOLLOW) },
        Row { source: [N, Y, None], ..row("source-suspect", Verdict::Refuse, MAY_FOLLOW) },
    ]
};

/// The target's history continued beyond the source's.
const NEWER_ELSEWHERE: &str = "newer-elsewhere";
/// The target was primary, and the source may have lost what it had confirmed.
const BOTH_CRASHED: &str = "both-crashed";
/// The target was primary, and may hold acknowledged writes that the source lacks.
const DIVERGED: &str = "diverged";
/// The target lost its metadata.
pub(crate) const METADATA_LOST: &str = "metadata-lost";
/// The target lost its metadata, and has the only copy that may be complete.
pub(crate) const ONLY_COPY_UNPROVEN: &str = "only-copy-unproven";
/// The source lost its metadata.
const SOURCE_METADATA_LOST: &str = "source-metadata-lost";
/// The source went back to an older state.
pub(crate) const SOURCE_ROLLED_BACK: &str = "source-rolled-back";

/// The label of every row, in the order in which they are tried.
pub fn labels() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.label)
}

impl Row {
    fn matches(&self, f: &Facts) -> bool {
        let agrees = |want: Option<bool>, is: bool| want.is_none_or(|w| w == is);
        let memory = [f.equal, f.same_memory, f.line_from_received, f.line_from_durable];
        let seed = [f.seeding, f.is_shipped_disk()];
        let source = [f.source_lacks, f.source_suspect, f.source_broken];
        agrees(self.serves, f.target_serves)
            && self.kinship.contains(&f.kinship)
            && agrees(self.own, f.own)
            && agrees(self.alone, f.alone)
            && agrees(self.consistent, f.consistent)
            && agrees(self.crashed, f.crashed)
            && agrees(self.trusted, f.trusted)
            && agrees(self.invalid, f.invalid)
            && agrees(self.old[0], f.source_old)
            && agrees(self.old[1], f.target_old)
            && agrees(self.discarded, f.discarded)
            && agrees(self.suspect, f.target_suspect)
            && self.memory.iter().zip(memory).all(|(want, is)| agrees(*want, is))
            && self.seed.iter().zip(seed).all(|(want, is)| agrees(*want, is))
            && self.source.iter().zip(source).all(|(want, is)| agrees(*want, is))
    }
}

/// A verdict with the label of the row that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<V = Verdict> {
    /// The row.
    pub label: &'static str,
    /// What follows.
    pub verdict: V,
}

/// Looks the facts up.
#[must_use]
pub fn decide(facts: &Facts) -> Decision {
    let Some(row) = ROWS.iter().find(|row| row.matches(facts)) else {
        panic!("no row of the recovery table covers {facts:?}")
    };
    Decision { label: row.label, verdict: row.verdict }
}

/// Whether metadata of that count is older than what its peer remembers.
#[must_use]
pub fn is_older(metadata: u64, remembered: u64) -> bool {
    remembered > metadata && !planted(Plant::TrustRolledBack)
}

/// Whether a row says that one of the two lost its metadata.
#[must_use]
pub fn is_lost(label: &str) -> bool {
    [METADATA_LOST, ONLY_COPY_UNPROVEN, SOURCE_METADATA_LOST].contains(&label)
}

/// Whether a row refuses a node only because the other one, which was primary, may hold acknowledged writes that it lacks.
#[must_use]
pub fn may_lack_writes(label: &str) -> bool {
    [NEWER_ELSEWHERE, BOTH_CRASHED, DIVERGED].contains(&label)
}

/// Whether a node that would become primary only followed, and the other one holds all that it may hold, and more.
#[must_use]
pub fn only_followed(asker: &Hello, other: &Hello) -> bool {
    let contains = matches!(
        other.lineage.relation_of(&asker.lineage),
        Relation::Same | Relation::Parent(_) | Relation::Older(_)
    );
    let proven = other.clean && !other.suspect;
    contains && !asker.wrote && other.wrote && proven && !planted(Plant::FalseSplit)
}

/// The hello of `asker` as primary, were it to begin behind `durable` from the image of one of its generations. `None`:
/// that generation is not in its history.
fn candidate(asker: &Hello, (from, durable): (Generation, Sequence)) -> Option<Hello> {
    let generation = Generation { number: u64::MAX, tag: u64::MAX };
    let lineage = asker.lineage.back_to(from)?.fork(generation, durable);
    // One that is not consistent goes back to an image which may lack what it had confirmed.
    let sure = asker.sure && asker.consistent;
    Some(Hello { lineage, serving: true, sure, ..asker.clone() })
}

/// What the table says of a node that would become primary behind `head`. `None`: that is not in its history.
#[must_use]
pub fn of_promotion(
    asker: &Hello,
    head: (Generation, Sequence),
    other: &Hello,
) -> Option<(Facts, Decision)> {
    let facts = facts_of(&candidate(asker, head)?, other);
    let decision = decide(&facts);
    if decision.verdict != Verdict::Refuse || facts.source_old || !only_followed(asker, other) {
        return Some((facts, decision));
    }
    // It never was primary: it holds no writes of its own, so no history parted.
    let facts = Facts { kinship: Kinship::Descendant, own: false, ..facts };
    Some((facts, decide(&facts)))
}

/// What the table says of a node that asks for a promotion. `went_back`: it is behind what it sent itself, so that
/// nothing else in its hello counts. `None`: `head` is not in its history.
#[must_use]
pub fn of_request(
    asker: &Hello,
    head: (Generation, Sequence),
    other: &Hello,
    went_back: bool,
) -> Option<Decision> {
    if went_back {
        return Some(Decision { label: SOURCE_ROLLED_BACK, verdict: Verdict::Refuse });
    }
    Some(of_promotion(asker, head, other)?.1)
}

/// Whether the other's copy is what a node would begin from that becomes primary behind `head`, so that nothing has to
/// be marked against it.
#[must_use]
pub fn is_equal_at_fork(asker: &Hello, head: Sequence, other: &Hello) -> bool {
    candidate(asker, (asker.lineage.generation, head))
        .is_some_and(|candidate| facts_of(&candidate, other).is_equal_at_fork())
}

/// Whether a serving source is behind what the target received of this very generation, or began it elsewhere; or does not
/// know that generation. It must have led it, as the target only followed and the two share a history. Its machine went
/// back, and its process with it.
fn is_behind(source: &Hello, target: &Hello) -> bool {
    let behind = match source.lineage.relation_of(&target.lineage) {
        Relation::Same => {
            let seen = target.head.max(target.received);
            seen > source.head || source.lineage != target.lineage
        }
        Relation::Sibling(_) => true,
        _ => false,
    };
    behind
        && source.serving
        && !target.wrote
        && target.is_on_line()
        && !planted(Plant::TrustRewound)
}

/// The facts that two hellos alone tell, from the source's side; its memory counts as empty.
#[must_use]
pub fn facts_of(source: &Hello, target: &Hello) -> Facts {
    // What was answered in sync is wherever it was confirmed, unless that node may have forgotten it since.
    let answered = target.wrote && (target.alone || !source.sure);
    let beyond = |fork: Sequence| answered && (!target.clean || target.head > fork);
    let at_fork = |fork: Sequence| target.clean && target.head == fork && target.durable >= fork;
    let (kinship, own) = match source.lineage.relation_of(&target.lineage) {
        Relation::New => (Kinship::New, false),
        // In one generation there is one writer: if the target wrote it, the source only follows.
        Relation::Same => (Kinship::Same, target.wrote),
        Relation::Parent(fork) if at_fork(fork) => (Kinship::AtFork, beyond(fork)),
        Relation::Parent(fork) | Relation::Older(fork) => (Kinship::Behind, beyond(fork)),
        // What it answered alone may be behind it, and so may what an older record of it does not name.
        Relation::Sibling(parted) => {
            let old = answered && is_older(target.metadata, source.remembers);
            (Kinship::Sibling, target.wrote && target.alone || old || beyond(parted))
        }
        Relation::Descendant(_) => (Kinship::Descendant, false),
        Relation::Unrelated => (Kinship::Unrelated, false),
    };
    Facts {
        target_serves: target.serving,
        kinship,
        own,
        consistent: target.consistent,
        alone: target.alone,
        crashed: target.wrote && !target.clean,
        trusted: target.trusted,
        invalid: source.doubts || target.doubts,
        source_old: is_older(source.metadata, target.remembers) || is_behind(source, target),
        target_old: is_older(target.metadata, source.remembers),
        discarded: target.discarded || planted(Plant::BlankIsNew),
        equal: false,
        same_memory: false,
        line_from_received: false,
        line_from_durable: false,
        seeding: false,
        seeded: false,
        source_lacks: false,
        source_suspect: false,
        source_broken: !source.consistent || source.suspect,
        // One that is being written again has marks that tell how far that is.
        target_suspect: target.suspect && !target.trusted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_combination() -> impl Iterator<Item = Facts> {
        Kinship::ALL.into_iter().flat_map(|kinship| {
            (0..1 << 20).map(move |bits: u32| {
                let bit = |n: u32| bits & (1 << n) != 0;
                Facts {
                    target_serves: bit(0),
                    kinship,
                    own: bit(1),
                    consistent: bit(2),
                    equal: bit(3),
                    same_memory: bit(4),
                    line_from_received: bit(5),
                    line_from_durable: bit(6),
                    crashed: bit(7),
                    trusted: bit(8),
                    source_old: bit(9),
                    target_old: bit(10),
                    alone: bit(11),
                    seeding: bit(12),
                    seeded: bit(13),
                    invalid: bit(14),
                    source_lacks: bit(15),
                    discarded: bit(16),
                    source_suspect: bit(17),
                    target_suspect: bit(18),
                    source_broken: bit(19),
                }
            })
        })
    }

    #[test]
    fn every_combination_has_a_row_and_every_row_a_combination() {
        let mut seen = alloc::collections::BTreeSet::new();
        for facts in every_combination() {
            seen.insert(decide(&facts).label);
        }
        for label in labels() {
            assert!(seen.contains(label), "row {label} can never fire");
        }
    }

    #[test]
    fn the_promises_of_the_table() {
        for f in every_combination() {
            let Decision { label, verdict } = decide(&f);
            let sound =
                Facts { source_lacks: false, source_suspect: false, source_broken: false, ..f };
            let fit = decide(&sound);
            let stranger = matches!(f.kinship, Kinship::Descendant | Kinship::Unrelated);
            let line = matches!(f.kinship, Kinship::Same | Kinship::AtFork | Kinship::Behind);
            let shipped = f.seeding || f.is_shipped_disk();
            let copies = matches!(
                fit.verdict,
                Verdict::UpdateMarks | Verdict::UpdateAll | Verdict::UpdateSeeded
            );
            let sure = !(f.source_lacks || f.source_suspect || f.source_broken);
            let expected = match (copies, f.source_lacks, f.source_suspect) {
                (true, true, _) => "source-lacks",
                (true, false, true) => "source-suspect",
                _ if fit.label == METADATA_LOST && !sure => ONLY_COPY_UNPROVEN,
                _ => fit.label,
            };
            assert_eq!(
                label, expected,
                "the state of the source stops copies, and what may be discarded: {f:?}"
            );
            let must_refuse = f.target_serves
                || stranger
                || ((f.source_lacks || f.source_suspect) && copies)
                || (f.kinship != Kinship::New && (f.own || f.source_old))
                || (f.kinship == Kinship::New && f.target_old && !f.discarded && !shipped);
            assert_eq!(verdict == Verdict::Refuse, must_refuse, "{label}: {f:?}");
            match verdict {
                Verdict::Refuse | Verdict::UpdateAll => {}
                Verdict::ResumeReceived => {
                    assert!(f.same_memory && f.line_from_received && line, "{label}");
                }
                Verdict::ResumeDurable => assert!(f.line_from_durable && line, "{label}"),
                Verdict::ResumeEqual => assert!(f.equal && f.consistent && line, "{label}"),
                Verdict::UpdateMarks => assert!(f.trusted, "{label}: marks that prove nothing"),
                Verdict::AwaitSeed => assert!(f.seeding, "{label}"),
                Verdict::UpdateSeeded => {
                    assert!(!f.invalid, "{label}: marks that tell nothing");
                    assert!(f.kinship == Kinship::New && f.seeded, "{label}");
                }
            }
            let by_marks = verdict == Verdict::UpdateMarks;
            assert!(!(f.equal && f.is_equal_at_fork() && by_marks), "{label}: they were cleared");
            let travels = !matches!(verdict, Verdict::Refuse | Verdict::AwaitSeed);
            assert!(!(f.seeding && travels), "{label}: marks against a disk that is not there");
            let resumes = travels && !matches!(verdict, Verdict::UpdateAll | Verdict::UpdateSeeded);
            assert!(
                !((f.target_old || f.invalid || !f.trusted || f.target_suspect) && resumes),
                "{label}: another image was taken for the one it was"
            );
        }
    }
}

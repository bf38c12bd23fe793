// SPDX-License-Identifier: Apache-2.0
//! Who is source, and what must travel: the table that settles it when two nodes meet.
//!
//! One side would stream (the *source*: it serves as primary, or wants to), the other would follow (the
//! *target*). Facts come from both hellos and, for the last four rows, from the source's memory. The first row
//! that matches decides; its label stands in logs, in `helio status` and in docs/reference/recovery.md. A row that
//! matches nothing cannot exist and no combination is without a row: the test walks them all.
//!
//! `own`: the target accepted writes of its own, as a primary, that the source's image may lack.

use alloc::format;
use alloc::string::String;
use helio_format::lineage::Relation;
use helio_format::message::Hello;
use helio_units::Sequence;

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
    /// Copy the regions marked so far.
    UpdateMarks,
    /// Mark everything and copy it.
    UpdateAll,
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
    Ancestor,
    /// The target's generation descends from the source's.
    Descendant,
    /// Neither.
    Unrelated,
}

impl Kinship {
    const ALL: [Self; 6] =
        [Self::New, Self::Same, Self::AtFork, Self::Ancestor, Self::Descendant, Self::Unrelated];
}

/// Everything the table looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The target is serving as primary itself.
    pub target_serves: bool,
    /// How the histories stand.
    pub kinship: Kinship,
    /// The target may hold writes of its own.
    pub own: bool,
    /// The target's image keeps the order promise.
    pub consistent: bool,
    /// The source's record says the copies are equal at its head, and everything since is on its line.
    pub equal: bool,
    /// The target kept its memory since the source last streamed to it.
    pub same_memory: bool,
    /// The line can be resumed behind what the target received.
    pub line_from_received: bool,
    /// The line can be resumed behind what the target is known to have durable.
    pub line_from_durable: bool,
}

/// A row of the table: what must hold (`None`: either), and what follows.
struct Row {
    label: &'static str,
    verdict: Verdict,
    serves: Option<bool>,
    kinship: &'static [Kinship],
    own: Option<bool>,
    consistent: Option<bool>,
    /// equal, same memory, line from received, line from durable
    memory: [Option<bool>; 4],
}

const ANY: [Option<bool>; 4] = [None; 4];
const Y: Option<bool> = Some(true);
const N: Option<bool> = Some(false);

/// * `two-primaries`: both accept writes; only people can say whose count.
/// * `diverged`: the target was primary and may hold writes the source lacks; following would destroy them.
/// * `newer-elsewhere`: the target's history continued beyond the source's; the source must not lead.
/// * `unrelated`: the two never shared a history.
/// * `new-peer`: nothing is there yet; everything is copied.
/// * `equal-at-fork`: a planned hand-over; nothing needs to travel.
/// * `old-copy`: an older image without writes of its own; everything is copied.
/// * `resume-equal`: both stopped in step, or the source did and the target lost nothing.
/// * `resume-received`: the link was away, nobody forgot anything.
/// * `resume-durable`: the target restarted; what it had not made durable comes again.
/// * `update-marks`: order was lost while the target stayed; the marks know what differs.
/// * `unproven`: order was lost and the target restarted, or the source did; everything is copied.
const ROWS: [Row; 12] = {
    use Kinship::{Ancestor, AtFork, Descendant, New, Same, Unrelated};
    const fn row(label: &'static str, verdict: Verdict, kinship: &'static [Kinship]) -> Row {
        Row { label, verdict, serves: N, kinship, own: None, consistent: None, memory: ANY }
    }
    const ALL: &[Kinship] = &Kinship::ALL;
    [
        Row { serves: Y, ..row("two-primaries", Verdict::Refuse, ALL) },
        Row { own: Y, ..row("diverged", Verdict::Refuse, &[Same, AtFork, Ancestor]) },
        row("newer-elsewhere", Verdict::Refuse, &[Descendant]),
        row("unrelated", Verdict::Refuse, &[Unrelated]),
        row("new-peer", Verdict::UpdateAll, &[New]),
        Row {
            consistent: Y,
            memory: [Y, None, None, None],
            ..row("equal-at-fork", Verdict::ResumeEqual, &[AtFork])
        },
        row("old-copy", Verdict::UpdateAll, &[AtFork, Ancestor]),
        Row {
            memory: [None, Y, Y, None],
            ..row("resume-received", Verdict::ResumeReceived, &[Same])
        },
        Row {
            consistent: Y,
            memory: [Y, N, None, None],
            ..row("resume-equal", Verdict::ResumeEqual, &[Same])
        },
        Row { memory: [N, N, None, Y], ..row("resume-durable", Verdict::ResumeDurable, &[Same]) },
        Row { memory: [None, Y, N, None], ..row("update-marks", Verdict::UpdateMarks, &[Same]) },
        row("unproven", Verdict::UpdateAll, &[Same]),
    ]
};

impl Row {
    fn matches(&self, f: &Facts) -> bool {
        let agrees = |want: Option<bool>, is: bool| want.is_none_or(|w| w == is);
        let memory = [f.equal, f.same_memory, f.line_from_received, f.line_from_durable];
        agrees(self.serves, f.target_serves)
            && self.kinship.contains(&f.kinship)
            && agrees(self.own, f.own)
            && agrees(self.consistent, f.consistent)
            && self.memory.iter().zip(memory).all(|(want, is)| agrees(*want, is))
    }
}

/// The labels of the rows, in the table's order.
pub fn labels() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.label)
}

/// A verdict with the label of the row that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The row.
    pub label: &'static str,
    /// What follows.
    pub verdict: Verdict,
}

/// Looks the facts up.
#[must_use]
pub fn decide(facts: &Facts) -> Decision {
    let Some(row) = ROWS.iter().find(|row| row.matches(facts)) else {
        panic!("no row of the recovery table covers {facts:?}")
    };
    Decision { label: row.label, verdict: row.verdict }
}

/// The facts that two hellos alone tell, from the source's side; its memory counts as empty.
#[must_use]
pub fn facts_of(source: &Hello, target: &Hello) -> Facts {
    let beyond = |fork: Sequence| target.wrote && (!target.clean || target.head > fork);
    let at_fork = |fork: Sequence| target.clean && target.head == fork && target.durable >= fork;
    let (kinship, own) = match source.lineage.relation_of(&target.lineage) {
        Relation::New => (Kinship::New, false),
        // In one generation there is one writer: if the target wrote it, the source only follows.
        Relation::Same => (Kinship::Same, target.wrote),
        Relation::Parent(fork) if at_fork(fork) => (Kinship::AtFork, beyond(fork)),
        Relation::Parent(fork) | Relation::Older(fork) => (Kinship::Ancestor, beyond(fork)),
        Relation::Descendant(_) => (Kinship::Descendant, false),
        Relation::Unrelated => (Kinship::Unrelated, false),
    };
    Facts {
        target_serves: target.serving,
        kinship,
        own,
        consistent: target.consistent,
        equal: false,
        same_memory: false,
        line_from_received: false,
        line_from_durable: false,
    }
}

/// The sentence for people behind a refusal, `us` being the source, and its remedy.
#[must_use]
pub fn explain(label: &str, us: &str, peer: &str) -> (String, String) {
    let rejoin = |who: &str| {
        format!(
            "`helio resolve GROUP --discard {who}` on {who}, once it is secondary; `helio explain GROUP` tells more"
        )
    };
    match label {
        "two-primaries" => (
            format!("both {us} and {peer} serve as primary"),
            String::from("demote the one whose writes may be given up: `helio demote GROUP` there"),
        ),
        "diverged" => {
            (format!("{peer} was primary and may hold writes that {us} never saw"), rejoin(peer))
        }
        "newer-elsewhere" => (
            format!("{peer}'s copy continued beyond {us}'s"),
            format!("make {peer} primary instead: `helio promote GROUP` there"),
        ),
        _ => (format!("{us} and {peer} never shared a history"), rejoin(peer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_combination() -> impl Iterator<Item = Facts> {
        Kinship::ALL.into_iter().flat_map(|kinship| {
            (0..1 << 7).map(move |bits: u32| {
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
        for row in &ROWS {
            assert!(seen.contains(row.label), "row {} can never fire", row.label);
        }
    }

    #[test]
    fn the_promises_of_the_table() {
        for f in every_combination() {
            let Decision { label, verdict } = decide(&f);
            let kin = matches!(f.kinship, Kinship::Same | Kinship::AtFork);
            if f.target_serves {
                assert_eq!(verdict, Verdict::Refuse, "{label}: two primaries were let mirror");
            }
            if f.own
                && !matches!(f.kinship, Kinship::New | Kinship::Unrelated | Kinship::Descendant)
            {
                assert_eq!(
                    verdict,
                    Verdict::Refuse,
                    "{label}: writes of a primary's own would be lost"
                );
            }
            if matches!(f.kinship, Kinship::Descendant | Kinship::Unrelated) {
                assert_eq!(verdict, Verdict::Refuse);
            }
            match verdict {
                Verdict::Refuse | Verdict::UpdateAll => {}
                Verdict::ResumeReceived => {
                    assert!(f.same_memory && f.line_from_received, "{label}")
                }
                Verdict::ResumeDurable => {
                    assert!(f.line_from_durable && f.kinship == Kinship::Same, "{label}")
                }
                Verdict::ResumeEqual => assert!(f.equal && f.consistent && kin, "{label}"),
                Verdict::UpdateMarks => {
                    assert!(
                        f.same_memory && f.kinship == Kinship::Same,
                        "{label}: marks of another memory"
                    );
                }
            }
        }
    }
}

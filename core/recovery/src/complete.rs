// SPDX-License-Identifier: Apache-2.0
//! Whether a copy is complete, as far as a node knows, and whether giving up one of two copies discards the last complete one.
//!
//! | label | what the node knows of the copy | is complete | may be complete |
//! |---|---|---|---|
//! | `complete` | all of the volumes, as of one moment | yes | yes |
//! | `preserved` | inconsistent, but its last consistent state is preserved beside it | no | yes |
//! | `given-up` | an operator discarded it, and no resync to it began since | no | yes |
//! | `suspect` | a flush failed on it. A node calls its own copy so only if it is consistent otherwise | no | yes |
//! | `failed` | the node reports that a disk or a file failed, or knows that its copy lies on a disk that was taken out | no | yes |
//! | `unheard` | nothing: the node has not connected since this daemon started | no | yes |
//! | `inconsistent` | a resync to it did not end, or some regions are only on the other node | no | no |
//! | `none` | the node never had a copy | no | no |
//!
//! A copy that may be complete is given up only if the other one is complete ([`is_last`]), or both are suspect: nothing tells which of
//! them has more, and the operator chooses.
//!
//! What the record of a node proves of its peer's copy ([`Delivered`]). Its age is that of the record: a peer that was promoted since has more.
//!
//! | label | what the record says | the peer has everything that this node acknowledged |
//! |---|---|---|
//! | `followed` | this node was not primary in its generation | yes: it acknowledged nothing |
//! | `everything` | it left the role, and everything was durable at the peer | yes |
//! | `not-everything` | it left the role before that | not proven: it has the last writes |
//! | `unknown` | it did not leave the role | not proven |

use crate::table::{Verdict, of_promotion};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_format::message::Hello;
use helio_format::superblock::Superblock;
use helio_units::{Generation, Role};

/// What a node knows of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// It is all of the volumes, as of one moment.
    Complete,
    /// It is inconsistent, and its last consistent state is preserved.
    Preserved,
    /// An operator discarded it.
    GivenUp,
    /// A flush failed on it.
    Suspect,
    /// Its node reports that something failed, or knows that it lies on a disk that was taken out.
    Failed,
    /// Its node has not connected since this daemon started.
    Unheard,
    /// It is a mixture of two moments, or lacks regions.
    Inconsistent,
    /// There never was one.
    Never,
}

impl Completeness {
    /// In the order of the table above.
    pub const ALL: [Self; 8] = [
        Self::Complete,
        Self::Preserved,
        Self::GivenUp,
        Self::Suspect,
        Self::Failed,
        Self::Unheard,
        Self::Inconsistent,
        Self::Never,
    ];

    /// What a node says of its own copy, whatever failed there.
    #[must_use]
    pub fn of(hello: &Hello) -> Self {
        let new = hello.lineage.generation == Generation::NONE;
        match hello {
            // While a flush of it failed, it does not tell whether it is consistent otherwise.
            Hello { discarded: true, consistent, suspect, .. } if *consistent || *suspect => {
                Self::GivenUp
            }
            Hello { discarded: true, .. } => Self::Inconsistent,
            _ if new => Self::Never,
            Hello { suspect: true, .. } => Self::Suspect,
            Hello { consistent: false, .. } => Self::Inconsistent,
            _ if hello.was_given_up() => Self::GivenUp,
            _ => Self::Complete,
        }
    }

    /// The same, if something failed on the node.
    #[must_use]
    pub const fn unless_failed(self, failed: bool) -> Self {
        match self {
            Self::Complete if failed => Self::Failed,
            _ => self,
        }
    }

    /// The word for it, as in the table above.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Preserved => "preserved",
            Self::GivenUp => "given-up",
            Self::Suspect => "suspect",
            Self::Failed => "failed",
            Self::Unheard => "unheard",
            Self::Inconsistent => "inconsistent",
            Self::Never => "none",
        }
    }

    /// Whether the other copy can be given up.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Complete)
    }

    /// Whether it may be the last complete copy.
    #[must_use]
    pub const fn may_be_complete(self) -> bool {
        !matches!(self, Self::Inconsistent | Self::Never)
    }

    /// What is known of the copy of that node, in words.
    #[must_use]
    pub fn of_node(self, node: &str) -> String {
        match self {
            Self::Complete => format!("the copy of {node} is complete"),
            Self::Preserved => {
                format!(
                    "the copy of {node} is inconsistent, and its last consistent state is preserved"
                )
            }
            Self::GivenUp => format!("an operator discarded the copy of {node}"),
            Self::Suspect => format!("the copy of {node} is suspect, since a flush failed on it"),
            Self::Failed => format!("{node} reports that a disk or a file failed"),
            Self::Unheard => format!("{node} has not connected since this daemon started"),
            Self::Inconsistent => format!("the copy of {node} is inconsistent"),
            Self::Never => format!("{node} has no copy"),
        }
    }
}

/// What the record of a node proves of its peer's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The node was not primary in its generation.
    Followed,
    /// The peer had everything when the node left the role, whatever became of its own copy.
    Everything,
    /// The peer may lack something that the node acknowledged.
    NotEverything,
    /// The node did not leave the role.
    Unknown,
}

impl Delivered {
    /// In the order of the table above.
    pub const ALL: [Self; 4] =
        [Self::Followed, Self::Everything, Self::NotEverything, Self::Unknown];

    /// What that record proves.
    #[must_use]
    pub const fn of(record: &Superblock) -> Self {
        match record {
            Superblock { wrote: false, .. } => Self::Followed,
            Superblock { clean: false, .. } => Self::Unknown,
            Superblock { equal: true, .. } => Self::Everything,
            _ => Self::NotEverything,
        }
    }

    /// The word for it, as in the table above.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Followed => "followed",
            Self::Everything => "everything",
            Self::NotEverything => "not-everything",
            Self::Unknown => "unknown",
        }
    }
}

/// Why a copy does not lead beside a complete one, unless an operator forces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yields {
    /// An operator discarded it.
    GivenUp,
    /// Nothing proves what it holds (an operator accepted it as it is), and the other one has everything that was acknowledged.
    Unproven,
}

impl Yields {
    /// Why a copy does, whatever the other one is.
    #[must_use]
    pub fn of(own: &Hello) -> Option<Self> {
        match own.was_given_up() {
            true => Some(Self::GivenUp),
            false => own.is_unproven().then_some(Self::Unproven),
        }
    }

    /// Why the copy of `own` does, beside the complete one of `other`. A copy that nothing proves does so only if a promotion of the other one
    /// loses nothing; of two such copies, none does.
    #[must_use]
    pub fn beside(own: &Hello, other: &Hello) -> Option<Self> {
        let head = (other.lineage.generation, other.head);
        let leads = || of_promotion(other, head, own);
        let loses_nothing = || leads().is_some_and(|(_, it)| it.verdict != Verdict::Refuse);
        Self::of(own).filter(|yields| {
            Completeness::of(other).is_complete()
                && (*yields == Self::GivenUp || !other.is_unproven() && loses_nothing())
        })
    }

    /// The reason, of the copy of that node.
    #[must_use]
    pub fn of_node(self, node: &str) -> String {
        match self {
            Self::GivenUp => Completeness::GivenUp.of_node(node),
            Self::Unproven => format!("nothing proves what the copy of {node} holds"),
        }
    }
}

/// Whether giving up a copy discards the last complete one, since the copy that is kept is not known to be complete.
#[must_use]
pub const fn is_last(given_up: Completeness, kept: Completeness) -> bool {
    given_up.may_be_complete() && !kept.is_complete() && !are_suspect([given_up, kept])
}

const fn are_suspect(copies: [Completeness; 2]) -> bool {
    matches!(copies, [Completeness::Suspect, Completeness::Suspect])
}

/// One of two nodes that do not follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its name.
    pub node: &'a str,
    /// What it is to the group.
    pub role: Role,
    /// What is known of its copy.
    pub copy: Completeness,
    /// What it says to do about what failed there, if anything did.
    pub repair: &'a str,
    /// The volume of which a flush failed, where it is known.
    pub suspect: &'a str,
}

impl<'a> Side<'a> {
    /// What a node says of itself.
    #[must_use]
    pub fn of(hello: &'a Hello) -> Self {
        let failed = !hello.report.fault.is_empty();
        let copy = Completeness::of(hello).unless_failed(failed);
        let role = if hello.serving { Role::Primary } else { Role::Secondary };
        Self { node: &hello.node, role, copy, repair: &hello.report.hint, suspect: "" }
    }

    /// What makes its copy one that is known to be complete, if an operator can do anything about it; and whether that loses no write.
    fn completion(&self, group: &str, other: &str) -> Option<(bool, String)> {
        let node = self.node;
        // A suspect volume must be accepted before a promotion.
        let first = match self.suspect {
            "" => String::new(),
            _ => format!("{}, then ", self.acceptance(group)),
        };
        let (keeps, step) = match self.copy {
            Completeness::Failed if self.repair.is_empty() => {
                (true, format!("repair what `helio status {group}` on {node} shows"))
            }
            Completeness::Failed => (true, self.repair.into()),
            Completeness::Unheard => {
                (true, format!("start the daemon of {node}, or restore the link"))
            }
            // Whether it is consistent otherwise, only its own node knows.
            Completeness::Suspect if self.suspect.is_empty() => return None,
            Completeness::Suspect => {
                let accept = self.acceptance(group);
                (
                    false,
                    format!("{accept} uses its copy without the writes that the failed flush lost"),
                )
            }
            Completeness::Preserved => {
                let step = format!(
                    "{first}`helio promote {group} --force --restore` on {node} restores its preserved copy, without the later writes"
                );
                (false, step)
            }
            Completeness::GivenUp => {
                let step = format!(
                    "{first}`helio promote {group} --force` on {node} uses its discarded copy, without the later writes of {other}"
                );
                (false, step)
            }
            Completeness::Complete | Completeness::Inconsistent | Completeness::Never => {
                return None;
            }
        };
        Some((keeps, step))
    }

    /// Accepting the volume of which a flush failed.
    fn acceptance(&self, group: &str) -> String {
        let Side { node, suspect, .. } = self;
        format!("{}`helio member accept {group}/{suspect}` on {node}", self.demotion(group))
    }

    /// The step before one that only a secondary takes.
    fn demotion(&self, group: &str) -> String {
        match self.role {
            Role::Primary => format!("`helio demote {group}` on {}, then ", self.node),
            Role::Secondary => String::new(),
        }
    }
}

/// What an operator does about two copies neither of which is known to be complete.
#[must_use]
pub fn no_complete_copy(group: &str, sides: [Side<'_>; 2]) -> String {
    let [one, two] = sides;
    let steps = [one.completion(group, two.node), two.completion(group, one.node)];
    let mut steps: Vec<(bool, String)> = steps.into_iter().flatten().collect();
    // What loses no write comes first.
    steps.sort_by_key(|(keeps, _)| !keeps);
    let steps: Vec<String> = steps.into_iter().map(|(_, step)| step).collect();
    let [a, b] = sides.map(|side| side.copy.of_node(side.node));
    if steps.is_empty() {
        return format!(
            "no node has a complete copy: restore {group} from a backup, unless `helio status {group}` on a node shows a preserved or \
             suspect copy, or a disk to put back; {a}, and {b}"
        );
    }
    let steps = steps.join("; otherwise: ");
    format!(
        "neither copy is known to be complete: {a}, and {b}. Discard neither. To complete one: {steps}"
    )
}

/// What an operator does about two nodes of which one must be discarded, if one copy is known to be worse. It never discards the last
/// complete one. None if both are complete, both are suspect, or one is complete and something failed on the node of the other: a fault
/// alone makes no copy worse, and the operator chooses.
#[must_use]
pub fn only_choice(group: &str, sides: [Side<'_>; 2]) -> Option<String> {
    let [a, b] = sides;
    let (kept, lost) = match sides.map(|side| side.copy.is_complete()) {
        [true, true] => return None,
        _ if are_suspect(sides.map(|side| side.copy)) => return None,
        [true, false] if b.copy == Completeness::Failed => return None,
        [false, true] if a.copy == Completeness::Failed => return None,
        [true, false] => (a, b),
        [false, true] => (b, a),
        [false, false] => return Some(no_complete_copy(group, sides)),
    };
    let (keeps, node, demote) = (kept.node, lost.node, lost.demotion(group));
    Some(format!(
        "keep the copy of {keeps}, the only one that is known to be complete: {}. Discard the writes that exist only on {node}: \
         {demote}`helio resolve {group} --discard {node}` on {node}, which saves them first",
        lost.copy.of_node(node)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_combination_gives_up_a_copy_that_may_be_the_last_complete_one() {
        let mut given_up = 0;
        for own in Completeness::ALL {
            for other in Completeness::ALL {
                let lost = own.may_be_complete();
                let left = other == Completeness::Complete || are_suspect([own, other]);
                assert_eq!(is_last(own, other), lost && !left, "{own:?} {other:?}");
                given_up += usize::from(!is_last(own, other));
                // A complete copy is never given up for one of which less is known.
                assert!(own != Completeness::Complete || is_last(own, other) != left);
            }
        }
        let all = 6 + 2 * 8 + 1;
        assert_eq!(given_up, all, "for a complete one, one that cannot be, one of two suspect");
    }

    #[test]
    fn the_table_lists_every_label_once() {
        let rows: alloc::vec::Vec<&str> = include_str!("complete.rs")
            .lines()
            .filter_map(|line| Some(line.strip_prefix("//! | `")?.split_once('`')?.0))
            .collect();
        let copies = Completeness::ALL.map(Completeness::label);
        let records = Delivered::ALL.map(Delivered::label);
        assert_eq!(rows, [&copies[..], &records[..]].concat());
    }

    #[test]
    fn a_record_proves_that_the_peer_has_everything_only_of_a_primary_that_left_so() {
        let new = Superblock::new("db", "paris", [helio_units::Bytes::mib(1).0].into());
        for bits in 0..16 {
            let [wrote, clean, equal, consistent] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
            let record = Superblock { wrote, clean, equal, consistent, ..new.clone() };
            let delivered = Delivered::of(&record);
            let everything = delivered == Delivered::Everything;
            assert_eq!(everything, wrote && clean && equal, "{delivered:?}");
            assert_eq!(delivered == Delivered::Followed, !wrote, "{delivered:?}");
            assert_eq!(delivered == Delivered::Unknown, wrote && !clean, "{delivered:?}");
        }
    }

    #[test]
    fn two_copies_neither_of_which_is_complete_have_a_way_out_unless_neither_can_become_so() {
        let incomplete = || Completeness::ALL.into_iter().filter(|copy| !copy.is_complete());
        for (a, b) in incomplete().flat_map(|a| incomplete().map(move |b| (a, b))) {
            for (role, repair, suspect) in [
                (Role::Primary, "repair it", ""),
                (Role::Secondary, "", "logs"),
                (Role::Primary, "", "logs"),
            ] {
                let side = |node, copy| Side { node, role, copy, repair, suspect };
                let says = no_complete_copy("db", [side("paris", a), side("lyon", b)]);
                let has_step = |copy: Completeness| {
                    copy.may_be_complete() && (copy != Completeness::Suspect || !suspect.is_empty())
                };
                let can = has_step(a) || has_step(b);
                assert_eq!(
                    says.starts_with("neither copy is known to be complete: "),
                    can,
                    "{says}"
                );
                let backup = says.starts_with("no node has a complete copy: restore db from");
                assert_eq!(backup, !can, "{says}");
                assert!(!says.contains("--discard"), "{says}");
                for (node, copy) in [("paris", a), ("lyon", b)] {
                    let step = match copy {
                        Completeness::Failed if repair.is_empty() => {
                            format!("repair what `helio status db` on {node} shows")
                        }
                        Completeness::Failed => repair.into(),
                        Completeness::Suspect if suspect.is_empty() => String::new(),
                        Completeness::Suspect => {
                            format!("`helio member accept db/logs` on {node} ")
                        }
                        Completeness::Preserved => {
                            format!("`helio promote db --force --restore` on {node}")
                        }
                        Completeness::GivenUp => format!("`helio promote db --force` on {node}"),
                        Completeness::Unheard => format!("start the daemon of {node}"),
                        _ => String::new(),
                    };
                    assert!(says.contains(&step), "{node}: {says}");
                }
                let first = says.split(" To complete one: ").nth(1).unwrap_or_default();
                let keeps = |copy| matches!(copy, Completeness::Failed | Completeness::Unheard);
                let loses = ["`helio promote", "`helio member", "`helio demote"];
                let begins = loses.iter().any(|command| first.starts_with(command));
                assert_eq!(begins, can && !keeps(a) && !keeps(b), "the loss is last: {says}");
                // A suspect copy is accepted on a secondary, also before a promotion.
                let accepts = says.matches("helio member accept").count();
                let demotes = if role == Role::Primary { accepts } else { 0 };
                assert_eq!(says.matches("helio demote").count(), demotes, "{says}");
                let promotes = says.matches("helio promote").count();
                assert!(suspect.is_empty() || accepts >= promotes, "{says}");
                let faults = helio_units::form::faults("x failed: y", Some(&says), true);
                assert!(faults.is_empty(), "{faults:?}: {says}");
            }
        }
    }

    #[test]
    fn the_advice_never_discards_the_only_complete_copy() {
        for (a, b) in Completeness::ALL.into_iter().flat_map(|a| Completeness::ALL.map(|b| (a, b)))
        {
            for role in [Role::Primary, Role::Secondary] {
                let side = |node, copy| Side { node, role, copy, repair: "", suspect: "" };
                let says = only_choice("db", [side("paris", a), side("lyon", b)]);
                let text = says.as_deref().unwrap_or_default();
                let discards = |node: &str| {
                    text.contains(&format!("`helio resolve db --discard {node}` on {node}"))
                };
                let may_be =
                    |copy: Completeness| copy.is_complete() || copy == Completeness::Failed;
                let one = a.is_complete() || b.is_complete();
                let chooses = one && may_be(a) && may_be(b) || are_suspect([a, b]);
                assert_eq!(says.is_none(), chooses, "{a:?} {b:?}");
                assert_eq!(discards("paris"), b.is_complete() && !may_be(a), "{a:?} {b:?}");
                assert_eq!(discards("lyon"), a.is_complete() && !may_be(b), "{a:?} {b:?}");
                let one = discards("paris") || discards("lyon");
                let demotes = role == Role::Primary && one;
                assert!(
                    text.starts_with("neither copy") || text.contains("helio demote") == demotes
                );
                let faults = helio_units::form::faults("x failed: y", says.as_deref(), true);
                assert!(says.is_none() || faults.is_empty(), "{faults:?}: {text}");
            }
        }
    }
}

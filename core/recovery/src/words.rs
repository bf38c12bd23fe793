// SPDX-License-Identifier: Apache-2.0
//! Which row of the recovery table fired last, what it looked at, and what it means, in words for people.
//!
//! The source alone has all the facts; it tells the target the row's label. Where it refused before it could, both
//! looked the same two hellos up in the same table.

use crate::complete::{Side, only_choice};
use crate::table::{Facts, Kinship};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_format::message::Hello;
use helio_units::Moment;

/// What a meeting of two nodes came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastDecision {
    /// When.
    pub at: Moment,
    /// The row's label.
    pub label: String,
    /// This node was the source, which knows its own memory; otherwise those facts are the source's alone.
    pub as_source: bool,
    /// What the source said of itself.
    pub source: Hello,
    /// What the target said of itself.
    pub target: Hello,
    /// What the table looked at.
    pub facts: Facts,
}

/// A row in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// What it means.
    pub meaning: String,
    /// What comes next by itself.
    pub next: String,
    /// What an operator does about it, where anything is to be done.
    pub hint: Option<String>,
}

/// Label, meaning, what happens next, hint; `{source}`, `{target}` and `{group}` stand for names.
const WORDS: [(&str, &str, &str, &str); 25] = [
    (
        "two-primaries",
        "both {source} and {target} are primary, and each may have acknowledged writes that the other does not have",
        "no data is sent; both nodes continue to serve clients",
        "choose the node to discard: `helio demote {group}` on it, then `helio resolve {group} --discard NODE` on it",
    ),
    (
        "source-metadata-lost",
        "{source} has new metadata, but {target} has a record of later metadata of {source}: the metadata of {source} \
         was lost, and the state of its copy is unknown",
        "no data is sent",
        "restore the state directory of {source} (its mount, its --state; not a backup) and restart its daemon; or choose the copy to keep, and discard the other \
         one: `helio resolve {group} --discard NODE` on that node, as secondary. The differing regions are saved \
         first",
    ),
    (
        "unrelated",
        "{source} and {target} have no generation in common: their copies may hold different data",
        "no data is sent",
        "choose the copy to keep: `helio resolve {group} --discard NODE` on the other node, as secondary. It then \
         joins as a new peer",
    ),
    (
        "source-rolled-back",
        "{source} is in an older state than {target} has recorded: its machine was reset to a snapshot, or its \
         metadata was restored from a backup. {target} may hold acknowledged writes that {source} lost",
        "no data is sent",
        "promote {target} instead: `helio demote {group}` on {source}, then `helio promote {group}` on {target}; or, \
         to keep the copy of {source}, `helio resolve {group} --discard {target}` on {target}",
    ),
    (
        "newer-elsewhere",
        "{target} holds newer writes than {source}",
        "no data is sent",
        "promote {target} instead: `helio demote {group}` on {source}, then `helio promote {group}` on {target}; or \
         discard the newer writes: `helio resolve {group} --discard {target}` on {target}",
    ),
    (
        "split-brain",
        "both {source} and {target} acknowledged writes that the other does not have",
        "no data is sent; the primary continues to serve clients",
        "choose the node whose writes to keep: `helio resolve {group} --discard NODE` on the other one, as secondary. \
         It lists and saves the differing regions first",
    ),
    (
        "both-crashed",
        "{target} was primary, and {source} restarted before it was promoted: {source} may have lost writes that it \
         had received and not flushed",
        "no data is sent; {source} continues to serve clients",
        "discard the writes that exist only on {target}: `helio resolve {group} --discard {target}` on {target}, \
         which lists and saves them first. To keep them and lose what {source} wrote since: `helio demote {group}` on \
         {source}, then `helio promote {group} --force` on {target}",
    ),
    (
        "diverged",
        "{target} was primary and may hold acknowledged writes that {source} does not have; a resync would overwrite \
         them",
        "no data is sent; {source} continues to serve clients",
        "discard the writes that exist only on {target}: `helio resolve {group} --discard {target}` on {target}, \
         which lists and saves them first. To keep them and lose what {source} wrote since: `helio demote {group}` on \
         {source}, then `helio promote {group} --force` on {target}",
    ),
    (
        "seeding",
        "a disk is being shipped to {target}; the bitmap of {source} records the regions that change",
        "no data is sent; writes on {source} make regions dirty",
        "once the disk is in place on {target}, with new metadata: `helio seed end {group}` on {source}; to copy \
         everything over the link instead: `helio resync {group} --full` on {source}",
    ),
    (
        "seeded",
        "{target} has the shipped disk; the bitmap of {source} records the regions that changed since",
        "the dirty regions are copied to {target}, then the group replicates",
        "",
    ),
    (
        "metadata-lost",
        "{target} has no metadata, but {source} has a record of it: the state directory of {target} is lost or \
         another one. {target} may hold acknowledged writes that {source} does not have",
        "no data is sent, and neither node becomes primary by itself",
        "restore the state directory of {target} (its mount, its --state; not a backup) and restart its daemon: no data is lost. If \
         that is impossible and {target} was primary last, keep its copy: `helio promote {group} --force` on \
         {target}. If that is impossible and {target} was secondary, discard its copy: stop its daemon, then `helio metadata create {group} --node {target}` on {target}",
    ),
    (
        "only-copy-unproven",
        "{target} has no metadata, but {source} has a record of it; and the copy of {source} is inconsistent or suspect, so the copy \
         of {target} may be the only complete one",
        "no data is sent, and neither node becomes primary by itself",
        "restore the state directory of {target} (its mount, its --state; not a backup) and restart its daemon: no data is lost. If \
         that is impossible, keep its copy: `helio demote {group}` on {source} if it is primary, then `helio promote {group} --force` \
         on {target}; acknowledged writes that are only on {source} are then lost. If the copy of {source} is only suspect, and the better one, \
         accept it on {source} (`helio member accept --help`). Otherwise restore {group} from a backup",
    ),
    (
        "new-peer",
        "{target} has no history in this group: the state of its copy is unknown",
        "everything is copied to {target}",
        "",
    ),
    (
        "target-suspect",
        "a flush failed on {target}: writes from before the flush may be missing from its copy",
        "all regions are compared, those that differ or may have been lost are copied, then the group replicates",
        "",
    ),
    (
        "metadata-failed",
        "{source} or {target} wrote while its metadata could not be written, or its machine was reset to a snapshot: \
         its bitmap is not valid",
        "all regions are compared or copied, then the group replicates",
        "",
    ),
    (
        "target-rolled-back",
        "{target} is in an older state than {source} has recorded: its machine was reset to a snapshot, or its \
         metadata was restored from a backup. Its bitmap is not valid",
        "all regions are compared or copied, then the group replicates",
        "",
    ),
    (
        "unproven",
        "the bitmap of {target} is not valid: it is new or lost, or the copy was restored from its before-image, or \
         the volume is on another disk",
        "all regions are compared or copied, then the group replicates",
        "",
    ),
    (
        "equal-at-fork",
        "a planned switch: the copy of {target} is exactly the one that the generation of {source} began with",
        "nothing is copied; new writes are streamed",
        "",
    ),
    (
        "resume-received",
        "the link was down, and both nodes still have their queues in memory",
        "the stream continues after the last item that {target} received",
        "",
    ),
    (
        "resume-equal",
        "the two copies are identical",
        "nothing is copied; new writes are streamed",
        "",
    ),
    (
        "resume-durable",
        "{target} restarted, and may have lost items that it had not flushed",
        "the stream continues after the last item that {target} flushed",
        "",
    ),
    (
        "crashed-primary",
        "{target} was primary and crashed: {source} has every write that it acknowledged, and the bitmap of {target} \
         covers the others",
        "the dirty regions of both nodes are copied, then the group replicates",
        "",
    ),
    (
        "update-marks",
        "write order was lost, or the writes of one node were discarded; the bitmaps of both nodes cover all \
         differences",
        "the dirty regions of both nodes are copied, then the group replicates",
        "",
    ),
    (
        "source-lacks",
        "some regions existed only on {target}, and the copy of {target} has changed since: {source} cannot copy \
         them",
        "no data is sent; these regions cannot be read on {source}",
        "`helio demote {group}` on {source}, then `helio promote {group} --force` on {target}, which has the only \
         complete copy; or restore the group from a backup",
    ),
    (
        "source-suspect",
        "a flush failed on {source}: acknowledged writes may be missing from its copy, and {target} may have them",
        "no data is sent; {source} continues to serve reads and writes, and fails FLUSH and FUA",
        "if {target} has the writes: `helio demote {group}` on {source}, then `helio promote {group}` on {target}, \
         and {source} is resynced. If {source} wrote while {target} was away, that promotion needs `--force`, and \
         those writes are lost. If {source} has the best copy: demote it, `helio member accept {group}/VOLUME` on \
         {source}, and promote it again",
    ),
];

/// A row in words. A label this version does not know is named as such.
#[must_use]
pub fn meaning(label: &str, group: &str, source: &str, target: &str) -> Meaning {
    let fill = |text: &str| {
        text.replace("{source}", source).replace("{target}", target).replace("{group}", group)
    };
    match WORDS.iter().find(|(known, ..)| *known == label) {
        Some((_, meaning, next, hint)) => Meaning {
            meaning: fill(meaning),
            next: fill(next),
            hint: (!hint.is_empty()).then(|| fill(hint)),
        },
        None => Meaning {
            meaning: format!("the peer, which runs another version, reports {label}"),
            next: format!("run `helio explain {group}` on the peer"),
            hint: None,
        },
    }
}

/// The row of a decision in words. Its hint offers no discard of the last complete copy.
#[must_use]
pub fn meaning_of(last: &LastDecision, group: &str) -> Meaning {
    let row = meaning(&last.label, group, &last.source.node, &last.target.node);
    let offers = row.hint.as_ref().is_some_and(|hint| hint.contains("helio resolve"));
    let only = only_choice(group, [Side::of(&last.source), Side::of(&last.target)]);
    match only.filter(|_| offers) {
        Some(hint) => Meaning { hint: Some(hint), ..row },
        None => row,
    }
}

/// Facts that both nodes know, as they are if true and if not.
const FACTS: [(&str, &str); 9] = [
    ("{target} was primary too", "{target} was not primary"),
    (
        "{target} may have acknowledged writes that {source} does not have",
        "{target} has no acknowledged writes that {source} does not have",
    ),
    (
        "{target} acknowledged writes without {source}",
        "{target} acknowledged no write without {source}",
    ),
    ("the copy of {target} was consistent", "the copy of {target} was inconsistent"),
    ("{target} was primary and did not stop cleanly", "{target} was secondary, or stopped cleanly"),
    ("the bitmap of {target} is complete", "the bitmap of {target} may not list all dirty regions"),
    (
        "one node recorded that the metadata of the other is invalid",
        "neither node recorded that the metadata of the other is invalid",
    ),
    (
        "the metadata of {source} is older than {target} has recorded",
        "the metadata of {source} is current",
    ),
    (
        "the metadata of {target} is older than {source} has recorded",
        "the metadata of {target} is current",
    ),
];
/// The same of facts that only the source knows.
const OF_SOURCE: [(&str, &str); 4] = [
    (
        "{source} has proof that the copies are equal",
        "{source} has no proof that the copies are equal",
    ),
    (
        "{target} still has in memory what {source} sent",
        "{target} no longer has in memory what {source} sent",
    ),
    (
        "the queue of {source} has all that {target} did not receive",
        "the queue of {source} does not have all that {target} did not receive",
    ),
    (
        "the queue of {source} has all that {target} did not flush",
        "the queue of {source} does not have all that {target} did not flush",
    ),
];

/// The facts of a decision, one sentence each; those of the source's memory only on the source.
#[must_use]
pub fn facts_in_words(last: &LastDecision) -> Vec<String> {
    let (source, target) = (&last.source.node, &last.target.node);
    // Named one by one, so that a fact added to the table cannot be forgotten here.
    let Facts {
        target_serves,
        kinship,
        own,
        alone,
        consistent,
        crashed,
        trusted,
        invalid,
        source_old,
        target_old,
        discarded,
        equal,
        same_memory,
        line_from_received,
        line_from_durable,
        seeding,
        seeded,
        source_lacks,
        source_suspect,
        source_broken,
        target_suspect,
    } = last.facts;
    let fill = |(is, (yes, no)): (bool, (&str, &str))| {
        let text = if is { yes } else { no };
        text.replace("{source}", source).replace("{target}", target)
    };
    let both =
        [target_serves, own, alone, consistent, crashed, trusted, invalid, source_old, target_old];
    let mut all = alloc::vec![
        of_hello(&last.source),
        of_hello(&last.target),
        kin_in_words(kinship, source, target)
    ];
    all.extend(both.into_iter().zip(FACTS).map(fill));
    all.extend(discarded.then(|| format!("an operator discarded the copy of {target}")));
    all.extend(source_lacks.then(|| format!("some regions exist only on {target}")));
    let how = if last.source.suspect { "suspect" } else { "inconsistent" };
    let broken = source_broken && !source_suspect;
    all.extend(broken.then(|| format!("the copy of {source} is {how}")));
    let suspect = [(source_suspect, source), (target_suspect, target)];
    all.extend(suspect.iter().filter(|(is, _)| *is).map(|(_, node)| suspect_in_words(node)));
    if !last.as_source {
        all.push(format!("the facts about the queue of {source} are shown on {source}"));
        return all;
    }
    let own = [equal, same_memory, line_from_received, line_from_durable];
    all.extend(own.into_iter().zip(OF_SOURCE).map(fill));
    all.extend(seeding.then(|| format!("a disk is being shipped to {target}")));
    all.extend(seeded.then(|| format!("{target} has the shipped disk")));
    all
}

fn suspect_in_words(node: &str) -> String {
    format!("the copy of {node} is suspect: a flush of its disk failed")
}

/// How the target's history relates to the source's.
fn kin_in_words(kinship: Kinship, source: &str, target: &str) -> String {
    match kinship {
        Kinship::New => format!("{target} has no data of this group yet"),
        Kinship::Same => String::from("both copies are of the same generation"),
        Kinship::AtFork => {
            format!("the copy of {target} ends where the generation of {source} begins")
        }
        Kinship::Behind => {
            format!("the generation of {source} continues the one of {target}")
        }
        Kinship::Sibling => {
            format!(
                "{target} has another generation, which started at the same position as the one of {source}, or before it"
            )
        }
        Kinship::Descendant => {
            format!("the generation of {target} continues the one of {source}")
        }
        Kinship::Unrelated => {
            format!("{source} has no record of the generation of {target}")
        }
    }
}

/// What a node reported of itself.
fn of_hello(hello: &Hello) -> String {
    let Hello { node, head, .. } = hello;
    let role = if hello.serving { "primary" } else { "secondary" };
    // A record names the item at which its stream began, and what came since where it stopped cleanly.
    let head = (*head).max(hello.received).max(hello.durable);
    let exact = if hello.clean { "" } else { " or later, because it did not stop cleanly" };
    let wrote = if hello.wrote { ", which it began" } else { "" };
    format!(
        "{node} was {role}, in generation {}{wrote}, at position {head}{exact}",
        hello.lineage.generation
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::labels;

    #[test]
    fn every_row_has_words_and_every_word_a_row() {
        let rows: Vec<&str> = labels().collect();
        let words: Vec<&str> = WORDS.iter().map(|(label, ..)| *label).collect();
        assert_eq!(rows, words);
    }

    #[test]
    fn names_take_their_places() {
        let told = meaning("diverged", "db", "lyon", "paris");
        let hint = told.hint.unwrap_or_default();
        assert!(hint.contains("helio resolve db --discard paris"), "{hint}");
        assert!(!(told.meaning + &told.next + &hint).contains('{'));
    }

    #[test]
    fn the_handbook_lists_each_row() {
        let rows: Vec<&str> = labels().collect();
        assert_eq!(crate::listed("The recovery table"), rows);
    }
}

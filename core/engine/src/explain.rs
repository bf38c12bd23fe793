// SPDX-License-Identifier: Apache-2.0
//! Which row of the recovery table fired last, what it looked at, and what it means, in words for people.
//!
//! The source alone has all the facts; it tells the target the row's label. Where it refused before it could, both
//! looked the same two hellos up in the same table.

use crate::engine::Engine;
use crate::recovery::{self, Facts, Kinship};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use helio_format::message::{Hello, Message};
use helio_format::roles::Roles;
use helio_units::Moment;

/// What a meeting of two nodes came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
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
    pub remedy: Option<String>,
}

/// Label, meaning, what comes next, remedy; `{source}`, `{target}` and `{group}` stand for names.
const WORDS: [(&str, &str, &str, &str); 24] = [
    (
        "two-primaries",
        "both {source} and {target} serve as primary, and each may have answered writes that the other never saw",
        "nothing travels until one of them is secondary; both go on serving",
        "choose whose writes count; `helio demote {group}` on the other, then `helio resolve {group} --discard` it there",
    ),
    (
        "source-metadata-lost",
        "{source} has new metadata, and {target} has a record of later metadata of {source}: the metadata of {source} was lost, and \
         what its copy holds is unknown",
        "nothing is sent",
        "restore the state directory of {source} and restart its daemon; or decide which copy counts, and discard the other one: \
         `helio resolve {group} --discard NODE` on that node, as secondary; a copy of it is kept",
    ),
    (
        "unrelated",
        "{source} and {target} do not share a history that either still knows",
        "nothing travels",
        "decide which copy counts; `helio resolve {group} --discard NODE` on the other node, as secondary: it joins as new",
    ),
    (
        "source-rolled-back",
        "{target} remembers a later metadata of {source} than {source} has: its machine was rolled back, or its metadata \
         restored from a backup, and {target} may hold answered writes that {source} lost",
        "nothing travels",
        "promote {target} instead: `helio demote {group}` on {source}, `helio promote {group}` on {target}; or, if \
         {source} is right, `helio resolve {group} --discard {target}` on {target}: it joins as new",
    ),
    (
        "newer-elsewhere",
        "{target}'s history continued beyond {source}'s, so {source} must not lead",
        "nothing travels",
        "make {target} primary instead: `helio demote {group}` on {source}, `helio promote {group}` on {target}; or give \
         up what only {target} holds: `helio resolve {group} --discard {target}` there",
    ),
    (
        "split-brain",
        "{source} and {target} both answered writes of their own since their histories parted",
        "nothing travels; who serves goes on serving",
        "choose whose writes count; `helio resolve {group} --discard NODE` on the other shows, saves and gives up what \
         only it holds: on {target}, or on {source} once that is secondary",
    ),
    (
        "both-crashed",
        "{target} was primary, and {source} restarted before it took over: {source} may have lost what \
         it had confirmed and nobody had flushed",
        "nothing travels; {source} goes on serving",
        "`helio resolve {group} --discard {target}` on {target} shows, saves and gives up what only it holds; or promote {target} instead",
    ),
    (
        "diverged",
        "{target} was primary and may hold writes that {source} never saw; following would destroy them",
        "nothing travels; {source} goes on serving",
        "`helio resolve {group} --discard {target}` on {target} shows, saves and gives up what only it holds; or promote {target} instead",
    ),
    (
        "seeding",
        "a disk is being shipped to {target}, and it was not said yet that it is in place; {source}'s marks tell what it \
         may lack",
        "nothing travels; what is written on {source} is marked",
        "once the disk is in place on {target}, with new metadata: `helio seed end {group}` on {source}; to copy \
         everything instead: `helio full {group}` there",
    ),
    (
        "seeded",
        "{target} holds the disk that was shipped: {source}'s marks tell what changed since",
        "what is marked is copied to {target}, then the group replicates",
        "",
    ),
    (
        "metadata-lost",
        "{target} has no metadata, and {source} has a record of some: the state directory of {target} is lost, or is another one; \
         {target} may hold acknowledged writes that {source} lacks, and cannot confirm that it did not take over",
        "nothing is sent, and neither node becomes primary by itself",
        "restore the state directory of {target} (check its mount and --state) and restart its daemon: nothing is lost. If it \
         cannot be restored: if {target} was primary last, keep its copy: `helio promote {group} --force` on {target}; otherwise \
         discard its copy: stop its daemon, `helio metadata create {group}` there",
    ),
    (
        "new-peer",
        "{target} never took part, or gave up its whole history: nothing of its copy is known",
        "everything is copied to {target}",
        "",
    ),
    (
        "target-suspect",
        "a flush of {target}'s store failed, and what its copy holds of the writes before it is unknown",
        "everything is compared, what a failed flush may have lost is written again, then the group replicates",
        "",
    ),
    (
        "metadata-failed",
        "one of {source} and {target} went on although its metadata could not be written, and the other recorded that: what its \
         metadata tells proves nothing",
        "everything is compared or copied, then the group replicates",
        "",
    ),
    (
        "target-rolled-back",
        "{source} remembers a later metadata of {target} than {target} has: its machine was rolled back, or its metadata \
         restored from a backup, and its marks prove nothing",
        "everything is compared or copied, then the group replicates",
        "",
    ),
    (
        "unproven",
        "{target}'s marks prove nothing: they are new or lost, or its image was put back from what was kept of it, or lies \
         on another disk than before",
        "everything is compared or copied, then the group replicates",
        "",
    ),
    (
        "equal-at-fork",
        "a planned hand-over: {target} stands exactly where {source}'s generation began",
        "nothing needs to be copied; what comes is streamed",
        "",
    ),
    (
        "resume-received",
        "the link was away and nobody forgot anything",
        "streaming goes on behind what {target} received",
        "",
    ),
    ("resume-equal", "the copies are proven equal", "what comes is streamed", ""),
    (
        "resume-durable",
        "{target} restarted: what it had not made durable is sent again",
        "streaming goes on behind what {target} has durable",
        "",
    ),
    (
        "crashed-primary",
        "{target} was primary and crashed: {source} has all that it answered, and its marks tell what else it wrote",
        "the regions that either node marked are copied, then the group replicates",
        "",
    ),
    (
        "update-marks",
        "the order of writes was given up, or one side was; the marks of both nodes tell what may differ",
        "the regions that either node marked are copied, then the group replicates",
        "",
    ),
    (
        "source-lacks",
        "{source} lacks regions of its own store that only {target} held, and {target} is not the copy it was any more: \
         there is nothing to copy from",
        "nothing travels; what {source} lacks cannot be read",
        "`helio demote {group}` on {source}, then `helio promote {group} --force` on {target}, whose copy is all there is; \
         or restore the group from elsewhere",
    ),
    (
        "source-suspect",
        "a flush of {source}'s store failed: acknowledged writes may be missing from its copy, and {target} may hold them",
        "nothing travels; {source} goes on with reads and writes, and fails FLUSH and FUA",
        "if {target} holds them: `helio demote {group}` on {source}, then `helio promote {group}` on {target} (with `--force` \
         where {source} wrote alone: those writes are lost), which brings {source} level; if {source} holds the best copy there is: demote it, `helio member accept {group}/VOLUME` there, and promote it \
         again",
    ),
];

/// A row in words. A label this version does not know is named as such.
#[must_use]
pub fn meaning(label: &str, group: &str, source: &str, target: &str) -> Meaning {
    let fill = |text: &str| {
        text.replace("{source}", source).replace("{target}", target).replace("{group}", group)
    };
    match WORDS.iter().find(|(known, ..)| *known == label) {
        Some((_, meaning, next, remedy)) => Meaning {
            meaning: fill(meaning),
            next: fill(next),
            remedy: (!remedy.is_empty()).then(|| fill(remedy)),
        },
        None => Meaning {
            meaning: format!("the other node, of another version, calls it {label}"),
            next: "see `helio explain` there".to_string(),
            remedy: None,
        },
    }
}

/// The facts of a meeting, one sentence each; the source's memory only where it is known.
#[must_use]
pub fn facts_in_words(met: &Met) -> Vec<String> {
    let (source, target) = (&met.source.node, &met.target.node);
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
        target_suspect,
    } = met.facts;
    let said = |who: &str, what: bool, yes: &str, no: &str| {
        format!("{who} {}", if what { yes } else { no })
    };
    let yes = |what: bool, yes: &str, no: &str| said(target, what, yes, no);
    let kin = kin_in_words(kinship);
    let (old, current) = ("has older metadata than the other remembers", "has current metadata");
    let mut all = alloc::vec![
        of_hello(&met.source),
        of_hello(&met.target),
        yes(target_serves, "serves as primary too", "does not serve as primary"),
        format!("{target} {kin}"),
        yes(own, "may hold answered writes of its own", "holds no writes of its own that count"),
        yes(alone, "gave answers that nobody else need have", "gave no answer that only it has"),
        yes(consistent, "holds a consistent image", "holds an image that is not consistent"),
        yes(
            crashed,
            "was primary and crashed",
            "was not primary when it stopped, or stopped cleanly"
        ),
        yes(trusted, "has marks that prove what may differ", "has marks that prove nothing"),
        String::from(if invalid {
            "one of the two recorded that the other's metadata tells nothing"
        } else {
            "neither recorded that the other's metadata tells nothing"
        }),
        said(source, source_old, old, current),
        said(target, target_old, old, current),
    ];
    all.extend(discarded.then(|| format!("an operator discarded the copy of {target}")));
    all.extend(source_lacks.then(|| format!("{source} lacks regions that only {target} holds")));
    let suspect = [(source_suspect, source), (target_suspect, target)];
    all.extend(suspect.iter().filter(|(is, _)| *is).map(|(_, node)| suspect_in_words(node)));
    if met.as_source {
        let memory = [
            (equal, "the copies are proven equal"),
            (same_memory, "the target kept its memory since it was streamed to last"),
            (line_from_received, "the queue reaches back to what the target received"),
            (line_from_durable, "the queue reaches back to what the target has durable"),
            (seeding, "a disk is being shipped to the target"),
            (seeded, "the target holds the disk that was shipped"),
        ];
        let word =
            |(is, what): (bool, &str)| format!("{source}: {}{what}", if is { "" } else { "not " });
        all.extend(memory.map(word));
    } else {
        all.push(format!("what {source} remembers of its queue and marks, only {source} knows"));
    }
    all
}

fn suspect_in_words(node: &str) -> String {
    format!("{node}'s copy is suspect: a flush of its store failed")
}

/// How the target's history relates to the source's.
const fn kin_in_words(kinship: Kinship) -> &'static str {
    match kinship {
        Kinship::New => "never took part",
        Kinship::Same => "is of the same generation",
        Kinship::AtFork => "stands exactly where the source's generation began",
        Kinship::Behind => "is of a generation that the source's continues",
        Kinship::Sibling => "is of another generation that began where the source's did, or before",
        Kinship::Descendant => "is of a generation that continues the source's",
        Kinship::Unrelated => "is of a generation the source does not know",
    }
}

/// What a node said of itself.
fn of_hello(hello: &Hello) -> String {
    let Hello { node, head, .. } = hello;
    let role = if hello.serving { "serves as primary" } else { "does not serve" };
    // A record names the item at which its stream began, and what came since where it stopped cleanly.
    let head = (*head).max(hello.received).max(hello.durable);
    let exact = if hello.clean { "" } else { " or a later one, since it stopped uncleanly" };
    let wrote = if hello.wrote { ", written by itself" } else { "" };
    format!(
        "{node} {role}, in generation {}{wrote}, at item {head}{exact}",
        hello.lineage.generation
    )
}

impl Engine {
    /// What the last meeting with the peer came to.
    #[must_use]
    pub fn met(&self) -> Option<&Met> {
        self.met.as_ref()
    }

    /// Keeps the row that fired; a source tells it to the target.
    pub(crate) fn remember_row(&mut self, facts: Facts, label: &'static str, as_source: bool) {
        let ours = self.hello_as_met();
        let Some(peer) = self.session.peer().cloned() else { return };
        let (source, target) = if as_source { (ours, peer) } else { (peer, ours) };
        let at = self.shared.now;
        self.met = Some(Met { at, label: label.to_string(), as_source, source, target, facts });
        if as_source {
            self.shared.send(Message::Roles(Roles::Row { label: label.to_string() }));
        }
    }

    /// The source tells by which row it went. Two that both serve are both sources, and went by the same one.
    pub(crate) fn row_told(&mut self, label: String) {
        if self.primary.is_some() {
            return;
        }
        let ours = self.hello_as_met();
        let Some(peer) = self.session.peer().cloned() else { return };
        let began = self.session.since;
        match self.met.as_mut().filter(|met| !met.as_source && met.at >= began) {
            Some(met) => met.label = label,
            None => {
                let facts = recovery::facts_of(&peer, &ours);
                let (at, as_source) = (self.shared.now, false);
                self.met = Some(Met { at, label, as_source, source: peer, target: ours, facts });
            }
        }
    }

    /// Two that do not serve met, and one of them must not go on.
    pub(crate) fn remember_refusal(&mut self, label: &'static str) {
        let ours = self.hello_as_met();
        if let Some(peer) = self.session.peer() {
            self.remember_row(recovery::facts_of(&ours, peer), label, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_words_and_every_word_a_row() {
        let rows: Vec<&str> = recovery::labels().collect();
        let words: Vec<&str> = WORDS.iter().map(|(label, ..)| *label).collect();
        assert_eq!(rows, words);
    }

    #[test]
    fn names_take_their_places() {
        let told = meaning("diverged", "db", "lyon", "paris");
        let remedy = told.remedy.unwrap_or_default();
        assert!(remedy.contains("helio resolve db --discard paris"), "{remedy}");
        assert!(!(told.meaning + &told.next + &remedy).contains('{'));
    }

    #[test]
    fn the_handbook_lists_each_row() {
        let page = include_str!("../../../docs/reference/recovery.md");
        for label in recovery::labels() {
            assert!(
                page.contains(&format!("| `{label}` |")),
                "docs/reference/recovery.md lacks {label}"
            );
        }
        let rows = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, recovery::labels().count(), "it lists a row that there is not");
    }
}

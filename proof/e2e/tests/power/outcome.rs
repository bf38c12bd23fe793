// SPDX-License-Identifier: Apache-2.0
//! What becomes of two nodes whose power was cut.

use crate::Cut;
use crate::story::{NODES, Story};
use helio_e2e::{PATIENCE, assert_members_equal, group, other};
use helio_testkit::{Dice, Pair, eventually, eventually_from};
use serde_json::Value;
use std::fmt;
use std::time::{Duration, Instant};

/// How long two nodes have to become level by themselves.
const BY_THEMSELVES: Duration = Duration::from_secs(8);

/// What became of them.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Both copies are equal.
    Level { primary: &'static str, helped: bool },
    /// The secondary took over alone.
    TookOver(&'static str),
    /// It refused to take over, for this reason.
    NotTakenOver(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Level { primary, helped: false } => write!(f, "level behind {primary}"),
            Self::Level { primary, helped: true } => {
                write!(f, "level behind {primary}, which was promoted")
            }
            Self::TookOver(node) => write!(f, "{node} took over"),
            Self::NotTakenOver(why) => write!(f, "no takeover: {why}"),
        }
    }
}

/// Starts the nodes of a cut, and holds what they come to against what was promised.
///
/// # Panics
/// If a promise is broken.
pub(crate) fn look(story: &Story, pair: Pair, cut: Cut) -> Outcome {
    let mut dice = Dice::new(cut.seed).fork(1);
    match story.primary(cut) {
        Some(primary) if dice.chance(30) => take_over(story, pair, cut, other(primary)),
        _ => come_back(story, pair, cut, &mut dice),
    }
}

/// Both are there. They become level, and every FLUSH that was acknowledged holds.
fn come_back(story: &Story, mut pair: Pair, cut: Cut, dice: &mut Dice) -> Outcome {
    let first = *dice.pick(&NODES);
    pair.start(first);
    pair.start(other(first));
    let until = Instant::now() + BY_THEMSELVES;
    let alone = eventually(PATIENCE, "two nodes at rest", || {
        let level = level(&pair);
        let over = level.is_none() && Instant::now() > until;
        (level.is_some() || over || is_leaderless(&pair)).then_some(level)
    });
    let (primary, helped) = match alone {
        Some(primary) => (primary, false),
        None => (promoted(story, &pair, cut), true),
    };
    for node in NODES {
        pair.daemon(node).kill9();
    }
    assert_members_equal(&pair, "data");
    let until = cut.at.into_iter().min();
    if let Err(why) = story.journal.judge(&pair.member(primary, "data"), until) {
        panic!("{}: {why}", story.shown(cut));
    }
    Outcome::Level { primary, helped }
}

/// Nobody leads by itself: one is promoted without force, and says so if that is wrong.
fn promoted(story: &Story, pair: &Pair, cut: Cut) -> &'static str {
    let (mut said, mut refused) = (Vec::new(), 0);
    let (mut nodes, mut until) = (NODES.into_iter(), Instant::now());
    eventually_from(PATIENCE * 2, "the pair to become level", || {
        if let Some(primary) = level(pair) {
            return Ok(primary);
        }
        if Instant::now() >= until
            && let Some(node) = nodes.next()
        {
            let told = pair.helio(node, &["promote", "db"]);
            said.push(format!("{node}: {told}"));
            match told.status.success() {
                true => until = Instant::now() + BY_THEMSELVES,
                false => refused += 1,
            }
        }
        let [lyon, paris] = NODES.map(|node| group(pair, node));
        let seen = format!("{}: {lyon:#}, {paris:#}, {said:#?}", story.shown(cut));
        assert!(refused < NODES.len(), "no node can be promoted: {seen}");
        Err(seen)
    })
}

/// The secondary alone: its image has no gap, and in sync holds every FLUSH.
fn take_over(story: &Story, mut pair: Pair, cut: Cut, node: &'static str) -> Outcome {
    pair.start(node);
    let told = pair.helio(node, &["promote", "db", "--force", "--restore", "--yes"]);
    if !told.status.success() {
        assert!(!story.is_strong(cut), "{}: {node} cannot take over: {told}", story.shown(cut));
        return Outcome::NotTakenOver(told.stderr.lines().next().unwrap_or_default().to_owned());
    }
    pair.daemon(node).kill9();
    let until = cut.at.into_iter().min().filter(|_| story.is_strong(cut));
    if let Err(why) = story.journal.judge(&pair.member(node, "data"), until) {
        panic!("{}, {node} took over: {why}", story.shown(cut));
    }
    Outcome::TookOver(node)
}

/// The primary, if both copies are level.
fn level(pair: &Pair) -> Option<&'static str> {
    let is_level = |status: &Value| {
        status["role"] == "primary"
            && status["state"] == "replicating"
            && status["sync"].is_null()
            && status["cursors"]["accepted"] == status["cursors"]["peer_durable"]
    };
    NODES.into_iter().find(|node| is_level(&group(pair, node)))
}

/// Both are connected, and neither leads or is about to.
fn is_leaderless(pair: &Pair) -> bool {
    NODES.into_iter().all(|node| {
        let status = group(pair, node);
        status["role"] == "secondary"
            && status["peer"]["connection"] == "connected"
            && status["peer"]["role"] == "secondary"
    })
}

// SPDX-License-Identifier: Apache-2.0
//! The verbs about how the two nodes of a group stand to each other: `switch`, `explain`, `resolve`,
//! `member replace`, `member accept`.

use crate::args::{At, Member};
use crate::client::Client;
use crate::render::line;
use crate::verbs::{accepted, confirmed, print};
use crate::wait;
use anyhow::{Context, Result};
use helio_api::{
    Accepted, Explanation, MemberAcceptRequest, MemberReplaceRequest, ResolveRequest,
    ReverseRequest, SwitchRequest, paths,
};
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) fn switch(at: &At, group: &str, force: bool, wait: bool) -> Result<ExitCode> {
    let client = Client::new(at)?;
    accepted(&client.post(&paths::of_group(paths::SWITCH, group), &SwitchRequest { force })?)?;
    if wait { wait::level(&client, group) } else { Ok(ExitCode::SUCCESS) }
}

pub(crate) fn explain(at: &At, group: &str, json: bool) -> Result<ExitCode> {
    let told: Explanation = Client::new(at)?.get(&paths::of_group(paths::EXPLAIN, group))?;
    print(&if json { serde_json::to_string_pretty(&told)? + "\n" } else { text(&told) })?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn resolve(
    at: &At,
    group: &str,
    discard: String,
    yes: bool,
    save: Option<PathBuf>,
) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let save = from_the_root(save)?;
    let path = paths::of_group(paths::RESOLVE, group);
    let question = format!("give up what only {discard} holds of {group}?");
    let ask = |confirmed| {
        let wish = ResolveRequest { discard: discard.clone(), confirmed, save: save.clone() };
        client.post::<Accepted>(&path, &wish)
    };
    confirmed(&question, yes, ask)
}

/// The daemon has a working directory of its own, so a folder near us must be named from the root.
fn from_the_root(save: Option<PathBuf>) -> Result<Option<String>> {
    let save = save.map(std::path::absolute).transpose().context("--save")?;
    Ok(save.map(|dir| dir.to_string_lossy().into_owned()))
}

/// Takes the secondary's copy, everywhere or where the two may differ.
pub(crate) fn reverse(
    at: &At,
    group: &str,
    (full, wait): (bool, bool),
    yes: bool,
    save: Option<PathBuf>,
) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let save = from_the_root(save)?;
    let path = paths::of_group(paths::REVERSE, group);
    let question = format!("overwrite this primary of {group} with the secondary's copy?");
    let ask = |confirmed| {
        client.post::<Accepted>(&path, &ReverseRequest { full, confirmed, save: save.clone() })
    };
    let done = confirmed(&question, yes, ask)?;
    if wait && done == ExitCode::SUCCESS { wait::level(&client, group) } else { Ok(done) }
}

/// What is to be done with a volume's disk.
pub(crate) fn member(verb: Member) -> Result<ExitCode> {
    match verb {
        Member::Accept { volume, yes, at } => accept_member(&at, volume, yes),
        Member::Replace { volume, yes, at } => replace_member(&at, volume, yes),
    }
}

/// Gives a volume another disk in the place of a lost one.
fn replace_member(at: &At, (group, volume): (String, String), yes: bool) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let path = paths::of_group(paths::MEMBER_REPLACE, &group);
    let question = format!("overwrite it with the peer's copy of {group}/{volume}?");
    let ask = |confirmed| {
        client.post::<Accepted>(&path, &MemberReplaceRequest { volume: volume.clone(), confirmed })
    };
    confirmed(&question, yes, ask)
}

/// Accepts the copy of a volume that a failed flush left suspect.
fn accept_member(at: &At, (group, volume): (String, String), yes: bool) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let path = paths::of_group(paths::MEMBER_ACCEPT, &group);
    let question = format!("accept this copy of {group}/{volume} as it is?");
    let ask = |confirmed| {
        client.post::<Accepted>(&path, &MemberAcceptRequest { volume: volume.clone(), confirmed })
    };
    confirmed(&question, yes, ask)
}

/// The row first, then why, then what to do.
fn text(told: &Explanation) -> String {
    let Explanation { group, node, peer, role, state, reason, row } = told;
    let mut out = format!("{group}: {role} on {node}, {state}: {reason}\n");
    let Some(row) = row else {
        let nothing = format!("{node} and {peer} have not met since the daemon of {node} started");
        line(&mut out, "row", &nothing);
        return out;
    };
    let fired = format!("{}, at {} ({} -> {})", row.label, row.at_ms, row.source, row.target);
    line(&mut out, "row", &fired);
    row.facts.iter().for_each(|fact| line(&mut out, "fact", fact));
    line(&mut out, "meaning", &row.meaning);
    line(&mut out, "next", &row.next);
    line(&mut out, "hint", row.hint.as_deref().unwrap_or("nothing to do"));
    out
}

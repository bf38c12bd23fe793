// SPDX-License-Identifier: Apache-2.0
//! The verbs about how the two nodes of a group stand to each other: `switch`, `explain`, `resolve`,
//! `member replace`, `member accept`.

use crate::args::{At, Member, OfGroup};
use crate::client::Client;
use crate::confirm::Consent;
use crate::failure::failed;
use crate::render::line;
use crate::verbs::{accepted, print, printed};
use crate::{wait, which};
use anyhow::Result;
use helio_api::{
    Accepted, Explanation, MemberAcceptRequest, MemberReplaceRequest, ResolveRequest,
    ReverseRequest, SwitchRequest, paths,
};
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) fn switch(at: &At, of: OfGroup, force: bool, yes: bool, wait: bool) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let group = which::group(&client, of.group)?;
    if force {
        let stake = format!("processes that use a device of {group} get I/O errors");
        Consent { yes, json: of.json }.get(&stake, &format!("switch {group} all the same?"))?;
    }
    let path = paths::of_group(paths::SWITCH, &group);
    let done: Accepted = client.post(&path, &SwitchRequest { force })?;
    wait::finish(&client, at, &group, &done, (wait, of.json))
}

pub(crate) fn explain(at: &At, of: OfGroup) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let group = which::group(&client, of.group)?;
    let told: Explanation = client.get(&paths::of_group(paths::EXPLAIN, &group))?;
    if of.json {
        return printed(&told);
    }
    print(&text(&told))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn resolve(
    at: &At,
    of: OfGroup,
    discard: String,
    yes: bool,
    save: Option<PathBuf>,
) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let group = which::group(&client, of.group)?;
    let save = from_the_root(save)?;
    let path = paths::of_group(paths::RESOLVE, &group);
    let question = format!("discard what only {discard} has of {group}?");
    let ask = |confirmed| {
        let wish = ResolveRequest { discard: discard.clone(), confirmed, save: save.clone() };
        client.post(&path, &wish)
    };
    accepted(&Consent { yes, json: of.json }.run(&question, ask)?, of.json)
}

const FROM_THE_ROOT: &str = "give the path from the root, /...";

/// The daemon has a working directory of its own, so a folder near us must be named from the root.
fn from_the_root(save: Option<PathBuf>) -> Result<Option<String>> {
    let save =
        save.map(std::path::absolute).transpose().map_err(failed("--save", FROM_THE_ROOT))?;
    Ok(save.map(|dir| dir.to_string_lossy().into_owned()))
}

/// Takes the secondary's copy, everywhere or where the two may differ.
pub(crate) fn reverse(
    client: &Client,
    group: &str,
    full: bool,
    consent: Consent,
    save: Option<PathBuf>,
) -> Result<Accepted> {
    let save = from_the_root(save)?;
    let path = paths::of_group(paths::REVERSE, group);
    let question = format!("overwrite this primary of {group} with the secondary's copy?");
    let ask =
        |confirmed| client.post(&path, &ReverseRequest { full, confirmed, save: save.clone() });
    consent.run(&question, ask)
}

/// Replaces or accepts the member of a volume.
pub(crate) fn member(at: &At, verb: Member) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let (Member::Replace(of) | Member::Accept(of)) = verb.clone();
    let (group, volume) = which::volume(&client, of.volume)?;
    let consent = Consent { yes: of.yes, json: of.json };
    let done = match verb {
        Member::Replace(_) => {
            let path = paths::of_group(paths::MEMBER_REPLACE, &group);
            let question = format!("overwrite it with the peer's copy of {group}/{volume}?");
            consent.run(&question, |confirmed| {
                client.post(&path, &MemberReplaceRequest { volume: volume.clone(), confirmed })
            })?
        }
        Member::Accept(_) => {
            let path = paths::of_group(paths::MEMBER_ACCEPT, &group);
            let question = format!("accept this copy of {group}/{volume} as it is?");
            consent.run(&question, |confirmed| {
                client.post(&path, &MemberAcceptRequest { volume: volume.clone(), confirmed })
            })?
        }
    };
    accepted(&done, of.json)
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

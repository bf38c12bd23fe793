// SPDX-License-Identifier: Apache-2.0
//! The verbs about how the two nodes of a group stand to each other: `switch`, `explain`, `resolve`,
//! the verbs of `member`.

use crate::args::{At, Member, MemberAt, OfGroup, OfMember, Resyncing};
use crate::client::Client;
use crate::confirm::Consent;
use crate::failure::failed;
use crate::offer::stake;
use crate::render::{ago, line};
use crate::request::Request;
use crate::typed::{runnable, runnable_on};
use crate::verbs::{accepted, one_group, print, printed};
use crate::{wait, which};
use anyhow::Result;
use helio_api::{
    Accepted, Explanation, MemberAcceptRequest, MemberAddRequest, MemberMergeRequest,
    MemberRemoveRequest, MemberReplaceRequest, MemberSetRequest, ResolveRequest, ReverseRequest,
    SwitchRequest, paths,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn switch(at: &At, wish: Resyncing, force: bool, yes: bool) -> Result<ExitCode> {
    let Resyncing { of, wait } = wish;
    let client = Client::new(at)?;
    let group = which::group(&client, of.group)?;
    let request = Request::Switch(SwitchRequest { force });
    let status = one_group(&client, &group)?;
    let stake = stake(&request, &status, None);
    if force {
        Consent { yes, json: of.json }.get(&stake, &format!("switch {group} nevertheless?"))?;
    } else if !of.json && status.peer.is_some() {
        eprintln!("at stake: {stake}");
    }
    let done = request.post(&client, &group)?;
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
    (discard, last_copy): (String, Option<String>),
    yes: bool,
    save: Option<PathBuf>,
) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let group = which::group(&client, of.group)?;
    let save = from_the_root(save)?;
    let wish = Request::Resolve(ResolveRequest { discard, confirmed: false, save, last_copy });
    accepted(&Consent { yes, json: of.json }.request(&client, &group, &wish)?, of.json)
}

const FROM_THE_ROOT: &str = "give the path from the root, /...";

/// The daemon has a working directory of its own, so a folder near us must be named from the root.
fn from_the_root(save: Option<PathBuf>) -> Result<Option<String>> {
    let save =
        save.map(std::path::absolute).transpose().map_err(failed("--save", FROM_THE_ROOT))?;
    Ok(save.map(|dir| dir.to_string_lossy().into_owned()))
}

fn absolute(path: &Path) -> Result<String> {
    let path = std::path::absolute(path).map_err(failed("PATH", FROM_THE_ROOT))?;
    Ok(path.to_string_lossy().into_owned())
}

/// Takes the secondary's copy, everywhere or where the two may differ.
pub(crate) fn reverse(
    client: &Client,
    group: &str,
    (full, last_copy): (bool, Option<String>),
    consent: Consent,
    save: Option<PathBuf>,
) -> Result<Accepted> {
    let save = from_the_root(save)?;
    let wish = Request::Reverse(ReverseRequest { full, confirmed: false, save, last_copy });
    consent.request(client, group, &wish)
}

/// Changes the members of a volume.
pub(crate) fn member(at: &At, verb: Member) -> Result<ExitCode> {
    let client = Client::new(at)?;
    match verb {
        Member::Replace(OfMember { volume, yes, json }) => {
            let (group, volume) = which::volume(&client, volume)?;
            let wish = MemberReplaceRequest { volume, confirmed: false };
            let wish = Request::MemberReplace(wish);
            accepted(&Consent { yes, json }.request(&client, &group, &wish)?, json)
        }
        Member::Accept(OfMember { volume, yes, json }) => {
            let (group, volume) = which::volume(&client, volume)?;
            let wish = Request::MemberAccept(MemberAcceptRequest { volume, confirmed: false });
            accepted(&Consent { yes, json }.request(&client, &group, &wish)?, json)
        }
        Member::Add { at: MemberAt { volume, path, json }, require_minicopy } => {
            let path = absolute(&path)?;
            let (group, volume) = which::volume(&client, volume)?;
            let wish = MemberAddRequest { volume, path, require_minicopy };
            let to = paths::of_group(paths::MEMBER_ADD, &group);
            accepted(&client.post(&to, &wish)?, json)
        }
        Member::Remove { at: MemberAt { volume, path, json }, for_backup, force, yes } => {
            let path = absolute(&path)?;
            let (group, volume) = which::volume(&client, volume)?;
            if force {
                let stake = format!(
                    "operations in progress on {path} may still write to it after the removal"
                );
                let question = format!("remove {path} from {group}/{volume} before they complete?");
                Consent { yes, json }.get(&stake, &question)?;
            }
            let wish = MemberRemoveRequest { volume, path, force, for_backup };
            let to = paths::of_group(paths::MEMBER_REMOVE, &group);
            accepted(&client.post(&to, &wish)?, json)
        }
        Member::Set { at: MemberAt { volume, path, json }, read_cost } => {
            let path = absolute(&path)?;
            let (group, volume) = which::volume(&client, volume)?;
            let to = paths::of_group(paths::MEMBER_SET, &group);
            accepted(&client.post(&to, &MemberSetRequest { volume, path, read_cost })?, json)
        }
        Member::Merge { volume, json } => {
            let (group, volume) = which::volume(&client, volume)?;
            let to = paths::of_group(paths::MEMBER_MERGE, &group);
            accepted(&client.post(&to, &MemberMergeRequest { volume })?, json)
        }
    }
}

/// The decision and its time first, then its facts, then what to do. One that no longer holds advises nothing.
fn text(told: &Explanation) -> String {
    let Explanation { group, node, peer, role, state, reason, at_ms, row, changed } = told;
    let mut out = format!("{group}: {role} on {node}, {state}: {reason}\n");
    let Some(row) = row else {
        let nothing = match peer {
            Some(peer) => {
                format!("{node} and {peer} have not connected since the daemon of {node} started")
            }
            None => format!("none: {node} is the only node of {group}"),
        };
        line(&mut out, "decision", &nothing);
        return out;
    };
    line(&mut out, "decision", &format!("{} ({} -> {})", row.label, row.source, row.target));
    let age = ago(row.at_ms, *at_ms);
    let since = changed.as_ref().map_or_else(String::new, |what| format!("; now {what}"));
    let made = format!(
        "{}, {age} ago, when {} and {} connected{since}",
        row.at_ms, row.source, row.target
    );
    line(&mut out, "decided", &made);
    line(&mut out, "meaning", &row.meaning);
    for (at, fact) in row.facts.iter().enumerate() {
        line(&mut out, if at == 0 { "facts" } else { "" }, fact);
    }
    if changed.is_some() {
        line(&mut out, "do", &runnable(&format!("`helio status {group}` shows what to do now")));
        return out;
    }
    line(&mut out, "next", &row.next);
    line(&mut out, "do", &runnable_on(row.hint.as_deref().unwrap_or("nothing"), node));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_api::Row;
    use helio_units::{Role, State, WallTime};

    fn told(changed: Option<&str>) -> String {
        let row = Row {
            label: "resume-received".into(),
            at_ms: WallTime(1_795_210_640_554),
            source: "paris".into(),
            target: "lyon".into(),
            facts: vec!["paris was primary".into(), "lyon was secondary".into()],
            meaning: "lyon has all that paris sent".into(),
            next: "the stream continues".into(),
            hint: None,
        };
        text(&Explanation {
            group: "db".into(),
            node: "paris".into(),
            peer: Some("lyon".into()),
            role: Role::Primary,
            state: State::Replicating,
            reason: "lyon follows".into(),
            at_ms: WallTime(row.at_ms.0 + 182_000),
            row: Some(row),
            changed: changed.map(str::to_owned),
        })
    }

    #[test]
    fn a_decision_has_its_time_and_one_that_no_longer_holds_says_so() {
        let current = told(None);
        let expected = "\
db: primary on paris, replicating: lyon follows
  decision   resume-received (paris -> lyon)
  decided    2026-11-20 21:37:20Z, 3 min 2 s ago, when paris and lyon connected
  meaning    lyon has all that paris sent
  facts      paris was primary
             lyon was secondary
  next       the stream continues
  do         nothing
";
        assert_eq!(current, expected);
        let old = told(Some("replication is paused by an operator"));
        assert!(old.contains("connected; now replication is paused by an operator\n"), "{old}");
        assert!(old.ends_with("  do         `helio status db` shows what to do now\n"), "{old}");
        assert!(!old.contains("next "), "{old}");
    }
}

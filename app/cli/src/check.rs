// SPDX-License-Identifier: Apache-2.0
//! `helio check`: shows what the daemon's judges find before a start. Exit codes are those of the verbs: 1 if anything
//! fails.

use crate::args::{At, Check};
use crate::client::Client;
use crate::typed;
use crate::verbs::{REFUSED, print};
use anyhow::Result;
use helio_api::{Connection, GroupStatus, Status, paths};
use helio_daemon::check::{Finding, RefusedPeer, Served, Verdict, Wish, check};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

/// A daemon that runs answers at once.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

pub(crate) fn run(at: &At, wish: Check) -> Result<ExitCode> {
    let running = served(at, &wish);
    let Check { node, config, json } = wish;
    let (mut found, mut printed) = (Vec::new(), Ok(()));
    let wish = Wish { node, config, state: at.state.clone(), running };
    check(&wish, &mut |finding| {
        if !json && printed.is_ok() {
            printed = print(&in_words(&finding));
        }
        found.push(finding);
    });
    printed?;
    if json {
        print(&in_json(&found)?)?;
    }
    let fails = found.iter().any(|finding| finding.verdict == Verdict::Fail);
    Ok(if fails { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

/// The groups that the daemon of that very node serves, if it answers in that state directory.
fn served(at: &At, wish: &Check) -> Option<BTreeMap<String, Served>> {
    let timeout = at.timeout.or(Some(ANSWER_WITHIN));
    let at = At { state: at.state.clone(), remote: None, timeout };
    let status: Status = Client::new(&at).ok()?.get(paths::STATUS).ok()?;
    let groups = status.groups.into_iter().map(|group| (group.name.clone(), of(group)));
    (status.node == wish.node).then(|| groups.collect())
}

/// What the check is to know of a group that is served.
fn of(group: GroupStatus) -> Served {
    let refused = group.peer.filter(|peer| peer.connection == Connection::Refused);
    let refused =
        refused.map(|peer| RefusedPeer { name: peer.name, why: peer.reason, hint: group.next });
    let volumes =
        group.volumes.into_iter().map(|volume| (volume.name, volume.size_bytes)).collect();
    Served { volumes, refused }
}

fn in_words(finding: &Finding) -> String {
    let Finding { verdict, what, why, hint } = finding;
    let hint = hint.as_deref().map(typed::runnable);
    let hint = hint.map(|hint| format!("  hint: {hint}\n")).unwrap_or_default();
    format!("{:<4}  {what}: {why}\n{hint}", verdict.word())
}

fn in_json(found: &[Finding]) -> Result<String> {
    let all: Vec<_> = found
        .iter()
        .map(|finding| {
            json!({
                "verdict": finding.verdict.word(),
                "what": finding.what,
                "why": finding.why,
                "hint": finding.hint.as_deref().map(typed::runnable),
            })
        })
        .collect();
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}

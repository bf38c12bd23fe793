// SPDX-License-Identifier: Apache-2.0
//! `helio verify`: the two copies compared while they are in use.

use crate::args::{At, Comparison, OfGroup, Verify};
use crate::client::{Client, ClientError};
use crate::confirm::Consent;
use crate::offer::stake;
use crate::render::{self, line};
use crate::request::Request;
use crate::verbs::{accepted, one_group, print, printed};
use crate::wait::Wait;
use crate::{typed, verbs, which};
use anyhow::Result;
use helio_api::{ApiError, GroupStatus, VerifyRequest, VerifyRun, paths};
use helio_units::{Role, WallTime};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

/// How often a verify that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(crate) fn run(at: &At, verb: Verify) -> Result<ExitCode> {
    match verb {
        Verify::Start(wish) => start(at, wish),
        Verify::Stop(of) => verbs::request(at, &Request::VerifyStop, of),
        Verify::Show(of) => show(at, of),
    }
}

fn start(at: &At, wish: Comparison) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let (group, volume) = wish.what.map_or((None, None), |it| (Some(it.group), it.volume));
    let group = which::group(&client, group)?;
    if wish.repair {
        confirm(&one_group(&client, &group)?, Consent { yes: wish.yes, json: wish.json })?;
    }
    let request = VerifyRequest {
        volume,
        repair: wish.repair,
        rate_bytes_per_second: wish.rate,
        restart: wish.restart,
    };
    let done = Request::Verify(request).post(&client, &group)?;
    if !wish.wait {
        return accepted(&done, wish.json);
    }
    if !wish.json {
        accepted(&done, false)?;
    }
    let stop = Some(format!("helio verify stop {group}"));
    let waiting = Wait::begin(at, wish.json, format!("the verify of {group}"), stop)?;
    // Its end, whatever it waits for itself.
    let g = loop {
        let g = one_group(&client, &group)?;
        if g.verify.run.is_none() {
            break g;
        }
        waiting.pause(LOOK_EVERY)?;
    };
    ended(&g)?;
    if wish.json {
        return accepted(&done, true);
    }
    print(&format!("the copies of {} are compared: {}\n", g.name, passes(&g)))?;
    Ok(ExitCode::SUCCESS)
}

/// Asks before the secondary's blocks are overwritten. Without a secondary, or on it, the daemon refuses.
fn confirm(g: &GroupStatus, consent: Consent) -> Result<()> {
    let Some(peer) = g.peer.as_ref().filter(|_| g.role == Role::Primary) else { return Ok(()) };
    let (node, peer) = (&g.node, &peer.name);
    let repair = Request::Verify(VerifyRequest { repair: true, ..VerifyRequest::default() });
    let question =
        format!("keep the copy of {node} and overwrite that of {peer} where they differ?");
    consent.get(&stake(&repair, g, None), &question)
}

fn show(at: &At, of: OfGroup) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let group = which::group(&client, of.group)?;
    let g = one_group(&client, &group)?;
    if of.json {
        let volumes: Vec<_> = g
            .volumes
            .iter()
            .map(|volume| json!({ "name": volume.name, "verified": volume.verified }))
            .collect();
        return printed(&json!({ "group": g.name, "verify": g.verify, "volumes": volumes }));
    }
    let status: helio_api::Status = client.get(paths::STATUS)?;
    print(&text(&g, status.at_ms))?;
    Ok(ExitCode::SUCCESS)
}

/// Differences that nobody mended are a failure.
fn ended(g: &GroupStatus) -> Result<()> {
    let refusal = match &g.verify.stopped {
        Some(why) => ApiError::new(
            "verify-stopped",
            format!("the verify of {} did not complete: {why}", g.name),
            format!("`helio verify start {}` continues at its position", g.name),
        ),
        None if g.verify.differing.0 > 0 => ApiError::new("differs", differences(g), hint(&g.name)),
        None => return Ok(()),
    };
    Err(ClientError::Refused(Box::new(refusal)).into())
}

fn passes(g: &GroupStatus) -> String {
    let told = g.volumes.iter().filter_map(|volume| {
        let pass = volume.verified?;
        let repaired = if pass.repaired && pass.differed_bytes.0 > 0 { ", copied" } else { "" };
        Some(format!("{}: {} differed{repaired}", volume.name, pass.differed_bytes))
    });
    told.collect::<Vec<_>>().join("; ")
}

fn differences(g: &GroupStatus) -> String {
    let v = &g.verify;
    let first = v.examples.join(", ");
    let (extents, differ) =
        if v.differing.0 == 1 { ("extent", "differs") } else { ("extents", "differ") };
    let peer = g.peer.as_ref().map_or("", |peer| &peer.name);
    format!(
        "{} {extents} of {} {differ} on {peer}, {}: {first}",
        v.differing, g.name, v.differing_bytes
    )
}

fn hint(group: &str) -> String {
    format!(
        "`helio resync {group}` copies them; `helio verify start {group} --repair` looks for more"
    )
}

fn progress(run: &VerifyRun) -> String {
    let rate =
        run.rate_bytes_per_second.map_or_else(String::new, |rate| format!(", at most {rate}"));
    let repair = if run.repair { ", repairs" } else { "" };
    let waits = run.waits.as_ref().map_or_else(String::new, |why| format!("; waits: {why}"));
    format!(
        "at volume {}, {} of {}{rate}{repair}{waits}",
        run.volume, run.compared_bytes, run.total_bytes
    )
}

/// The lines of a status that are about verifies; none where there is nothing to tell.
pub(crate) fn lines(out: &mut String, g: &GroupStatus) {
    if let Some(run) = &g.verify.run {
        line(out, "verify", &progress(run));
    } else if let Some(why) = &g.verify.stopped {
        line(out, "verify", &format!("stopped: {why}"));
    }
    if g.verify.differing.0 > 0 {
        let hint = typed::runnable(&hint(&g.name));
        line(out, "differs", &format!("{}; {hint}", differences(g)));
    }
}

/// When a volume was verified last.
pub(crate) fn last(volume: &helio_api::VolumeStatus, now: WallTime) -> String {
    match volume.verified {
        None => "never verified".to_owned(),
        Some(pass) => {
            let repaired = if pass.repaired { " and was copied" } else { "" };
            let found = match pass.differed_bytes.0 {
                0 => "nothing differed".to_owned(),
                _ => format!("{} differed{repaired}", pass.differed_bytes),
            };
            format!("verified {} ago, {found}", render::ago(pass.at_ms, now))
        }
    }
}

fn text(g: &GroupStatus, now: WallTime) -> String {
    let mut out = format!("{}\n", g.name);
    lines(&mut out, g);
    for volume in &g.volumes {
        line(&mut out, "volume", &format!("{}: {}", volume.name, last(volume, now)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_api::{Status, Verified};
    use helio_units::{Bytes, Items};

    #[test]
    fn differences_are_told_with_what_helps_and_a_volume_says_when_it_was_verified() {
        let sample: Status = serde_json::from_str(include_str!("render_sample.json"))
            .expect("the sample is a status");
        let mut group = sample.groups.into_iter().next().expect("the sample has a group");
        assert!(text(&group, sample.at_ms).contains("data: never verified\n"));
        group.verify.differing = Items(1);
        group.verify.differing_bytes = Bytes(4096);
        group.verify.examples = vec!["data 0+4096".to_owned()];
        let at_ms = WallTime(sample.at_ms.0 - 61_000);
        let differed_bytes = Bytes(4096);
        group.volumes[0].verified = Some(Verified { at_ms, differed_bytes, repaired: false });
        let shown = text(&group, sample.at_ms);
        assert!(
            shown.contains("1 extent of db differs on lyon, 4 KiB: data 0+4096; `helio resync db`"),
            "{shown}"
        );
        assert!(shown.contains("verified 1 min 1 s ago, 4 KiB differed\n"), "{shown}");
    }
}

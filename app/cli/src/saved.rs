// SPDX-License-Identifier: Apache-2.0
//! `helio saved`: data that `resolve` and a reverse resync saved before they discarded or overwrote it.

use crate::args::{At, Saved};
use crate::client::Client;
use crate::confirm::Consent;
use crate::verbs::{accepted, print, printed};
use anyhow::Result;
use helio_api::{Accepted, SavedCopy, SavedDeleteRequest, SavedList, paths};
use std::fmt::Write;
use std::process::ExitCode;

pub(crate) fn saved(at: &At, verb: Saved) -> Result<ExitCode> {
    match verb {
        Saved::List { group, json } => list(at, group.as_deref(), json),
        Saved::Delete { name, all, yes, json } => delete(at, name, all, Consent { yes, json }),
    }
}

fn list(at: &At, group: Option<&str>, json: bool) -> Result<ExitCode> {
    let mut told: SavedList = Client::new(at)?.get(paths::SAVED)?;
    told.saved.retain(|copy| group.is_none_or(|group| copy.group == group));
    if json {
        return printed(&told);
    }
    print(&text(&told))?;
    Ok(ExitCode::SUCCESS)
}

fn text(told: &SavedList) -> String {
    let mut out: String = told.saved.iter().map(copy).collect();
    let SavedList { node, used_bytes, limit_bytes, .. } = told;
    let _ = writeln!(out, "{used_bytes} of {limit_bytes} (saved-limit) used on {node}");
    out
}

/// A row for it, and one for each volume.
fn copy(copy: &SavedCopy) -> String {
    let SavedCopy { name, at_ms, why, complete, volumes, .. } = copy;
    let why = if *complete { why } else { "incomplete" };
    let mut out = format!("{name}  saved {at_ms}  {why}\n");
    for volume in volumes {
        let _ = writeln!(out, "  {}  {}  {}", volume.volume, volume.bytes, volume.path);
    }
    out
}

fn delete(at: &At, name: Option<String>, all: bool, consent: Consent) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let ask = |confirmed| {
        let wish = SavedDeleteRequest { name: name.clone(), all, confirmed };
        client.post::<Accepted>(paths::SAVED_DELETE, &wish)
    };
    accepted(&consent.run("delete it?", ask)?, consent.json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_api::SavedVolume;
    use helio_units::{Bytes, WallTime};

    #[test]
    fn a_list_shows_what_why_where_and_the_limit() {
        let image = "/state/saved/db-T/data.img".to_owned();
        let volume = SavedVolume { volume: "data".into(), bytes: Bytes::mib(3), path: image };
        let saved = SavedCopy {
            name: "db-T".into(),
            group: "db".into(),
            at_ms: WallTime(0),
            why: "discarded by helio resolve".into(),
            complete: true,
            volumes: vec![volume],
        };
        let (used_bytes, limit_bytes) = (Bytes::mib(3), Bytes::gib(32));
        let told = SavedList { node: "lyon".into(), used_bytes, limit_bytes, saved: vec![saved] };
        assert_eq!(
            text(&told),
            "db-T  saved 1970-01-01 00:00:00Z  discarded by helio resolve\n  data  3 MiB  /state/saved/db-T/data.img\n\
             3 MiB of 32 GiB (saved-limit) used on lyon\n"
        );
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `helio adopt` and `helio release`: disks with data come under mirroring and leave it again, as they are.

use crate::args::{Adoption, At, Named};
use crate::client::Client;
use crate::confirm::Consent;
use crate::failure::failed;
use crate::verbs::{accepted, done};
use crate::which;
use anyhow::{Result, bail};
use helio_api::{Accepted, ApplyReply, ApplyRequest, ReleaseRequest, paths};
use helio_daemon::Platform;
use helio_daemon::adopt::{Adopted, Store, Wish};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How long a daemon may take to serve a group that comes.
const APPLIED_WITHIN: Duration = Duration::from_secs(30);

/// Looks, prints what the configuration needs, and does it where that was asked for.
pub(crate) fn adopt(at: &At, told: Adoption) -> Result<ExitCode> {
    let Adoption { stores, group, volumes, node, peer, peer_paths, config, write, json } = told;
    let fits = |named: usize| named == 0 || named == stores.len();
    if !fits(volumes.len()) || !fits(peer_paths.len()) {
        bail!(
            "the numbers of --volume, --peer-path and PATH differ\n  hint: give one of each for every PATH, or none"
        );
    }
    let store = |(n, path): (usize, &PathBuf)| -> Result<Store> {
        let path = std::path::absolute(path)
            .map_err(failed("PATH", "give the path from the root, /..."))?;
        let volume = volumes.get(n).cloned().unwrap_or_else(|| name_of(&path));
        let peer_path = peer_paths.get(n).cloned().unwrap_or_else(|| path.clone());
        Ok(Store { path, volume, peer_path })
    };
    let stores = stores.iter().enumerate().map(store).collect::<Result<_>>()?;
    let wish = Wish { group, stores, node, peer, config, state: at.state.clone(), write };
    let mut adopted = helio_daemon::adopt::adopt(&Platform::this(), &wish)?;
    let mut warnings = std::mem::take(&mut adopted.warnings);
    let live = adopted.ready && adopted.running && applied(&wish, &mut warnings);
    let message = text(&wish, &adopted, live);
    done(message.trim_end().to_owned(), warnings, json)
}

/// Lets the daemon that runs serve the group, where its file says so and nothing else would change with it.
fn applied(wish: &Wish, warnings: &mut Vec<String>) -> bool {
    let at = At { state: wish.state.clone(), remote: None, timeout: Some(APPLIED_WITHIN) };
    let ask = |dry_run| -> Result<ApplyReply> {
        Ok(Client::new(&at)?.post(paths::APPLY, &ApplyRequest { dry_run })?)
    };
    let only_this = |reply: ApplyReply| {
        reply.changes == [format!("group {}: added", wish.group)] && reply.restart_needed.is_empty()
    };
    let done = ask(true).map(|reply| only_this(reply) && ask(false).is_ok_and(only_this));
    done.unwrap_or_else(|error| {
        warnings.push(format!(
            "the daemon did not receive the request to serve {}: {error}",
            wish.group
        ));
        false
    })
}

/// The last part of a path, as far as a volume may be called that.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let may = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = name.chars().map(|c| if may(c) { c } else { '-' }).collect();
    name.trim_start_matches(['-', '.']).to_owned()
}

fn text(wish: &Wish, done: &Adopted, live: bool) -> String {
    let (Wish { group, node, .. }, peer) = (wish, &done.peer);
    let config = wish.config.display();
    if !done.ready {
        let fragment = done.fragment.as_deref().unwrap_or_default();
        return format!(
            "# nothing was changed. Add this to {config} on {node} and {peer} and repeat, or repeat with --write\n\n{fragment}"
        );
    }
    let mut out = String::new();
    for (store, size) in &done.stores {
        out += &format!("adopted {} as {group}/{}, {size}\n", store.path.display(), store.volume);
    }
    if done.fragment.is_some() {
        out += &format!("  added group {group} to {config}; {peer} needs the same file\n");
    }
    for (store, size) in &done.stores {
        let path = store.peer_path.display();
        out +=
            &format!("  on {peer}, {path} must have {} bytes; its data is overwritten\n", size.0);
    }
    let start = match (live, done.running) {
        (true, _) => format!("  the daemon on {node} serves it"),
        (false, true) => {
            format!("  `helio apply` on {node}, or a restart of its daemon, serves it")
        }
        (false, false) => format!("  start the daemon on {node}"),
    };
    out + &format!(
        "{start}: it becomes primary when {peer} is connected, and copies everything to it\n"
    )
}

/// Removes a group from this node.
pub(crate) fn release(
    at: &At,
    named: Option<Named>,
    keep_metadata: bool,
    force: bool,
    consent: Consent,
) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let (group, volume) = named.map_or((None, None), |it| (Some(it.group), it.volume));
    let group = which::group(&client, group)?;
    let stake =
        format!("{group} is removed from this node; a mirror made later copies all data again");
    consent.get(&stake, &format!("remove {group} from this node?"))?;
    let wish = ReleaseRequest { volume, keep_metadata, force };
    let path = paths::of_group(paths::RELEASE, &group);
    accepted(&client.post::<Accepted>(&path, &wish)?, consent.json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_called_as_the_last_part_of_its_path() {
        for (path, name) in
            [("/dev/vg0/data", "data"), ("/srv/my disk.img", "my-disk.img"), ("/a/.b", "b")]
        {
            assert_eq!(name_of(Path::new(path)), name);
        }
    }
}

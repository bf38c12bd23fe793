// SPDX-License-Identifier: Apache-2.0
//! An operator says that the disks the members lie on now hold true copies of those they lay on. The record forgets what
//! those were, and with it everything that only their own bytes could prove: marks, a clean stop, being level.

use super::{checksum, hold, look, path_of};
use crate::confirm::Consent;
use crate::failure::{failed, unreadable, unwritable};
use crate::verbs::done;
use anyhow::{Result, anyhow, bail};
use helio_daemon::offline::{OnDisk, count_alone, write_superblock};
use helio_ledger::{Found, Ledger, Opened};
use std::fs::OpenOptions;
use std::path::Path;
use std::process::ExitCode;

/// See the module's words. The daemon is stopped.
pub(crate) fn accept(group: &str, state: &Path, consent: Consent) -> Result<ExitCode> {
    let _held = hold(state)?;
    let path = path_of(group, state);
    let check = || format!("see `helio metadata check {group}`");
    let Some(superblock) = look(&path)?.superblock else {
        bail!("{} has no superblock that can be read\n  hint: {}", path.display(), check());
    };
    let file = OpenOptions::new().read(true).write(true).open(&path).map_err(unwritable(&path))?;
    let length = file.metadata().map_err(unreadable(&path))?.len();
    let on_disk = OnDisk { file: file.try_clone()?, length };
    let owner = (superblock.group.as_str(), superblock.node.as_str());
    let opened = Ledger::open(&on_disk, owner, checksum)
        .map_err(|error| anyhow!("{}: {error}\n  hint: {}", path.display(), check()))?;
    let found = match opened {
        Opened::Found(found) => found,
        Opened::Fresh => bail!("{} is empty\n  hint: {}", path.display(), check()),
        Opened::Older(_) => bail!(
            "{} has the format of an older version\n  hint: start the daemon, which converts the file, stop it, and repeat \
             this command",
            path.display()
        ),
    };
    let stake = format!("if a disk of {group} holds older data, acknowledged writes are lost");
    consent.get(&stake, &format!("accept the disks of {group} as they are?"))?;
    let (ledger, Found { mut superblock, .. }) = *found;
    superblock.members.fill(0);
    superblock.verified.fill(0);
    superblock.marks_void = true;
    (superblock.clean, superblock.equal, superblock.sure) = (false, false, false);
    let owner = (superblock.group.clone(), superblock.node.clone());
    write_superblock(ledger, superblock, &file)
        .and_then(|()| count_alone(&OnDisk { file, length }, (&owner.0, &owner.1)))
        .map_err(failed(format!("cannot write {}", path.display()), check()))?;
    let message = format!(
        "the next start of the daemon uses the members of {group} as they are, and compares all data of the copies"
    );
    done(message, Vec::new(), consent.json)
}

// SPDX-License-Identifier: Apache-2.0
//! Keys: made in a file that only its owner may read, and shown as the line that goes into the configuration.

use crate::failure::{failed, unwritable};
use crate::verbs::{print, printed};
use anyhow::Result;
use helio_daemon::KEY_FILE;
use helio_driver::Linux;
use helio_tls::{NodeKey, PublicKey};
use serde_json::json;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Makes a key in a file that must not exist: the one named, or the node's own in its state directory.
pub(crate) fn new(out: Option<PathBuf>, state: &Path, json: bool) -> Result<ExitCode> {
    let file = match out {
        Some(file) => file,
        None => {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(state);
            made.map_err(unwritable(state))?;
            state.join(KEY_FILE)
        }
    };
    let key = NodeKey::create(&Linux::host(), &file)
        .map_err(failed("no key was made", "name another file with --out"))?;
    eprintln!("made {}; never copy it to another host", file.display());
    shown(key.public(), json)
}

/// Shows the public half of a key.
pub(crate) fn show(file: Option<PathBuf>, state: &Path, json: bool) -> Result<ExitCode> {
    let file = file.unwrap_or_else(|| state.join(KEY_FILE));
    let hint = "name a key file; `helio key new` makes one";
    shown(
        NodeKey::load(&Linux::host(), &file).map_err(failed("no key can be shown", hint))?.public(),
        json,
    )
}

fn shown(key: PublicKey, json: bool) -> Result<ExitCode> {
    if json {
        return printed(&json!({ "key": key.to_string() }));
    }
    print(&format!("key = \"{key}\"\n"))?;
    Ok(ExitCode::SUCCESS)
}

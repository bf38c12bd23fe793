// SPDX-License-Identifier: Apache-2.0
//! `cargo-deny`: found, or built once into the cache folder where nothing may be missing.

use super::limit::{self, Ending};
use super::options::Place;
use super::parts::cargo;
use crate::repo;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The one that is built.
const VERSION: &str = "0.20.2";
/// How long that may take. It is no part of the limit of a run.
const BUILT_WITHIN: Duration = Duration::from_secs(30 * 60);

/// The command that checks, with `cargo-deny` in its reach. Else why there is none.
pub(super) fn command(place: Place) -> Result<Command, String> {
    let tools = repo::cache()?.join("tools");
    let check = || {
        let mut command = cargo("deny check bans licenses sources");
        let own = std::env::var_os("PATH").unwrap_or_default();
        let path = [tools.join("bin")].into_iter().chain(std::env::split_paths(&own));
        // A folder with a colon in its name cannot be in a path, and holds no program for us.
        command.env("PATH", std::env::join_paths(path.collect::<Vec<PathBuf>>()).unwrap_or(own));
        command
    };
    let is_there = || {
        let mut asks = check();
        asks.arg("--help").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        asks.status().is_ok_and(|status| status.success())
    };
    if is_there() {
        return Ok(check());
    }
    if place == Place::Desk {
        return Err("cargo-deny is not installed; `cargo install cargo-deny` brings it".to_owned());
    }
    let mut install = cargo("install cargo-deny --locked --version");
    install.arg(VERSION).arg("--root").arg(&tools);
    match limit::run(install, BUILT_WITHIN, |_| ()) {
        Ending::Success if is_there() => Ok(check()),
        Ending::Success => Err("cargo-deny was built and does not start".to_owned()),
        Ending::Failure(how) => Err(format!("cargo-deny is not built: {how}")),
        Ending::OverBudget => Err("building cargo-deny took too long".to_owned()),
    }
}

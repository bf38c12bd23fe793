// SPDX-License-Identifier: Apache-2.0
//! What `helio check` reports: would the daemon start here, serve its groups and reach its peers. The judges are the
//! daemon's own. Nothing is changed, and nothing is left behind.

mod groups;
mod host;
mod node;
mod peers;

use crate::failed;
use crate::{config::Config, open, open::StateDir, released, trust};
use anyhow::{Error, Result};
use helio_driver::{Host, Linux};
use helio_units::Bytes;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How good a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// The daemon starts and serves; something else may not work.
    Warn,
    /// The daemon refuses to start, does not serve a group, or does not mirror it.
    Fail,
}

impl Verdict {
    /// The word that people and programs read.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
        }
    }
}

/// One checked thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How good it is.
    pub verdict: Verdict,
    /// What was checked.
    pub what: String,
    /// What was found.
    pub why: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Finding {
    fn ok(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Ok, what: what.into(), why: why.into(), hint: None }
    }

    fn warn(what: impl Into<String>, why: impl Into<String>, hint: impl Into<String>) -> Self {
        let hint = Some(hint.into());
        Self { verdict: Verdict::Warn, what: what.into(), why: why.into(), hint }
    }

    /// The daemon's own words for why it refuses. They may begin with what was checked.
    fn fail(what: impl Into<String>, error: &Error) -> Self {
        let what = what.into();
        let text = format!("{error:#}");
        let (why, hint) = failed::in_parts(&text);
        let why = why.strip_prefix(&format!("{what}: ")).unwrap_or(why).to_owned();
        Self { verdict: Verdict::Fail, what, why, hint: Some(hint.to_owned()) }
    }

    fn of(what: impl Into<String>, found: Result<String>) -> Self {
        match found {
            Ok(why) => Self::ok(what, why),
            Err(error) => Self::fail(what, &error),
        }
    }
}

/// What is to be checked.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Which node of the file this is.
    pub node: String,
    /// The file.
    pub config: PathBuf,
    /// The state directory.
    pub state: PathBuf,
    /// The groups that this node's own daemon serves, if it runs there: what it holds is not in the way.
    pub running: Option<BTreeMap<String, Served>>,
}

/// A group that the running daemon serves.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// The sizes of its volumes.
    pub volumes: BTreeMap<String, Bytes>,
    /// One of the two nodes refuses the connection: for example, both reach the same disk, or a machine was copied.
    pub refused: Option<RefusedPeer>,
}

/// A connection that one of two nodes refuses.
#[derive(Clone, Debug)]
pub struct RefusedPeer {
    /// The peer.
    pub name: String,
    /// Why, as the status of the group says.
    pub why: String,
    /// What the status says to do next.
    pub hint: String,
}

impl Wish {
    fn is_served(&self, group: &str) -> bool {
        self.running.as_ref().is_some_and(|groups| groups.contains_key(group))
    }
}

/// A file system that has not answered within this is reported, and not waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tells everything that is found as soon as it is, in the order in which the daemon would meet it.
pub fn check(wish: &Wish, tell: &mut dyn FnMut(Finding)) {
    let host = &Linux::host_within(PATIENCE);
    let mut config = match Config::load(host, &wish.config) {
        Ok(config) => config,
        Err(error) => return tell(Finding::fail("configuration", &error.into())),
    };
    let released = released::all(host, &wish.state);
    config.groups.retain(|group, _| !released.contains(group));
    let view = match config.for_node(&wish.node) {
        Ok(view) => view,
        Err(error) => return tell(Finding::fail("configuration", &error.into())),
    };
    let named = match view.groups.len() {
        1 => format!("{} names node {} and 1 group of it", config.file, wish.node),
        more => format!("{} names node {} and {more} groups of it", config.file, wish.node),
    };
    let named = open::takes_part(&view, &wish.node, (host, &wish.state)).map(|()| named);
    tell(Finding::of("configuration", named));
    tell(state(host, wish));
    node::resources(host, &view).into_iter().for_each(&mut *tell);
    let own = trust::own_key(host, &view, &wish.state);
    tell(node::key(&view, own.as_ref()));
    node::addresses(host, &view, wish.running.is_some()).into_iter().for_each(&mut *tell);
    groups::check(host, &view, wish, tell);
    let own = own.ok().flatten();
    peers::check(&view, &wish.node, own.as_ref()).for_each(&mut *tell);
    let running = wish.running.iter().flatten();
    running.filter_map(|(group, served)| connection(group, served)).for_each(&mut *tell);
    host::check(&view).into_iter().for_each(tell);
}

/// The running daemon reports that the connection of a group is refused: no check of one node finds why.
fn connection(group: &str, served: &Served) -> Option<Finding> {
    let RefusedPeer { name, why, hint } = served.refused.clone()?;
    let what = format!("connection of {group} with {name}");
    Some(Finding { verdict: Verdict::Fail, what, why, hint: Some(hint) })
}

fn state(host: &Host, wish: &Wish) -> Finding {
    let shown = wish.state.display();
    let found = if wish.running.is_some() {
        Ok(format!("{shown} is used by the running daemon of {}", wish.node))
    } else {
        let there = if host.is_folder(&wish.state) { "can be used" } else { "does not exist yet" };
        StateDir::look(host, &wish.state).map(|()| format!("{shown} {there}"))
    };
    Finding::of("state directory", found)
}

// SPDX-License-Identifier: Apache-2.0
//! The programs an operator wants run when something happens to a group.

use super::alerts::Alert;
use super::error::ConfigError;
use super::table::Table;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const KEYS: &[&str] = &[
    "before-resync",
    "after-resync",
    "split-brain",
    "lost-peer",
    "fence",
    "freeze",
    "thaw",
    Alert::LagAbove.word(),
    Alert::QueueFullWithin.word(),
    Alert::ResyncNotConverging.word(),
    Alert::ProtectionLost.word(),
    "timeout",
];
/// Those that are about a peer.
const PEER_KEYS: &[&str] = &[
    "before-resync",
    "after-resync",
    "split-brain",
    "lost-peer",
    "fence",
    Alert::LagAbove.word(),
    Alert::QueueFullWithin.word(),
    Alert::ResyncNotConverging.word(),
];
/// A hook that names no time of its own is killed after this.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Programs by what they are run for, each with an absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HooksConfig {
    /// Asked on the source before an update begins; refuses it.
    pub before_resync: Option<PathBuf>,
    /// An update ended.
    pub after_resync: Option<PathBuf>,
    /// The two nodes hold writes that exclude each other.
    pub split_brain: Option<PathBuf>,
    /// The connection to the peer was lost.
    pub lost_peer: Option<PathBuf>,
    /// Fences the other node for `helio promote --fence`.
    pub fence: Option<PathBuf>,
    /// Freezes the application before a snapshot. There is a `thaw`, too.
    pub freeze: Option<PathBuf>,
    /// Thaws it again. There is a `freeze`, too.
    pub thaw: Option<PathBuf>,
    /// An alert began, or ended.
    pub alerts: BTreeMap<Alert, PathBuf>,
    /// How long each may run.
    pub timeout: Duration,
}

impl Default for HooksConfig {
    fn default() -> Self {
        Self {
            before_resync: None,
            after_resync: None,
            split_brain: None,
            lost_peer: None,
            fence: None,
            freeze: None,
            thaw: None,
            alerts: BTreeMap::new(),
            timeout: TIMEOUT,
        }
    }
}

/// `pairs`: the group has two nodes.
pub(super) fn hooks(group: &Table<'_>, pairs: bool) -> Result<HooksConfig, ConfigError> {
    let Some(table) = group.table("hooks", KEYS)? else { return Ok(HooksConfig::default()) };
    if !pairs {
        super::read::without_peer(&table, PEER_KEYS)?;
    }
    for (one, other) in [("freeze", "thaw"), ("thaw", "freeze")] {
        if let (Some(at), None) = (table.place(one), table.place(other)) {
            let message = format!("`{one}` is set without `{other}`");
            let hint = format!("set `{other}`, too; /bin/true does nothing");
            return Err(table.refuse(at, message, hint));
        }
    }
    let program = |key: &str| -> Result<Option<PathBuf>, ConfigError> {
        match table.text(key)? {
            Some(path) if !path.value.starts_with('/') => {
                let message = format!("`{key}` = \"{}\" is not an absolute path", path.value);
                Err(table.refuse(path.at, message, "start it with `/`"))
            }
            path => Ok(path.map(|path| PathBuf::from(path.value))),
        }
    };
    let mut alerts = BTreeMap::new();
    for alert in Alert::ALL {
        if let Some(path) = program(alert.word())? {
            alerts.insert(alert, path);
        }
    }
    Ok(HooksConfig {
        before_resync: program("before-resync")?,
        after_resync: program("after-resync")?,
        split_brain: program("split-brain")?,
        lost_peer: program("lost-peer")?,
        fence: program("fence")?,
        freeze: program("freeze")?,
        thaw: program("thaw")?,
        alerts,
        timeout: table.span("timeout")?.map_or(TIMEOUT, |span| span.value),
    })
}

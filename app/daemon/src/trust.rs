// SPDX-License-Identifier: Apache-2.0
//! From the keys in the configuration, and the one in the state directory, to whom this node talks.

use crate::config::{Config, GroupView, NodeConfig, NodeView};
use crate::shard::Guard;
use helio_driver::Host;
use helio_tls::{FileError, NodeKey, PeerTls, PublicKey};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file of a node's key in its state directory.
pub const KEY_FILE: &str = "node.key";

/// This node's own key, where the configuration says that it has one.
///
/// # Errors
/// The file is missing, others may read it, or it holds a key the configuration does not name.
pub(crate) fn own_key(
    host: &Host,
    view: &NodeView<'_>,
    state: &Path,
) -> Result<Option<PeerTls>, FileError> {
    if view.node.keys.is_empty() {
        return Ok(None);
    }
    let path = state.join(KEY_FILE);
    if !host.exists(&path) {
        return Err(FileError {
            why: "the node's private key is missing".into(),
            hint: format!(
                "copy the key that `helio init` made for this node to {}, or make a new one with `helio key new \
                 --state {}` and write its public key into the configuration",
                path.display(),
                state.display()
            ),
            path,
        });
    }
    let key = NodeKey::load(host, &path)?;
    let public = key.public();
    if !view.node.keys.contains(&public) {
        let mut peers = view.groups.iter().filter_map(|group| group.peer);
        let other = peers.find(|peer| peer.node.keys.contains(&public));
        return Err(not_own(path, &public, other.map(|peer| peer.name)));
    }
    Ok(Some(PeerTls::new(key)))
}

/// The key file holds another key than the configuration names: that of the peer, if the two were swapped.
fn not_own(path: PathBuf, public: &PublicKey, peer: Option<&str>) -> FileError {
    let other = "but the configuration has another key for this node";
    let Some(peer) = peer else {
        let why = format!("contains the key {public}, {other}");
        let hint = "set this key in the configuration file on every node, or restore the key file that matches the configuration".into();
        return FileError { path, why, hint };
    };
    let hint = format!(
        "copy the {KEY_FILE} of this node here, and that of {peer} to {peer}; or, if the files are right, exchange `key` of the \
         two nodes in the configuration. `helio key show` prints the key of a node"
    );
    let why = format!("contains the key of {peer} ({public}), {other}");
    FileError { path, why, hint }
}

/// What every group of this node asks of its peer's connection.
pub(crate) fn guards(view: &NodeView<'_>, own: Option<&PeerTls>) -> Vec<(String, Guard)> {
    let guard = |keys: &[PublicKey]| match own {
        Some(own) => Guard::Keyed { own: own.clone(), peer: keys.to_vec() },
        None => Guard::Open,
    };
    let keys = |group: &GroupView<'_>| guard(group.peer.map_or(&[], |peer| &peer.node.keys));
    view.groups.iter().map(|group| (group.name.to_owned(), keys(group))).collect()
}

/// Who is trusted at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Trusted {
    /// Every node, with its keys and operators of now.
    pub(crate) nodes: BTreeMap<String, NodeConfig>,
    /// The key this node shows.
    pub(crate) own: Option<PeerTls>,
    /// Those who may command this node from elsewhere.
    pub(crate) operators: Vec<PublicKey>,
}

impl Trusted {
    /// As a configuration says.
    pub(crate) fn of(config: &Config, node: &str, own: Option<PeerTls>) -> Self {
        let operators = config.nodes.get(node).map(|node| node.operators.clone());
        Self { nodes: config.nodes.clone(), own, operators: operators.unwrap_or_default() }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! From the keys in the configuration, and the one in the state directory, to whom this node talks.

use crate::config::NodeView;
use crate::shard::Guard;
use anyhow::{Result, bail};
use helio_tls::{NodeKey, PeerTls};
use std::path::Path;

/// The file of a node's key in its state directory.
pub const KEY_FILE: &str = "node.key";

/// This node's own key, where the configuration says that it has one.
///
/// # Errors
/// The file is missing, others may read it, or it holds a key the configuration does not name.
pub(crate) fn own_key(view: &NodeView<'_>, state: &Path) -> Result<Option<PeerTls>> {
    if view.node.keys.is_empty() {
        return Ok(None);
    }
    let path = state.join(KEY_FILE);
    let key = NodeKey::load(&path)?;
    let public = key.public();
    if !view.node.keys.contains(&public) {
        bail!(
            "{} holds the key {public}, which is not this node's in the configuration\n  remedy: name it there, on every \
             node, or put back the key that is named",
            path.display()
        );
    }
    Ok(Some(PeerTls::new(key)))
}

/// What every group of this node asks of its peer's connection.
pub(crate) fn guards(view: &NodeView<'_>, own: Option<&PeerTls>) -> Vec<(String, Guard)> {
    let guard = |keys: &[helio_tls::PublicKey]| match own {
        Some(own) => Guard::Keyed { own: own.clone(), peer: keys.to_vec() },
        None => Guard::Open,
    };
    view.groups.iter().map(|group| (group.name.to_owned(), guard(&group.peer.keys))).collect()
}

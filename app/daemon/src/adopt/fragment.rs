// SPDX-License-Identifier: Apache-2.0
//! What the configuration needs for what is adopted.

use super::{Looked, Store, Wish};
use crate::durable;
use anyhow::{Context, Result};
use helio_driver::Host;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

pub(super) fn of(wish: &Wish, peer: &str, found: &BTreeMap<String, (&Store, Looked)>) -> String {
    let quoted = |path: &Path| toml::Value::from(path.display().to_string()).to_string();
    let mut text =
        format!("[group.{}]\nnodes = [\"{}\", \"{peer}\"]\n", key(&wish.group), wish.node);
    for (volume, (store, looked)) in found {
        let (group, volume) = (key(&wish.group), key(volume));
        let (here, there) = (quoted(&store.path), quoted(&store.peer_path));
        let _infallible =
            write!(text, "\n[group.{group}.volume.{volume}]\nsize = \"{}B\"\n", looked.size.0);
        if looked.sparse {
            text += "sparse = true\n";
        }
        let _infallible = write!(
            text,
            "members.{} = [{here}]\nmembers.{} = [{there}]\n",
            key(&wish.node),
            key(peer)
        );
    }
    text
}

/// A name as a key; one with a dot in it would be two.
fn key(name: &str) -> String {
    let bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if bare { name.to_owned() } else { toml::Value::from(name).to_string() }
}

pub(super) fn behind(text: &str, fragment: &str) -> String {
    let gap = if text.is_empty() || text.ends_with("\n\n") {
        ""
    } else if text.ends_with('\n') {
        "\n"
    } else {
        "\n\n"
    };
    format!("{text}{gap}{fragment}")
}

/// Puts the text in the file's place, whole or not at all. A link stays one.
pub(super) fn write(host: &Host, file: &Path, text: &str) -> Result<()> {
    let file = host.real_path(file)?;
    let mode = host.facts(&file, true)?.mode;
    durable::replace_with(host, &file, text.as_bytes(), mode)
        .with_context(|| format!("{} cannot be replaced", file.display()))
}

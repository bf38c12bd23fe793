// SPDX-License-Identifier: Apache-2.0
//! What must not be said twice, and who must have a member.

use super::NodeConfig;
use super::error::{ConfigError, Source};
use super::read::{ReadMember, ReadNode};
use super::sets;
use super::table::{Item, Table};
use helio_format::members::MEMBERS_MAX;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Keys of a member that is a table.
const MEMBER_KEYS: &[&str] = &["path", "read-cost", "own-disk"];

/// The nodes by name, no two at one address.
pub(super) fn unique_addresses(
    found: &[ReadNode<'_>],
) -> Result<BTreeMap<String, NodeConfig>, ConfigError> {
    let mut by_place: Vec<&ReadNode<'_>> = found.iter().collect();
    // The later of two in the file is the one to point at.
    by_place.sort_by_key(|read| read.address_at);
    for (index, later) in by_place.iter().enumerate() {
        let same = |earlier: &&&ReadNode<'_>| earlier.node.address == later.node.address;
        if let Some(earlier) = by_place[..index].iter().find(same) {
            let message =
                format!("address {} is already used by node {}", later.node.address, earlier.name);
            return Err(later.table.refuse(
                later.address_at,
                message,
                "give each node an address of its own",
            ));
        }
    }
    Ok(found.iter().map(|read| (read.name.to_owned(), read.node.clone())).collect())
}

/// The members of a volume on each node of its group.
pub(super) fn members(table: &Table<'_>, nodes: &[String]) -> Result<Vec<ReadMember>, ConfigError> {
    let Some((stores, names)) = table.open_names("members")? else {
        return Err(table.lacks("members", &missing_member(&nodes[0])));
    };
    if let Some(stray) = names.iter().find(|name| !nodes.iter().any(|node| node == name.value)) {
        let message =
            format!("has a member on `{}`, which is not a node of the group", stray.value);
        let hint = match nodes {
            [only] => format!("the group's only node is {only}"),
            _ => format!("the group's nodes are {}", nodes.join(" and ")),
        };
        return Err(table.refuse(stray.at, message, hint));
    }
    let mut found = Vec::new();
    for node in nodes {
        let Some(list) = stores.items(node, MEMBER_KEYS)? else {
            let message = format!("has no member on node {node}");
            return Err(table.refuse(table.at, message, missing_member(node)));
        };
        let (message, hint) = match list.value.len() {
            0 => (format!("has no member on node {node}"), missing_member(node)),
            1..=MEMBERS_MAX => (String::new(), String::new()),
            many => (
                format!("has {many} members on node {node}"),
                format!("name at most {MEMBERS_MAX} members"),
            ),
        };
        if !message.is_empty() {
            return Err(table.refuse(list.at, message, hint));
        }
        for store in &list.value {
            let (text, read_cost, own_disk) = match &store.value {
                Item::Text(path) => (*path, None, false),
                Item::Table(member) => {
                    let Some(path) = member.text("path")? else {
                        return Err(member.lacks("path", "add path = \"/PATH\""));
                    };
                    let own_disk = member.flag("own-disk")?.unwrap_or(false);
                    (path.value, sets::read_cost(member)?, own_disk)
                }
            };
            let path = PathBuf::from(text);
            if !path.is_absolute() {
                let message = format!("member `{text}` is not an absolute path");
                return Err(table.refuse(store.at, message, "start it with `/`"));
            }
            let (node, volume) = (node.clone(), table.what.clone());
            found.push(ReadMember { node, path, at: store.at, volume, read_cost, own_disk });
        }
    }
    Ok(found)
}

fn missing_member(node: &str) -> String {
    format!("add members.{node} = [\"/PATH\"]")
}

/// No store of a node belongs to two volumes. Other names of the same store (links) show when it is opened.
pub(super) fn unshared(source: &Source<'_>, members: &[ReadMember]) -> Result<(), ConfigError> {
    let mut by_place: Vec<&ReadMember> = members.iter().collect();
    by_place.sort_by_key(|member| member.at);
    let mut owners: BTreeMap<(&str, &Path), &ReadMember> = BTreeMap::new();
    for later in by_place {
        if let Some(earlier) = owners.insert((&later.node, &later.path), later) {
            let message = format!(
                "{}: member {} on node {} already belongs to {}",
                later.volume,
                later.path.display(),
                later.node,
                earlier.volume
            );
            let hint = if later.volume == earlier.volume {
                "name each file or device once"
            } else {
                "give each volume its own file or device"
            };
            return Err(source.refuse(later.at, message, hint));
        }
    }
    Ok(())
}

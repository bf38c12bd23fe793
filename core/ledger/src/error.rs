// SPDX-License-Identifier: Apache-2.0
//! Why a metadata file is not served from.

use alloc::format;
use alloc::string::String;
use core::fmt;
use helio_format::directory::MapOwner;
use helio_format::page::{Kind, PageError};

/// Which page of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageName {
    /// What it holds.
    pub kind: Kind,
    /// Which of its kind, or of its map.
    pub index: u32,
    /// Whose map it is part of.
    pub owner: Option<MapOwner>,
}

impl fmt::Display for PageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Superblock => f.write_str("the superblock"),
            Kind::Members => f.write_str("the member states"),
            Kind::Files => f.write_str("the file record"),
            kind => match self.owner {
                None | Some(MapOwner::Engine | MapOwner::Peer(0)) => {
                    write!(f, "{kind} {}", self.index)
                }
                Some(owner) => write!(f, "{kind} {} of {owner}", self.index),
            },
        }
    }
}

/// What is wrong with a file as a whole. Nothing is guessed: the group is not served from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerError {
    /// The file ends before its last page.
    Truncated {
        /// Its length in bytes.
        found: u64,
        /// The length it must have.
        needed: u64,
    },
    /// A page of another format.
    Version {
        /// Which page.
        page: PageName,
        /// Which format.
        found: u16,
    },
    /// A page of another group or node.
    Owner {
        /// Which page.
        page: PageName,
        /// Group and node, where the page says so.
        found: Option<(String, String)>,
    },
    /// Neither copy of a page can be used.
    Unreadable {
        /// Which page.
        page: PageName,
        /// What copy A and copy B show.
        copies: [PageError; 2],
    },
    /// The directory names maps that cannot be beside each other, or not in this group.
    Directory,
    /// Both copies of a page are whole, of the same sequence, and not the same.
    Contradiction {
        /// Which page.
        page: PageName,
    },
}

impl LedgerError {
    /// What an operator can do.
    #[must_use]
    pub fn hint(&self, (group, node): (&str, &str)) -> String {
        match self {
            Self::Version { found, .. } if *found > helio_format::page::VERSION => {
                String::from("run the build that wrote it, or a later one")
            }
            Self::Version { .. } => format!(
                "start the build that wrote it on both nodes, wait until {group} is in sync, and stop both daemons. Then, \
                 with this build: move the file away and `helio metadata create {group} --node {node}`, likewise on the \
                 peer, and promote the node that was primary"
            ),
            Self::Owner { found: Some(found), .. } => {
                let renamed = renamed((&found.0, &found.1), (group, node));
                format!("{renamed}. If not: give this daemon the --state it was made with")
            }
            Self::Owner { .. } => String::from("give this daemon the --state it was made with"),
            Self::Truncated { .. }
            | Self::Directory
            | Self::Unreadable { .. }
            | Self::Contradiction { .. } => {
                format!(
                    "`helio metadata check {group}` lists the damaged pages. If the peer has the data, discard this node's \
                 copy: `helio metadata create {group} --node {node}`; everything is then compared, and copied if it \
                 differs. If only this node has the data, save its member files first. Do not restore the file from a \
                 backup: it is older than the copy"
                )
            }
        }
    }
}

/// What to do if the configuration gives a group or a node another name than the metadata has. For hints.
#[must_use]
pub fn renamed(found: (&str, &str), (group, node): (&str, &str)) -> String {
    let of_group = format!("`helio rename group {} {group} --node {node}`", found.0);
    let of_node = format!("`helio rename node {} {node}`", found.1);
    match (found.0 == group, found.1 == node) {
        (false, true) => format!("if group {} was renamed to {group}: {of_group}", found.0),
        (true, _) => format!("if node {} was renamed to {node}: {of_node}", found.1),
        (false, false) => format!(
            "if group {} was renamed to {group}, and node {} to {node}: {of_group}, then {of_node}",
            found.0, found.1
        ),
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { found, needed } => {
                write!(f, "the metadata is cut off: {found} B of {needed} B")
            }
            Self::Directory => f.write_str("the entries of the directory contradict each other"),
            Self::Version { page, found } => {
                write!(f, "{page} is {}", PageError::Version { found: *found })
            }
            Self::Owner { page, found: Some((group, node)) } => {
                write!(f, "{page} belongs to group {group} on node {node}")
            }
            Self::Owner { page, found: None } => {
                write!(f, "{page} belongs to another group or node")
            }
            Self::Unreadable { page, copies: [a, b] } => {
                write!(f, "neither copy of {page} can be used: copy A {a}; copy B {b}")
            }
            Self::Contradiction { page } => {
                write!(f, "the two copies of {page} are of one sequence and differ")
            }
        }
    }
}

impl core::error::Error for LedgerError {}

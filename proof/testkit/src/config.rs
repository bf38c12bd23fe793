// SPDX-License-Identifier: Apache-2.0
//! The text of a configuration file, from the few things a test says about it.

use helio_units::{Bytes, Mode};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A configuration of one group. Nothing is checked: some tests want it wrong.
#[derive(Clone, Debug)]
pub struct Config {
    group: String,
    nodes: Vec<Node>,
    only: Option<String>,
    mode: Mode,
    group_lines: Vec<String>,
    volumes: Vec<Volume>,
}

#[derive(Clone, Debug)]
struct Node {
    name: String,
    address: SocketAddr,
    listen: Option<SocketAddr>,
    lines: Vec<String>,
}

#[derive(Clone, Debug)]
struct Volume {
    name: String,
    size: Bytes,
    /// Node and file.
    members: Vec<(String, PathBuf)>,
    lines: Vec<String>,
}

impl Config {
    /// A group without nodes and volumes, in mode async.
    #[must_use]
    pub fn new(group: &str) -> Self {
        Self {
            group: group.to_owned(),
            nodes: Vec::new(),
            only: None,
            mode: Mode::Async,
            group_lines: Vec::new(),
            volumes: Vec::new(),
        }
    }

    /// A node, where others reach it, and where it listens if that is elsewhere.
    #[must_use]
    pub fn node(mut self, name: &str, address: SocketAddr, listen: Option<SocketAddr>) -> Self {
        self.nodes.push(Node { name: name.to_owned(), address, listen, lines: Vec::new() });
        self
    }

    /// Any line of the table of the node named last, as it stands: `control = "127.0.0.1:7131"`.
    #[must_use]
    pub fn node_line(mut self, line: &str) -> Self {
        if let Some(node) = self.nodes.last_mut() {
            node.lines.push(line.to_owned());
        }
        self
    }

    /// The group has only this one of the nodes, and so no mode.
    #[must_use]
    pub fn only(mut self, node: &str) -> Self {
        self.only = Some(node.to_owned());
        self
    }

    /// The mode asked for.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Any line of the group's own table, as it stands: `queue = { memory = "4MiB" }`.
    #[must_use]
    pub fn group_line(mut self, line: &str) -> Self {
        self.group_lines.push(line.to_owned());
        self
    }

    /// A volume, with the members of each node.
    #[must_use]
    pub fn volume(mut self, name: &str, size: Bytes, members: &[(&str, &Path)]) -> Self {
        let members = members.iter().map(|(node, file)| ((*node).to_owned(), file.to_path_buf()));
        let (name, members) = (name.to_owned(), members.collect());
        self.volumes.push(Volume { name, size, members, lines: Vec::new() });
        self
    }

    /// Any line of the table of the volume named last, as it stands: `sparse = true`.
    #[must_use]
    pub fn volume_line(mut self, line: &str) -> Self {
        if let Some(volume) = self.volumes.last_mut() {
            volume.lines.push(line.to_owned());
        }
        self
    }

    /// The file's text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let group = &self.group;
        for Node { name, address, listen, lines } in &self.nodes {
            writeln!(text, "[node.{name}]\naddress = \"{address}\"")?;
            if let Some(listen) = listen {
                writeln!(text, "listen = \"{listen}\"")?;
            }
            for line in lines {
                writeln!(text, "{line}")?;
            }
            writeln!(text)?;
        }
        match &self.only {
            Some(only) => writeln!(text, "[group.{group}]\nnodes = [{only:?}]")?,
            None => {
                let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
                writeln!(text, "[group.{group}]\nnodes = {names:?}\nmode = \"{}\"", self.mode)?;
            }
        }
        for line in &self.group_lines {
            writeln!(text, "{line}")?;
        }
        for Volume { name, size, members, lines } in &self.volumes {
            writeln!(text, "\n[group.{group}.volume.{name}]\nsize = \"{}\"", exact(*size))?;
            for line in lines {
                writeln!(text, "{line}")?;
            }
            let mut by_node: Vec<(&str, Vec<&Path>)> = Vec::new();
            for (node, file) in members {
                match by_node.iter_mut().find(|(known, _)| known == node) {
                    Some((_, files)) => files.push(file),
                    None => by_node.push((node, vec![file])),
                }
            }
            for (node, files) in by_node {
                writeln!(text, "members.{node} = {files:?}")?;
            }
        }
        Ok(())
    }
}

/// A size in a unit that loses nothing.
fn exact(size: Bytes) -> String {
    match size.0 {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{}KiB", bytes >> 10),
        bytes => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_the_shape_of_the_file() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let config = Config::new("db")
            .node("lyon", at(7121), None)
            .node("paris", at(7122), Some(at(7123)))
            .node_line("clients = 7")
            .mode(Mode::NearSync)
            .group_line("queue = { memory = \"4MiB\" }")
            .volume(
                "data",
                Bytes(1537),
                &[
                    ("lyon", Path::new("/tmp/l")),
                    ("paris", Path::new("/tmp/p")),
                    ("lyon", Path::new("/tmp/m")),
                ],
            )
            .volume_line("sparse = true");
        let expected = r#"[node.lyon]
address = "127.0.0.1:7121"

[node.paris]
address = "127.0.0.1:7122"
listen = "127.0.0.1:7123"
clients = 7

[group.db]
nodes = ["lyon", "paris"]
mode = "nearsync"
queue = { memory = "4MiB" }

[group.db.volume.data]
size = "1537B"
sparse = true
members.lyon = ["/tmp/l", "/tmp/m"]
members.paris = ["/tmp/p"]
"#;
        assert_eq!(config.text(), expected);
    }
}

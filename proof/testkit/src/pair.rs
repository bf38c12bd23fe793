// SPDX-License-Identifier: Apache-2.0
//! Two daemons and their volumes: the stage of most end-to-end tests.

use crate::{Config, Daemon, Group, TempDir, Told, free_port, helio_binary, run};
use helio_units::{Bytes, Mode};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The two nodes. The first in this order dials the second.
const NODES: [&str; 2] = ["lyon", "paris"];

/// What a pair will be.
#[derive(Debug)]
pub struct Plan {
    group: String,
    only: Option<String>,
    mode: Mode,
    group_lines: Vec<String>,
    volumes: Vec<(String, Bytes)>,
    volume_lines: Vec<String>,
    /// Node, volume and file, for members that the test made.
    members: Vec<(String, String, PathBuf)>,
    /// The same of members beside the first one.
    mirrors: Vec<(String, String, PathBuf)>,
    listen: [SocketAddr; 2],
    relay: Option<SocketAddr>,
    keys: bool,
    node_lines: Vec<(String, String)>,
}

impl Plan {
    /// Nodes `lyon` and `paris` on loopback with one group, in mode async, as yet without a volume.
    #[must_use]
    pub fn new(group: &str) -> Self {
        Self {
            group: group.to_owned(),
            only: None,
            mode: Mode::Async,
            group_lines: Vec::new(),
            volumes: Vec::new(),
            volume_lines: Vec::new(),
            members: Vec::new(),
            mirrors: Vec::new(),
            listen: [free_port(), free_port()],
            relay: None,
            keys: false,
            node_lines: Vec::new(),
        }
    }

    /// The group has only this node. The other one is declared, and has no member.
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

    /// A volume with a member file of that size on each node.
    #[must_use]
    pub fn volume(mut self, name: &str, size: Bytes) -> Self {
        self.volumes.push((name.to_owned(), size));
        self
    }

    /// Any line of every volume's table, as it stands: `sparse = true`.
    #[must_use]
    pub fn volume_line(mut self, line: &str) -> Self {
        self.volume_lines.push(line.to_owned());
        self
    }

    /// Puts a volume's member on a node on a file that exists, in place of one of its own.
    #[must_use]
    pub fn member(mut self, node: &str, volume: &str, file: &Path) -> Self {
        self.members.push((node.to_owned(), volume.to_owned(), file.to_owned()));
        self
    }

    /// Gives a volume another member on a node, on a file that exists.
    #[must_use]
    pub fn mirror(mut self, node: &str, volume: &str, file: &Path) -> Self {
        self.mirrors.push((node.to_owned(), volume.to_owned(), file.to_owned()));
        self
    }

    /// Where the pair's one connection ends: the address a relay forwards to.
    #[must_use]
    pub fn dialled(&self) -> SocketAddr {
        self.listen[1]
    }

    /// Lets the connection pass through a relay that listens there and forwards to `dialled`.
    #[must_use]
    pub fn relay(mut self, address: SocketAddr) -> Self {
        self.relay = Some(address);
        self
    }

    /// Gives each node a key, made by `helio key new` in its state directory and named in the configuration.
    #[must_use]
    pub fn keys(mut self) -> Self {
        self.keys = true;
        self
    }

    /// Any line of a node's own table, as it stands: `control = "127.0.0.1:7131"`.
    #[must_use]
    pub fn node_line(mut self, node: &str, line: &str) -> Self {
        self.node_lines.push((node.to_owned(), line.to_owned()));
        self
    }

    /// Writes the configuration and makes the member files; starts nothing.
    ///
    /// # Panics
    /// Where the disk refuses.
    #[must_use]
    pub fn prepare(self) -> Pair {
        let scratch = TempDir::new();
        let mut config = Config::new(&self.group).mode(self.mode);
        let in_group = |node: &str| self.only.as_ref().is_none_or(|only| only == node);
        if let Some(only) = &self.only {
            config = config.only(only);
        }
        for (node, listen) in NODES.into_iter().zip(self.listen) {
            config = match self.relay.filter(|_| node == NODES[1]) {
                Some(relay) => config.node(node, relay, Some(listen)),
                None => config.node(node, listen, None),
            };
            if self.keys {
                let state = scratch.join(node);
                let line = crate::helio(&["key", "new", "--state", &state.to_string_lossy()]);
                config = config.node_line(line.expect_success().trim_end());
            }
            for (_, line) in self.node_lines.iter().filter(|(name, _)| name == node) {
                config = config.node_line(line);
            }
        }
        for line in &self.group_lines {
            config = config.group_line(line);
        }
        for (name, size) in &self.volumes {
            let nodes = NODES.into_iter().filter(|node| in_group(node));
            let files = nodes.map(|node| match find(&self.members, node, name) {
                Some(made) => (node, made.to_owned()),
                None => (node, scratch.file(&format!("{node}-{name}.img"), *size)),
            });
            let files: Vec<(&str, PathBuf)> = files.collect();
            let mirrors = self.mirrors.iter().filter(|(_, volume, _)| volume == name);
            let mirrors = mirrors.map(|(node, _, file)| (node.as_str(), file.as_path()));
            let members = files.iter().map(|(node, file)| (*node, file.as_path()));
            let members: Vec<(&str, &Path)> = members.chain(mirrors).collect();
            config = config.volume(name, *size, &members);
            for line in &self.volume_lines {
                config = config.volume_line(line);
            }
        }
        let config = scratch.write("heliograph.toml", &config.text());
        let (daemons, members) = ([None, None], self.members);
        Pair { daemons, group: self.group, config, members, scratch }
    }

    /// Prepares the pair and starts the daemon of each node of the group; returns when they answer.
    ///
    /// # Panics
    /// Where one does not.
    #[must_use]
    #[track_caller]
    pub fn start(self) -> Pair {
        let only = self.only.clone();
        let mut pair = self.prepare();
        for node in NODES.into_iter().filter(|node| only.as_ref().is_none_or(|only| only == node)) {
            pair.start(node);
        }
        pair
    }
}

/// Two nodes, each with its daemon while that runs, their one configuration, and their files.
#[derive(Debug)]
pub struct Pair {
    // Dropped in this order: a daemon's log, in the scratch folder, is printed as the daemon goes.
    daemons: [Option<Daemon>; 2],
    group: String,
    config: PathBuf,
    members: Vec<(String, String, PathBuf)>,
    scratch: TempDir,
}

impl Pair {
    /// Starts a node's daemon, anew if it ran before, and waits until it answers.
    ///
    /// # Panics
    /// Where it does not.
    #[track_caller]
    pub fn start(&mut self, node: &str) {
        self.start_program(&crate::helio_binary(), node);
    }

    /// The same, with another program than the one under test.
    ///
    /// # Panics
    /// Where it does not.
    #[track_caller]
    pub fn start_program(&mut self, program: &Path, node: &str) {
        // The one before must be gone first: it holds the port and the members.
        self.daemons[place(node)] = None;
        let daemon = Daemon::start_program(program, node, &self.config, &self.state(node));
        self.daemons[place(node)].insert(daemon).wait_ready();
    }

    /// A node's daemon.
    ///
    /// # Panics
    /// Where it was never started.
    #[track_caller]
    pub fn daemon(&mut self, node: &str) -> &mut Daemon {
        match &mut self.daemons[place(node)] {
            Some(daemon) => daemon,
            None => panic!("the daemon of {node} was not started"),
        }
    }

    /// Runs a verb of `helio` on a node: `helio("paris", &["pause", "db"])`. The daemon may be down.
    ///
    /// # Panics
    /// Where `helio` cannot be run, or takes too long.
    #[track_caller]
    pub fn helio(&self, node: &str, arguments: &[&str]) -> Told {
        let mut command = Command::new(helio_binary());
        run(command.args(arguments).env("HELIO_STATE_DIR", self.state(node)))
    }

    /// Runs `helio check` for a node.
    ///
    /// # Panics
    /// As for any verb.
    #[track_caller]
    pub fn check(&self, node: &str) -> Told {
        self.helio(
            node,
            &["check", "--node", node, "--config", &self.config().display().to_string()],
        )
    }

    /// Starts a verb of `helio` on a node, and does not wait for its end. Its output is discarded.
    ///
    /// # Panics
    /// Where `helio` cannot be started.
    #[track_caller]
    #[must_use]
    pub fn helio_begun(&self, node: &str, arguments: &[&str]) -> Group {
        let mut command = Command::new(helio_binary());
        command.args(arguments).env("HELIO_STATE_DIR", self.state(node));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match Group::spawn(&mut command) {
            Ok(group) => group,
            Err(why) => panic!("cannot start helio: {why}"),
        }
    }

    /// What a node's `helio status --json` says.
    ///
    /// # Panics
    /// Where it shows nothing, or no JSON.
    #[track_caller]
    pub fn status(&self, node: &str) -> serde_json::Value {
        let told = self.helio(node, &["status", "--json"]);
        assert!(told.shows_status(), "it should show its status: {told}");
        serde_json::from_str(&told.stdout)
            .unwrap_or_else(|why| panic!("this is not JSON ({why}): {told}"))
    }

    /// The group's name.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The configuration file, which both read.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// The folder of everything, for more files of the test's own.
    #[must_use]
    pub fn scratch(&self) -> &TempDir {
        &self.scratch
    }

    /// A node's state folder.
    #[must_use]
    pub fn state(&self, node: &str) -> PathBuf {
        self.scratch.join(NODES[place(node)])
    }

    /// The file under a volume on a node.
    #[must_use]
    pub fn member(&self, node: &str, volume: &str) -> PathBuf {
        let own = || self.scratch.join(&format!("{}-{volume}.img", NODES[place(node)]));
        find(&self.members, node, volume).map_or_else(own, Path::to_owned)
    }

    /// The NBD address of a volume on a node, as libnbd, fio and QEMU read it.
    #[must_use]
    pub fn export(&self, node: &str, volume: &str) -> String {
        let socket = self.state(node).join("nbd.sock");
        format!("nbd+unix:///{}/{volume}?socket={}", self.group, socket.display())
    }
}

/// The member that a test made.
fn find<'a>(
    members: &'a [(String, String, PathBuf)],
    node: &str,
    volume: &str,
) -> Option<&'a Path> {
    let found = members.iter().find(|(n, v, _)| n == node && v == volume);
    found.map(|(_, _, file)| file.as_path())
}

/// A node's place in the pair.
#[track_caller]
fn place(node: &str) -> usize {
    match NODES.iter().position(|name| *name == node) {
        Some(place) => place,
        None => panic!("there is no node `{node}`, only {NODES:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_prepared_with_its_files() {
        let pair = Plan::new("db").volume("data", Bytes::mib(1)).prepare();
        let text = std::fs::read_to_string(pair.config()).expect("it was written");
        for node in NODES {
            let member = pair.member(node, "data");
            assert_eq!(std::fs::metadata(&member).expect("it was made").len(), 1 << 20);
            assert!(text.contains(&format!("members.{node} = [\"{}\"]", member.display())));
        }
        assert!(pair.export("paris", "data").starts_with("nbd+unix:///db/data?socket="));
    }

    #[test]
    fn a_relay_stands_before_the_node_that_is_dialled() {
        let plan = Plan::new("db").volume("data", Bytes::mib(1));
        let (relay, dialled) = (free_port(), plan.dialled());
        let pair = plan.relay(relay).prepare();
        let text = std::fs::read_to_string(pair.config()).expect("it was written");
        assert!(
            text.contains(&format!("[node.paris]\naddress = \"{relay}\"\nlisten = \"{dialled}\""))
        );
    }

    #[test]
    #[should_panic(expected = "no node `berlin`")]
    fn an_unknown_node_is_named() {
        let _ = Plan::new("db").prepare().member("berlin", "data");
    }
}

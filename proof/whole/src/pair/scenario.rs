// SPDX-License-Identifier: Apache-2.0
//! What one seed is about: two nodes, their groups and volumes, and the configuration file that says so.

use helio_format::message::VOLUMES_MAX;
use helio_netmodel::Dice;
use helio_replay::Script;
use helio_tls::PublicKey;
use helio_units::{Bytes, Mode};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::LazyLock;

/// The names of the nodes. The first one connects to the second one.
pub(crate) const NODES: [&str; 2] = ["lyon", "paris"];

/// Without keys, nodes have loopback addresses; each machine of a world has its own.
const LOOPBACK: [&str; 2] = ["127.0.0.1:7121", "127.0.0.2:7121"];
/// With keys, they may have any address.
const ADDRESSES: [&str; 2] = ["192.0.2.1:7121", "192.0.2.2:7121"];

/// Room on the file system of a machine, in bytes.
const DISK: u64 = 64 << 20;
/// How many times as much room as its volumes a script has: for several members, what is preserved of them, and metadata.
const ROOM: u64 = 8;

/// Names of the volumes of a script.
static NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..VOLUMES_MAX).map(|volume| format!("v{volume}")).collect());

/// A volume.
#[derive(Clone, Debug)]
pub(crate) struct VolumeShape {
    pub(crate) name: &'static str,
    pub(crate) size: Bytes,
    /// How many members it has on each node.
    pub(crate) members: [usize; 2],
    /// How many of them the configuration file has.
    listed: [usize; 2],
    buffered: bool,
    sparse: bool,
    blank: bool,
}

/// A group.
#[derive(Clone, Debug)]
pub(crate) struct GroupShape {
    pub(crate) name: &'static str,
    /// Its node, if it has only one.
    pub(crate) alone: Option<usize>,
    /// The configuration file has it.
    pub(crate) listed: bool,
    pub(crate) mode: Mode,
    pub(crate) volumes: Vec<VolumeShape>,
    /// Seconds without a message after which the peer counts as lost, and seconds of a member's.
    timeouts: [u64; 2],
    hold: bool,
    pub(crate) autosync: bool,
    safe_copy: bool,
    /// It has automatic snapshots.
    retains: bool,
    granularity: u64,
    /// The queue's memory, and its policies.
    queue: (Option<Bytes>, [&'static str; 2]),
    /// The second metadata file is the node's; these are of the group.
    serves_from_peer: bool,
}

/// A seed's nodes and groups.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) groups: Vec<GroupShape>,
    second_metadata: bool,
    pub(crate) clients: u64,
    /// Room on the file system of each machine, in bytes.
    pub(crate) room: u64,
    /// Members that are to be overwritten hold something before.
    has_junk: bool,
    /// The nodes have keys, and TLS between them.
    pub(crate) has_keys: bool,
}

impl VolumeShape {
    fn draw(name: &'static str, dice: &mut Dice) -> Self {
        let members =
            |dice: &mut Dice| if dice.chance(1, 4) { 2 + dice.below(2) as usize } else { 1 };
        let members = [members(dice), members(dice)];
        Self {
            name,
            size: Bytes::kib(64 * (1 + dice.below(12))),
            members,
            listed: members,
            buffered: dice.chance(1, 2),
            sparse: dice.chance(1, 2),
            blank: members != [1, 1] && dice.chance(1, 2),
        }
    }

    /// A small one with that many members on each node.
    fn plain(name: &'static str, members: [usize; 2]) -> Self {
        let (size, listed) = (Bytes::kib(64), members);
        Self { name, size, members, listed, buffered: false, sparse: true, blank: false }
    }

    /// Where its members lie on a node.
    pub(crate) fn paths(&self, group: &str, node: usize) -> Vec<PathBuf> {
        let path = |n: usize| PathBuf::from(format!("/disks/{n}/{group}-{}.img", self.name));
        (0..self.members[node]).map(path).collect()
    }
}

impl GroupShape {
    fn draw(name: &'static str, dice: &mut Dice) -> Self {
        const POLICIES: [&str; 3] = ["block", "log", "fail"];
        let several = 1 + usize::from(dice.chance(1, 3));
        let policy = |dice: &mut Dice| POLICIES[dice.below(3) as usize];
        let mode = [Mode::Sync, Mode::NearSync, Mode::Async][dice.below(3) as usize];
        Self {
            name,
            alone: None,
            listed: true,
            mode,
            volumes: ["data", "logs"][..several]
                .iter()
                .map(|name| VolumeShape::draw(name, dice))
                .collect(),
            timeouts: [1 + dice.below(6), 3 + dice.below(20)],
            hold: mode != Mode::Async && dice.chance(1, 5),
            autosync: dice.chance(3, 4),
            safe_copy: dice.chance(1, 2),
            retains: dice.chance(1, 4),
            granularity: 4 << (2 * dice.below(3)),
            queue: (
                dice.chance(1, 3).then(|| Bytes::kib(256 << dice.below(4))),
                [policy(dice), policy(dice)],
            ),
            serves_from_peer: dice.chance(3, 4),
        }
    }

    /// A group with the volumes `data` and `junk`, in sync mode if it has two nodes.
    fn plain(name: &'static str, alone: Option<usize>) -> Self {
        let members = [0, 1].map(|node| usize::from(alone.is_none_or(|only| only == node)));
        Self {
            name,
            alone,
            listed: true,
            mode: Mode::Sync,
            volumes: ["data", "junk"].map(|name| VolumeShape::plain(name, members)).to_vec(),
            timeouts: [2, 3],
            hold: false,
            autosync: true,
            safe_copy: false,
            retains: false,
            granularity: 4,
            queue: (None, ["log", "log"]),
            serves_from_peer: false,
        }
    }

    /// A group of one node. In half of the stories it comes later.
    fn draw_alone(name: &'static str, dice: &mut Dice) -> Self {
        let node = dice.below(2) as usize;
        let mut shape = Self::draw(name, dice);
        (shape.alone, shape.listed) = (Some(node), dice.chance(1, 2));
        for volume in &mut shape.volumes {
            volume.members[1 - node] = 0;
            volume.listed = volume.members;
            volume.blank &= volume.members[node] > 1;
        }
        shape
    }

    /// Changes one setting, and says which.
    fn change(&mut self, dice: &mut Dice) -> &'static str {
        let new = Self { alone: self.alone, listed: self.listed, ..Self::draw(self.name, dice) };
        let volume = dice.below(self.volumes.len() as u64) as usize;
        let volume = &mut self.volumes[volume];
        match dice.below(12) {
            0 => {
                (self.mode, self.hold) = (new.mode, new.hold);
                "mode"
            }
            1 => {
                self.timeouts[0] = new.timeouts[0];
                "peer-timeout"
            }
            2 => {
                self.timeouts[1] = new.timeouts[1];
                "member-timeout"
            }
            3 => {
                self.queue.0 = new.queue.0;
                "queue"
            }
            4 => {
                self.queue.1 = new.queue.1;
                "when-full"
            }
            5 => {
                self.autosync = new.autosync;
                "autosync"
            }
            6 => {
                self.safe_copy = new.safe_copy;
                "safe-copy"
            }
            7 => {
                self.serves_from_peer = new.serves_from_peer;
                "on-error"
            }
            8 => {
                volume.buffered = !volume.buffered;
                "io"
            }
            9 => {
                volume.sparse = !volume.sparse;
                "sparse"
            }
            10 => {
                self.retains = !self.retains;
                "retain"
            }
            _ => {
                let node = dice.below(2) as usize;
                let (has, most) = (volume.listed[node], volume.members[node]);
                volume.listed[node] = if has < most { has + 1 } else { most.min(1) };
                "members"
            }
        }
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let name = self.name;
        let retain = if self.retains { "retain = \"12 per minute, 1 daily\"\n" } else { "" };
        if let Some(node) = self.alone {
            writeln!(out, "[group.{name}]\nnodes = [\"{}\"]\n{retain}", NODES[node])?;
            writeln!(out, "member-timeout = \"{}s\"\nmember-return = \"5s\"", self.timeouts[1])?;
            writeln!(out, "granularity = \"{}KiB\"\nhot-extents = 64", self.granularity)?;
            return self.write_volumes(out);
        }
        writeln!(
            out,
            "[group.{name}]\nnodes = [\"{}\", \"{}\"]\n{retain}mode = \"{}\"",
            NODES[0], NODES[1], self.mode
        )?;
        let [peer, member] = self.timeouts;
        let flush = (2 * member).max(peer);
        writeln!(out, "peer-timeout = \"{peer}s\"\nflush-limit = \"{flush}s\"")?;
        writeln!(out, "member-timeout = \"{member}s\"\nmember-return = \"5s\"")?;
        writeln!(
            out,
            "autosync = {}\ngranularity = \"{}KiB\"\nhot-extents = 64",
            self.autosync, self.granularity
        )?;
        writeln!(out, "safe-copy = \"{}\"", if self.safe_copy { "on" } else { "off" })?;
        if self.hold {
            writeln!(out, "hold = \"{}s\"", 2 * peer)?;
        }
        let policy = if self.serves_from_peer { "serve-from-peer" } else { "pass" };
        writeln!(out, "on-error = \"{policy}\"")?;
        writeln!(out, "[group.{name}.queue]")?;
        if let Some(memory) = self.queue.0 {
            writeln!(out, "memory = \"{}KiB\"", memory.0 >> 10)?;
        }
        let [connected, disconnected] = self.queue.1;
        writeln!(
            out,
            "when-full = {{ connected = \"{connected}\", disconnected = \"{disconnected}\" }}"
        )?;
        self.write_volumes(out)
    }

    fn write_volumes(&self, out: &mut String) -> std::fmt::Result {
        let name = self.name;
        self.volumes.iter().try_for_each(|volume| {
            writeln!(
                out,
                "[group.{name}.volume.{}]\nsize = \"{}KiB\"",
                volume.name,
                volume.size.0 >> 10
            )?;
            let io = if volume.buffered { "buffered" } else { "direct" };
            writeln!(out, "io = \"{io}\"\nsparse = {}\nblank = {}", volume.sparse, volume.blank)?;
            NODES.iter().enumerate().try_for_each(|(node, node_name)| {
                let mut paths = volume.paths(name, node);
                paths.truncate(volume.listed[node]);
                if paths.is_empty() {
                    return Ok(());
                }
                let paths: Vec<String> = paths.iter().map(|path| format!("{path:?}")).collect();
                writeln!(out, "members.{node_name} = [{}]", paths.join(", "))
            })
        })
    }
}

impl Scenario {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let several = 1 + usize::from(dice.chance(1, 4));
        let mut groups: Vec<GroupShape> =
            ["db", "mail"][..several].iter().map(|name| GroupShape::draw(name, dice)).collect();
        groups.extend(dice.chance(1, 6).then(|| GroupShape::draw_alone("spool", dice)));
        Self {
            groups,
            second_metadata: dice.chance(1, 4),
            clients: if dice.chance(1, 4) { 2 + dice.below(3) } else { 5 + dice.below(64) },
            room: DISK,
            has_keys: dice.chance(1, 10),
            has_junk: dice.chance(1, 3),
        }
    }

    /// Keeps one group, and gives it the volumes of a script. Its other settings do not change.
    pub(crate) fn follow(&mut self, script: &Script, dice: &mut Dice) {
        let shape = |(name, size): (&'static String, &Bytes)| VolumeShape {
            size: *size,
            ..VolumeShape::draw(name, dice)
        };
        self.groups.truncate(1);
        self.groups[0].volumes = NAMES.iter().zip(script.volumes()).map(shape).collect();
        // One client of each volume, and some that come at the end.
        self.clients = self.clients.max(script.volumes().len() as u64 + 2);
        let bytes: u64 = script.volumes().iter().map(|size| size.0).sum();
        self.room = self.room.max(ROOM * bytes);
    }

    /// The same small groups each time: their names, and the node of those that have only one.
    pub(crate) fn plain(groups: &[(&'static str, Option<usize>)]) -> Self {
        Self {
            groups: groups.iter().map(|(name, alone)| GroupShape::plain(name, *alone)).collect(),
            second_metadata: false,
            clients: 16,
            room: DISK,
            has_junk: false,
            has_keys: false,
        }
    }

    /// Whether a member of a volume on a node holds something that the first copy overwrites. The first member of the node that is promoted first
    /// has the data of a volume.
    pub(crate) fn has_junk(
        &self,
        group: &GroupShape,
        volume: &VolumeShape,
        node: usize,
        member: usize,
    ) -> bool {
        let is_source = member == 0 && node == group.alone.unwrap_or(0);
        self.has_junk && !volume.blank && !is_source
    }

    /// Where the peer reaches each node.
    pub(crate) const fn addresses(&self) -> [&'static str; 2] {
        if self.has_keys { ADDRESSES } else { LOOPBACK }
    }

    /// The configuration file, the same on both nodes, with the public keys of each.
    pub(crate) fn file(&self, keys: &[Vec<PublicKey>]) -> String {
        let mut out = String::new();
        for (n, node) in NODES.iter().enumerate() {
            let address = self.addresses()[n];
            // The least that may be, and more.
            let memory = if self.clients.is_multiple_of(2) { 512 } else { 192 };
            out += &format!(
                "[node.{node}]\naddress = \"{address}\"\nclients = {}\nbuffer-memory = \"{memory}MiB\"\n",
                self.clients
            );
            let keys: Vec<String> = keys[n].iter().map(|key| format!("\"{key}\"")).collect();
            if !keys.is_empty() {
                out += &format!("keys = [{}]\n", keys.join(", "));
            }
            if self.second_metadata {
                out += "metadata = [\"state\", \"/second\"]\n";
            }
        }
        for group in self.groups.iter().filter(|group| group.listed) {
            // Text takes everything.
            let _ = group.write(&mut out);
        }
        out
    }

    /// The file names every member.
    pub(crate) fn list_members(&mut self) {
        for volume in self.groups.iter_mut().flat_map(|group| &mut group.volumes) {
            volume.listed = volume.members;
        }
    }

    /// Changes one thing in the file, and says what.
    pub(crate) fn change(&mut self, dice: &mut Dice) -> String {
        if self.clients > 4 && dice.chance(1, 10) {
            self.clients = 5 + dice.below(64);
            return format!("clients = {}", self.clients);
        }
        if let Some(group) = self.groups.iter_mut().find(|group| !group.listed)
            && dice.chance(1, 2)
        {
            group.listed = true;
            return format!("group {}", group.name);
        }
        let group = dice.below(self.groups.len() as u64) as usize;
        let group = &mut self.groups[group];
        format!("{} of group {}", group.change(dice), group.name)
    }

    /// Folders that a node needs before its first start.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        ["/state", "/etc", "/disks", "/disks/0", "/disks/1", "/disks/2", "/second"]
            .map(PathBuf::from)
            .to_vec()
    }
}

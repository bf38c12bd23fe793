// SPDX-License-Identifier: Apache-2.0
//! From the parsed document to the typed configuration.

use super::error::{ConfigError, Source};
use super::table::Table;
use super::timeouts::Timeouts;
use super::{
    Config, GroupConfig, LinkConfig, NodeConfig, OwnDisks, QueueSource, ReadCosts, Sets,
    VolumeConfig, check, marks, node,
};
use helio_engine::{
    OnError, QUEUE_BYTES_SNDR, QUEUE_ITEMS_SNDR, QueueConfig, ResyncConfig, SafeCopy, WhenFull,
};
use helio_format::message::VOLUMES_MAX;
use helio_units::{Bytes, Items, Mode, Rate, SECTOR};
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::de::DeTable;

/// A ceiling of the copier below a region in ten seconds is a mistake.
const SLOWEST_COPY: Bytes = Bytes::kib(64);
/// What is to be built with the queue on disk.
const LATER: &str = "needs the disk queue, which this version does not have";

const GROUP_KEYS: &[&str] = &[
    "nodes",
    "mode",
    "period",
    "queue",
    "peer-timeout",
    "flush-limit",
    "member-timeout",
    "member-return",
    "copy-transfer",
    "merge-delay-factor",
    "copy-priority",
    "hold",
    "autosync",
    "on-error",
    "granularity",
    "hot-extents",
    "resync",
    "safe-copy",
    "safe-copy-dir",
    "retain",
    "link",
    "alerts",
    "hooks",
    "volume",
];
const RESYNC_KEYS: &[&str] = &["max-rate", "min-rate", "yield"];
const QUEUE_KEYS: &[&str] = &["memory", "items", "preset", "when-full", "disk"];
/// Keys of a group that are about a peer.
const PEER_KEYS: &[&str] = &[
    "mode",
    "period",
    "queue",
    "peer-timeout",
    "flush-limit",
    "hold",
    "autosync",
    "on-error",
    "resync",
    "safe-copy",
    "safe-copy-dir",
    "link",
];
const LINK_KEYS: &[&str] = &["send-buffer", "receive-buffer", "congestion"];
const VOLUME_KEYS: &[&str] = &["size", "io", "sparse", "blank", "copy-priority", "members"];

/// The whole file.
pub(super) fn config(source: &Source<'_>) -> Result<Config, ConfigError> {
    let document = DeTable::parse(source.text).map_err(|why| {
        let at = why.span().map_or(0, |span| span.start);
        source.refuse(at, format!("not TOML: {}", why.message()), "correct the line")
    })?;
    let top = Table::open(source, String::new(), 0, document.get_ref(), &["node", "group"])?;
    let nodes = check::unique_addresses(&node::nodes(&top)?)?;
    let mut groups = BTreeMap::new();
    let mut members = Vec::new();
    for (name, table) in top.named("group", GROUP_KEYS)? {
        groups.insert(name.to_owned(), group(&table, &nodes, &mut members)?);
    }
    check::unshared(source, &members)?;
    Ok(Config { nodes, groups, file: source.file.to_owned() })
}

/// A node and where its address stands.
pub(super) struct ReadNode<'a> {
    pub(super) name: &'a str,
    pub(super) table: Table<'a>,
    pub(super) address_at: usize,
    pub(super) node: NodeConfig,
}

/// A member and where it stands.
pub(super) struct ReadMember {
    pub(super) node: String,
    pub(super) path: PathBuf,
    pub(super) at: usize,
    pub(super) volume: String,
    /// What a read of it costs, if that is set.
    pub(super) read_cost: Option<u16>,
    /// The peer does not compare its disk with its own disks.
    pub(super) own_disk: bool,
}

fn group(
    table: &Table<'_>,
    nodes: &BTreeMap<String, NodeConfig>,
    members: &mut Vec<ReadMember>,
) -> Result<GroupConfig, ConfigError> {
    let named = group_nodes(table, nodes)?;
    let pairs = named.len() > 1;
    if !pairs {
        without_peer(table, PEER_KEYS)?;
    }
    let (mode, period) = (mode(table)?, super::period::read(table)?);
    let (queue, queue_source) = queue(table)?;
    let copy_transfer = super::copy_transfer::read(table)?;
    let hold = super::hold::read(table)?;
    let autosync = table.flag("autosync")?.unwrap_or(true);
    let on_error = if pairs { super::on_error::read(table)? } else { OnError::Pass };
    let (granularity, hot_extents) = marks::read(table)?;
    let resync = resync(table)?;
    let (safe_copy, safe_copy_dir) = safe_copy(table)?;
    super::period::check(table, mode, hold, safe_copy)?;
    let retain = super::retain::read(table)?;
    let link = link(table)?;
    let alerts = super::alerts::alerts(table, pairs)?;
    let hooks = super::hooks::hooks(table, pairs)?;
    let (mut volumes, mut sets) = (BTreeMap::new(), Sets::read(table)?);
    for (name, inner) in table.named("volume", VOLUME_KEYS)? {
        let (volume, settings) = volume(&inner, &named, members)?;
        volumes.insert(name.to_owned(), volume);
        sets.add(name, (table, &inner), settings)?;
    }
    if volumes.len() > VOLUMES_MAX {
        let message = format!("has {} volumes", volumes.len());
        let hint =
            format!("put at most {VOLUMES_MAX} into a group, and the others into another group");
        return Err(table.refuse(table.at, message, hint));
    }
    if volumes.is_empty() {
        let message = "has no volume";
        return Err(table.refuse(
            table.at,
            message,
            "add [group.NAME.volume.NAME] with size and members",
        ));
    }
    let members_most = volumes.values().flat_map(|volume| volume.members.values().map(Vec::len));
    let timeouts = Timeouts::read(table, pairs && members_most.max().unwrap_or(0) > 1)?;
    Ok(GroupConfig {
        nodes: named,
        mode,
        period,
        queue,
        queue_source,
        timeouts,
        copy_transfer,
        hold,
        autosync,
        on_error,
        granularity,
        hot_extents,
        resync,
        safe_copy,
        safe_copy_dir,
        retain,
        link,
        alerts,
        hooks,
        sets,
        volumes,
    })
}

/// The nodes of a group, one or two, all of them declared.
fn group_nodes(
    table: &Table<'_>,
    nodes: &BTreeMap<String, NodeConfig>,
) -> Result<Vec<String>, ConfigError> {
    let Some(list) = table.texts("nodes")? else {
        return Err(table.lacks("nodes", "add nodes = [\"A\", \"B\"]"));
    };
    if !(1..=2).contains(&list.value.len()) {
        let message = format!("names {} nodes; a group has one or two", list.value.len());
        return Err(table.refuse(list.at, message, "name one node or two"));
    }
    for named in &list.value {
        if !nodes.contains_key(named.value) {
            let message = format!("node `{}` is not declared", named.value);
            return Err(table.refuse(
                named.at,
                message,
                "add [node.NAME] for it, or correct the name",
            ));
        }
    }
    let [one, other] = list.value.as_slice() else {
        return Ok(list.value.iter().map(|only| only.value.to_owned()).collect());
    };
    if one.value == other.value {
        let message = format!("names node `{}` twice", other.value);
        return Err(table.refuse(other.at, message, "name two different nodes"));
    }
    let keyless = |name: &str| nodes.get(name).is_some_and(|node| node.keys.is_empty());
    if keyless(one.value) != keyless(other.value) {
        let (without, with) = if keyless(one.value) { (one, other) } else { (other, one) };
        let message =
            format!("node `{}` has a key and node `{}` has none", with.value, without.value);
        let hint = format!("give node {} one too: `helio key new` on it", without.value);
        return Err(table.refuse(without.at, message, hint));
    }
    Ok(vec![one.value.to_owned(), other.value.to_owned()])
}

/// Refuses those keys, which are about a peer.
pub(super) fn without_peer(table: &Table<'_>, keys: &[&str]) -> Result<(), ConfigError> {
    match keys.iter().find_map(|key| Some((key, table.place(key)?))) {
        None => Ok(()),
        Some((key, at)) => {
            let message = format!("`{key}` needs two nodes, and the group has one");
            Err(table.refuse(at, message, "leave it out, or name a second node"))
        }
    }
}

fn mode(table: &Table<'_>) -> Result<Mode, ConfigError> {
    let Some(word) = table.text("mode")? else { return Ok(Mode::default()) };
    if word.value == "superasync" {
        let message = format!("mode `superasync` {LATER}");
        return Err(table.refuse(word.at, message, "use async"));
    }
    Mode::from_word(word.value).ok_or_else(|| {
        let message = format!("mode `{}` is unknown", word.value);
        table.refuse(word.at, message, "use sync, nearsync, async or periodic")
    })
}

/// `safe-copy = "on" | "off" | SIZE`, and where.
fn safe_copy(group: &Table<'_>) -> Result<(SafeCopy, Option<PathBuf>), ConfigError> {
    let safe_copy = match group.text("safe-copy")? {
        None => SafeCopy::On { bound: None },
        Some(word) => match word.value {
            "on" => SafeCopy::On { bound: None },
            "off" => SafeCopy::Off,
            _ => match helio_units::parse_bytes(word.value) {
                Ok(bound) => SafeCopy::On { bound: Some(bound) },
                Err(_) => {
                    let message = format!("`safe-copy` = \"{}\" is unknown", word.value);
                    return Err(group.refuse(
                        word.at,
                        message,
                        "use on, off or a size such as \"20GiB\"",
                    ));
                }
            },
        },
    };
    let Some(text) = group.text("safe-copy-dir")? else { return Ok((safe_copy, None)) };
    let path = PathBuf::from(text.value);
    if !path.is_absolute() {
        let message = format!("`safe-copy-dir` = \"{}\" is not an absolute path", text.value);
        return Err(group.refuse(text.at, message, "start it with `/`"));
    }
    Ok((safe_copy, Some(path)))
}

fn queue(group: &Table<'_>) -> Result<(QueueConfig, QueueSource), ConfigError> {
    let mut queue = QueueConfig::default();
    let Some(table) = group.table("queue", QUEUE_KEYS)? else {
        return Ok((queue, QueueSource::Auto));
    };
    if let Some(disk) = table.text("disk")? {
        return Err(table.refuse(disk.at, format!("`disk` {LATER}"), "leave it out"));
    }
    let mut source = QueueSource::Auto;
    let (memory, items) = (table.bytes_or_auto("memory")?, table.count("items")?);
    if let Some(preset) = table.text("preset")? {
        if preset.value != "sndr" {
            let message = format!("preset `{}` is unknown", preset.value);
            return Err(table.refuse(preset.at, message, "use sndr, or leave it out"));
        }
        if let Some(at) = memory.as_ref().map(|m| m.at).or(items.as_ref().map(|i| i.at)) {
            let message = "preset `sndr` already fixes memory and items";
            return Err(table.refuse(at, message, "use either the preset or your own limits"));
        }
        (queue.memory, queue.items) = (Some(QUEUE_BYTES_SNDR), QUEUE_ITEMS_SNDR);
        source = QueueSource::PresetSndr;
    }
    if let Some(memory) = memory {
        if memory.value < Bytes(SECTOR) {
            let message = format!("`memory` {} holds not even one sector", memory.value);
            return Err(table.refuse(memory.at, message, "use \"auto\", or at least \"512B\""));
        }
        (queue.memory, source) = (Some(memory.value), QueueSource::File);
    }
    if let Some(items) = items {
        queue.items = Items(items.value);
    }
    if table.is_table("when-full") {
        if let Some(split) = table.table("when-full", &["connected", "disconnected"])? {
            queue.connected = when_full(&split, "connected")?.unwrap_or(queue.connected);
            queue.disconnected = when_full(&split, "disconnected")?.unwrap_or(queue.disconnected);
        }
    } else if let Some(both) = when_full(&table, "when-full")? {
        (queue.connected, queue.disconnected) = (both, both);
    }
    Ok((queue, source))
}

fn when_full(table: &Table<'_>, key: &str) -> Result<Option<WhenFull>, ConfigError> {
    let Some(word) = table.text(key)? else { return Ok(None) };
    match word.value {
        "block" => Ok(Some(WhenFull::Block)),
        "log" => Ok(Some(WhenFull::Log)),
        "fail" => Ok(Some(WhenFull::Fail)),
        "spill" => {
            let message = format!("`{key}` = \"spill\" {LATER}");
            Err(table.refuse(word.at, message, "use block, log or fail"))
        }
        other => {
            let message = format!("`{key}` = \"{other}\" is unknown");
            Err(table.refuse(word.at, message, "use block, log or fail"))
        }
    }
}

/// Rates are sizes per second.
fn resync(group: &Table<'_>) -> Result<ResyncConfig, ConfigError> {
    let mut resync = ResyncConfig::default();
    let Some(table) = group.table("resync", RESYNC_KEYS)? else { return Ok(resync) };
    if let Some(least) = table.bytes("min-rate")? {
        resync.min_rate = Rate(least.value.0);
    }
    if let Some(most) = table.bytes("max-rate")? {
        if most.value < SLOWEST_COPY {
            let message =
                format!("with `max-rate` {} a second a resync would never end", most.value);
            let hint = format!("use at least {SLOWEST_COPY}, or omit it for no limit");
            return Err(table.refuse(most.at, message, hint));
        }
        if most.value.0 < resync.min_rate.0 {
            let message = format!(
                "`max-rate` {} is below `min-rate` {}",
                most.value,
                Bytes(resync.min_rate.0)
            );
            return Err(table.refuse(most.at, message, "set `max-rate` to at least `min-rate`"));
        }
        resync.max_rate = Some(Rate(most.value.0));
    }
    resync.yields = table.flag("yield")?.unwrap_or(true);
    Ok(resync)
}

fn link(group: &Table<'_>) -> Result<LinkConfig, ConfigError> {
    let Some(table) = group.table("link", LINK_KEYS)? else { return Ok(LinkConfig::default()) };
    let buffer = |key: &str| -> Result<Option<Bytes>, ConfigError> {
        // The kernel counts socket buffers in an int.
        const LARGEST: Bytes = Bytes(i32::MAX as u64 / 2);
        match table.bytes_or_auto(key)? {
            Some(size) if size.value.0 == 0 || size.value > LARGEST => {
                let message =
                    format!("`{key}` {} is not a valid size of a socket buffer", size.value);
                Err(table.refuse(size.at, message, "use \"auto\", or a size below 1 GiB"))
            }
            size => Ok(size.map(|size| size.value)),
        }
    };
    Ok(LinkConfig {
        send_buffer: buffer("send-buffer")?,
        receive_buffer: buffer("receive-buffer")?,
        congestion: table.text("congestion")?.map(|word| word.value.to_owned()),
    })
}

fn volume(
    table: &Table<'_>,
    nodes: &[String],
    members: &mut Vec<ReadMember>,
) -> Result<(VolumeConfig, (ReadCosts, OwnDisks)), ConfigError> {
    let Some(size) = table.bytes("size")? else {
        return Err(table.lacks("size", "add size = \"100GiB\", the same on every node"));
    };
    if size.value.0 == 0 || !size.value.0.is_multiple_of(SECTOR) {
        let message = format!("size of {} bytes is not a whole number of sectors", size.value.0);
        let hint = format!("use a multiple of {SECTOR} bytes, and not zero");
        return Err(table.refuse(size.at, message, hint));
    }
    let io = match table.text("io")? {
        None => helio_api::Io::Direct,
        Some(word) => match word.value {
            "direct" => helio_api::Io::Direct,
            "buffered" => helio_api::Io::Buffered,
            other => {
                let message = format!("io `{other}` is unknown");
                return Err(table.refuse(word.at, message, "use direct or buffered"));
            }
        },
    };
    let sparse = table.flag("sparse")?.unwrap_or(false);
    let blank = table.flag("blank")?.unwrap_or(false);
    let found = check::members(table, nodes)?;
    let mut paths: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let (mut read_costs, mut own_disks) = (ReadCosts::new(), OwnDisks::new());
    for member in found {
        if let Some(cost) = member.read_cost {
            read_costs.insert((member.node.clone(), member.path.clone()), cost);
        }
        if member.own_disk {
            own_disks.insert((member.node.clone(), member.path.clone()));
        }
        paths.entry(member.node.clone()).or_default().push(member.path.clone());
        members.push(member);
    }
    let volume = VolumeConfig { size: size.value, io, sparse, blank, members: paths };
    Ok((volume, (read_costs, own_disks)))
}

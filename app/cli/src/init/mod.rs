// SPDX-License-Identifier: Apache-2.0
//! `helio init`: a configuration and keys for two nodes, and the commands that follow. Nothing that exists is replaced.

mod next;
mod text;

pub(crate) use next::shell_word;

use crate::args::{Init, NodeWish, VolumeWish};
use crate::failure::{failed, unreadable, unwritable};
use crate::newfile;
use crate::verbs::done;
use anyhow::{Result, anyhow, bail};
use helio_daemon::config::Config;
use helio_driver::Linux;
use helio_tls::NodeKey;
use helio_units::Bytes;
use std::fs::{self, File};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The name of the configuration file.
const CONFIG: &str = "heliograph.toml";
/// Where a node listens unless the operator says otherwise.
const PORT: u16 = 7121;

/// A node of the new configuration.
struct Node {
    name: String,
    host: String,
    address: SocketAddr,
    key_file: PathBuf,
}

/// A volume of the new configuration.
struct Volume {
    name: String,
    size: Bytes,
    /// One on each node.
    members: [PathBuf; 2],
}

/// All of it.
struct Plan {
    dir: PathBuf,
    group: String,
    nodes: [Node; 2],
    volumes: Vec<Volume>,
    /// Both nodes are on this host: their members can be made here.
    local: bool,
}

pub(crate) fn run(wish: &Init) -> Result<ExitCode> {
    fs::create_dir_all(&wish.dir).map_err(|why| {
        let dir = wish.dir.display();
        anyhow!("cannot make {dir}: {why}\n  hint: name another directory with --dir")
    })?;
    let plan = plan(wish)?;
    let config = plan.dir.join(CONFIG);
    let members = plan.members_to_make()?;
    // Keys that are made now would not be the ones that it names.
    if config.exists() && plan.nodes.iter().any(|node| !node.key_file.exists()) {
        return Err(not_replaced(&config));
    }
    let mut made = Vec::new();
    let written = write(&plan, (&config, &members), &mut made);
    if written.is_err() {
        for path in &made {
            // What is wrong is said; a file that was not made cannot be removed.
            let _left = fs::remove_file(path);
        }
    }
    written?;
    let made: Vec<String> = made.iter().map(|path| next::shell_word(path)).collect();
    let made = if made.is_empty() { "nothing new".into() } else { made.join(", ") };
    let message = format!("wrote {made}\n\n{}", next::commands(&plan));
    done(message.trim_end().to_owned(), Vec::new(), wish.json)
}

/// Makes keys, configuration and members; tells which files are new.
fn write(
    plan: &Plan,
    (config, members): (&Path, &[(&Path, Bytes)]),
    made: &mut Vec<PathBuf>,
) -> Result<()> {
    let mut keys = Vec::new();
    for node in &plan.nodes {
        let key = if node.key_file.exists() {
            NodeKey::load(&Linux::host(), &node.key_file)
                .map_err(failed("no key", "name another directory with --dir"))?
        } else {
            let key = NodeKey::create(&Linux::host(), &node.key_file)
                .map_err(failed("no key", "name another directory with --dir"))?;
            made.push(node.key_file.clone());
            key
        };
        keys.push(key.public());
    }
    let text = text::config(plan, &keys);
    Config::parse(&text, &config.display().to_string())?;
    match fs::read_to_string(config) {
        Ok(there) if there == text => {}
        Ok(_) => return Err(not_replaced(config)),
        Err(why) if why.kind() == ErrorKind::NotFound => {
            newfile::write(config, &text)?;
            made.insert(0, config.to_owned());
        }
        Err(why) => return Err(unreadable(config)(why)),
    }
    for (path, size) in members {
        let file = File::options().write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(unwritable(path))?;
        made.push(path.to_path_buf());
        file.set_len(size.0).map_err(unwritable(path))?;
    }
    Ok(())
}

fn not_replaced(config: &Path) -> anyhow::Error {
    anyhow!(
        "{} exists and is not replaced\n  hint: name another directory with --dir, or move this file away",
        config.display()
    )
}

impl Plan {
    /// The files that are members on this host and do not exist. One that exists has the size of its volume.
    fn members_to_make(&self) -> Result<Vec<(&Path, Bytes)>> {
        let mut missing = Vec::new();
        for volume in self.volumes.iter().filter(|_| self.local) {
            for path in volume.members.iter().filter(|path| is_file(path)) {
                match path.metadata() {
                    Ok(facts) if facts.len() == volume.size.0 => {}
                    Ok(facts) => bail!(
                        "{} holds {} and volume {} is {}; the file is left as it is\n  hint: give the volume its size \
                         with --volume {2}={0}, or name another file",
                        path.display(),
                        Bytes(facts.len()),
                        volume.name,
                        volume.size,
                    ),
                    Err(_) => missing.push((path.as_path(), volume.size)),
                }
            }
        }
        Ok(missing)
    }
}

/// Whether a member can be made: devices are there or are not.
fn is_file(path: &Path) -> bool {
    !path.starts_with("/dev")
}

fn plan(wish: &Init) -> Result<Plan> {
    let [one, other] = &wish.nodes[..] else {
        bail!(
            "--nodes names {} nodes, and a group has two\n  hint: name two, for example --nodes paris=192.0.2.1,lyon=192.0.2.2",
            wish.nodes.len()
        );
    };
    let first = node(one, PORT, &wish.dir)?;
    let mut second = node(other, PORT, &wish.dir)?;
    if second.address == first.address && other.port.is_none() {
        second.address.set_port(PORT + 1);
    }
    if first.name == second.name {
        bail!(
            "both nodes are called {}\n  hint: give each a name of its own in --nodes",
            first.name
        );
    }
    let [one, other] = [&first, &second].map(|node| node.address.ip());
    if one == other && !one.is_loopback() {
        bail!(
            "{} and {} have one address, {one}: a group needs two hosts\n  hint: give each node the address of its own host; to try it \
             on this host, use 127.0.0.1 for both",
            first.name,
            second.name
        );
    }
    let local = first.address.ip().is_loopback() && second.address.ip().is_loopback();
    let nodes = [first, second];
    let dir = wish.dir.canonicalize().map_err(unreadable(&wish.dir))?;
    let names = nodes.each_ref().map(|node| node.name.as_str());
    let volumes = wish.volumes.iter().map(|wish| volume(wish, names, (&dir, local)));
    let volumes = volumes.collect::<Result<Vec<_>>>()?;
    Ok(Plan { dir: wish.dir.clone(), group: wish.group.clone(), nodes, volumes, local })
}

fn node(wish: &NodeWish, port: u16, dir: &Path) -> Result<Node> {
    let NodeWish { name, host, port: given } = wish;
    let ip = match host.parse::<IpAddr>() {
        Ok(ip) => ip,
        Err(_) => resolved(name, host)?,
    };
    if let IpAddr::V6(ip) = ip
        && ip.is_unicast_link_local()
    {
        bail!(
            "{host}, the address of {name}, is link-local: it means something only together with an interface, and both nodes read \
             the same file\n  hint: give {name} an address that both hosts can reach"
        );
    }
    Ok(Node {
        name: name.clone(),
        host: host.clone(),
        address: SocketAddr::new(ip, given.unwrap_or(port)),
        key_file: dir.join(format!("{name}.key")),
    })
}

fn resolved(name: &str, host: &str) -> Result<IpAddr> {
    let hint = || format!("give the address of {name}, for example {name}=192.0.2.1 in --nodes");
    let mut found = (host, 0).to_socket_addrs().map_err(|why| {
        anyhow!("the address of {host} cannot be resolved: {why}\n  hint: {}", hint())
    })?;
    let first = found.next().map(|address| address.ip());
    first.ok_or_else(|| anyhow!("{host} has no address\n  hint: {}", hint()))
}

fn volume(wish: &VolumeWish, nodes: [&str; 2], (dir, local): (&Path, bool)) -> Result<Volume> {
    let VolumeWish { name, size, paths } = wish;
    let members = match &paths[..] {
        [] if local => nodes.map(|node| dir.join(format!("{node}-{name}.img"))),
        [] => nodes.map(|_| PathBuf::from(crate::args::STATE).join(format!("{name}.img"))),
        [one] => [one.clone(), one.clone()],
        [one, other, ..] => [one.clone(), other.clone()],
    };
    if local && members[0] == members[1] {
        bail!(
            "{} cannot be the member of {name} on both nodes: they are on one host\n  hint: give each its own: --volume \
             {name}=SIZE:/PATH1:/PATH2",
            members[0].display()
        );
    }
    let size = match size {
        Some(size) => *size,
        None => size_here(name, &members)?,
    };
    Ok(Volume { name: name.clone(), size, members })
}

/// The size of the smallest of the members that are on this host.
fn size_here(name: &str, members: &[PathBuf; 2]) -> Result<Bytes> {
    let size = |path: &PathBuf| File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0)));
    let sizes = members.iter().filter_map(|path| size(path).ok()).filter(|size| *size > 0);
    sizes.min().map(Bytes).ok_or_else(|| {
        let path = members[0].display();
        anyhow!(
            "the size of volume {name} is not known: {path} cannot be measured here\n  hint: give it, for example \
             --volume {name}=100GiB:{path}"
        )
    })
}

// SPDX-License-Identifier: Apache-2.0
//! One node's section: where it is reached, by whom, and what it runs on.

use super::error::ConfigError;
use super::read::ReadNode;
use super::table::{At, Table};
use super::{
    BUFFER_MEMORY_LEAST, CLIENTS_MAX, COPIES_AT_ONCE, NbdTlsConfig, NodeConfig, PeerAddress,
};
use helio_driver::DriverChoice;
use helio_tls::PublicKey;
use helio_units::Bytes;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Keys one node may have at once: two while one is changed for the other, and some to spare.
const KEYS_MOST: usize = 4;
/// Operators a node may know.
const OPERATORS_MOST: usize = 64;
/// The longest a shard may spin: beyond it a sleep costs next to nothing.
const SPIN_MOST: Duration = Duration::from_millis(1);

/// Where attached volumes get their stable names unless the file says otherwise.
const DEVICES: &str = "/dev/heliograph";

/// The state directory, in the list of `metadata`.
const STATE: &str = "state";

/// Saved data beyond this is a matter for `--save DIR`, unless the file says otherwise.
const SAVED_LIMIT: Bytes = Bytes::gib(32);

const NODE_KEYS: &[&str] = &[
    "address",
    "listen",
    "nbd",
    "key",
    "keys",
    "tls",
    "control",
    "operators",
    "driver",
    "spin",
    "clients",
    "copies-at-once",
    "devices",
    "metadata",
    "buffer-memory",
    "lock-memory",
    "saved-limit",
];
const TLS_KEYS: &[&str] = &["certificate", "key", "client-ca", "required"];

/// Every node of the file.
pub(super) fn nodes<'a>(top: &Table<'a>) -> Result<Vec<ReadNode<'a>>, ConfigError> {
    let mut found = Vec::new();
    for (name, table) in top.named("node", NODE_KEYS)? {
        let (address_at, node) = node(&table)?;
        found.push(ReadNode { name, table, address_at, node });
    }
    if found.is_empty() {
        return Err(top.refuse(0, "has no node", "add [node.NAME] with address = \"IP:PORT\""));
    }
    Ok(found)
}

fn node(table: &Table<'_>) -> Result<(usize, NodeConfig), ConfigError> {
    let address = address(table)?;
    let listen = socket(table, "listen")?;
    let nbd = socket(table, "nbd")?;
    let keys = keys(table)?;
    let heard = listens(table, &address, listen.as_ref(), keys.is_empty())?;
    if let Some(nbd) = nbd.as_ref().filter(|nbd| nbd.value == heard) {
        let message =
            format!("`nbd` {} is the address on which the node listens for its peers", nbd.value);
        return Err(table.refuse(nbd.at, message, "give NBD a port of its own"));
    }
    let fixed = address.value.fixed().map(|value| At { at: address.at, value });
    for (key, place) in [("address", fixed), ("listen", listen)] {
        let Some(place) = place.filter(|at| !at.value.ip().is_loopback() && keys.is_empty()) else {
            continue;
        };
        let message =
            format!("`{key}` {} is not a loopback address, and the node has no key", place.value);
        let hint = "create one with `helio key new` on that node and put it here as key = \"helio1:...\", or use \
                      127.0.0.1 or [::1]";
        return Err(table.refuse(place.at, message, hint));
    }
    let tls = tls(table)?;
    let sealed = tls.as_ref().is_some_and(|tls| tls.required);
    if let Some(nbd) = nbd.as_ref().filter(|nbd| !nbd.value.ip().is_loopback() && !sealed) {
        let message =
            format!("`nbd` {} is not a loopback address, and NBD asks for no password", nbd.value);
        let hint = "add [node.NAME.tls] with certificate, key, client-ca and required = true, or use 127.0.0.1";
        return Err(table.refuse(nbd.at, message, hint));
    }
    let (control, operators) = control(table, &keys)?;
    let node = NodeConfig {
        address: address.value,
        listen: heard,
        nbd: nbd.map(|nbd| nbd.value),
        keys,
        tls,
        control,
        operators,
        driver: driver(table)?,
        spin: spin(table)?,
        clients: clients(table)?,
        copies_at_once: table.within("copies-at-once", 0..=200)?.unwrap_or(COPIES_AT_ONCE),
        devices: path(table, "devices")?.unwrap_or_else(|| PathBuf::from(DEVICES)),
        second_metadata: second_metadata(table)?,
        buffer_memory: buffer_memory(table)?,
        lock_memory: table.flag("lock-memory")?.unwrap_or(false),
        saved_limit: table.bytes("saved-limit")?.map_or(SAVED_LIMIT, |limit| limit.value),
    };
    Ok((address.at, node))
}

/// Where the peers reach the node.
fn address(table: &Table<'_>) -> Result<At<PeerAddress>, ConfigError> {
    let Some(text) = table.text("address")? else {
        return Err(table.lacks("address", "add address = \"IP:PORT\""));
    };
    let refuse = |message: String, hint: &str| Err(table.refuse(text.at, message, hint));
    let Some(value) = PeerAddress::parse(text.value) else {
        let message = format!("`address` = \"{}\" is neither IP:PORT nor HOST:PORT", text.value);
        return refuse(message, "write \"127.0.0.1:7121\", or \"lyon.example:7121\"");
    };
    if value.port() == 0 {
        return refuse(format!("`address` {value} has no port"), "name a port from 1 to 65535");
    }
    Ok(At { at: text.at, value })
}

/// Where the node listens: at its address, unless that is a name.
fn listens(
    table: &Table<'_>,
    address: &At<PeerAddress>,
    listen: Option<&At<SocketAddr>>,
    is_local: bool,
) -> Result<SocketAddr, ConfigError> {
    let fixed = listen.map(|listen| listen.value).or_else(|| address.value.fixed());
    fixed.ok_or_else(|| {
        let message = format!("`address` {} is a name, and `listen` is missing", address.value);
        let (ip, which) = if is_local {
            ("127.0.0.1", "the node has no key")
        } else {
            ("0.0.0.0", "every address of the node")
        };
        let port = address.value.port();
        table.refuse(address.at, message, format!("add listen = \"{ip}:{port}\" ({which})"))
    })
}

/// A socket address with a port.
fn socket(table: &Table<'_>, key: &str) -> Result<Option<At<SocketAddr>>, ConfigError> {
    let Some(text) = table.text(key)? else { return Ok(None) };
    let refuse = |message: String, hint: &str| Err(table.refuse(text.at, message, hint));
    let Ok(value) = text.value.parse::<SocketAddr>() else {
        let message = format!("`{key}` = \"{}\" is not IP:PORT", text.value);
        return refuse(message, "write an address and a port, such as \"127.0.0.1:7121\"");
    };
    if value.port() == 0 {
        return refuse(format!("`{key}` {value} has no port"), "name a port from 1 to 65535");
    }
    Ok(Some(At { at: text.at, value }))
}

/// `key = "..."`, or `keys = [...]` while one is changed for another.
fn keys(table: &Table<'_>) -> Result<Vec<PublicKey>, ConfigError> {
    let (one, several) = (table.text("key")?, table.texts("keys")?);
    if let (Some(one), Some(_)) = (&one, &several) {
        return Err(table.refuse(one.at, "has both `key` and `keys`", "keep one of the two"));
    }
    match (one, several) {
        (Some(one), _) => Ok(vec![public_key(table, &one)?]),
        (None, Some(list)) => key_list(table, "keys", &list, KEYS_MOST),
        (None, None) => Ok(Vec::new()),
    }
}

fn key_list(
    table: &Table<'_>,
    name: &str,
    list: &At<Vec<At<&str>>>,
    most: usize,
) -> Result<Vec<PublicKey>, ConfigError> {
    if list.value.is_empty() || list.value.len() > most {
        let message = format!("`{name}` has {} keys", list.value.len());
        return Err(table.refuse(list.at, message, format!("give one to {most}, or leave it out")));
    }
    list.value.iter().map(|text| public_key(table, text)).collect()
}

fn public_key(table: &Table<'_>, text: &At<&str>) -> Result<PublicKey, ConfigError> {
    text.value.parse().map_err(|error| {
        let message = format!("\"{}\" is not a public key: {error}", text.value);
        table.refuse(text.at, message, "paste the output of `helio key show` on that node")
    })
}

/// Certificates for `nbds://`.
fn tls(node: &Table<'_>) -> Result<Option<NbdTlsConfig>, ConfigError> {
    let Some(table) = node.table("tls", TLS_KEYS)? else { return Ok(None) };
    let Some(certificate) = path(&table, "certificate")? else {
        return Err(table.lacks("certificate", "add certificate = \"/PATH/server.pem\""));
    };
    let Some(key) = path(&table, "key")? else {
        return Err(
            table.lacks("key", "add key = \"/PATH/server.key\", readable by the daemon alone")
        );
    };
    let required = table.flag("required")?.unwrap_or(true);
    let client_ca = path(&table, "client-ca")?;
    Ok(Some(NbdTlsConfig { certificate, key, client_ca, required }))
}

/// Where operators' commands are taken over TLS, and from whom.
fn control(
    table: &Table<'_>,
    keys: &[PublicKey],
) -> Result<(Option<SocketAddr>, Vec<PublicKey>), ConfigError> {
    let control = socket(table, "control")?;
    let operators = match table.texts("operators")? {
        Some(list) => key_list(table, "operators", &list, OPERATORS_MOST)?,
        None => Vec::new(),
    };
    if let Some(control) = &control {
        if keys.is_empty() {
            let message = format!("accepts commands at {}, but the node has no key", control.value);
            return Err(table.refuse(control.at, message, "add key = \"helio1:...\" to the node"));
        }
        if operators.is_empty() {
            let message = format!("accepts commands at {}, but has no operators", control.value);
            let hint = "add operators = [\"helio1:...\"] with the public keys of the operators";
            return Err(table.refuse(control.at, message, hint));
        }
    }
    Ok((control.map(|control| control.value), operators))
}

fn driver(table: &Table<'_>) -> Result<DriverChoice, ConfigError> {
    let Some(word) = table.text("driver")? else { return Ok(DriverChoice::Auto) };
    match word.value {
        "auto" => Ok(DriverChoice::Auto),
        "ring" => Ok(DriverChoice::Ring),
        "poll" => Ok(DriverChoice::Poll),
        other => {
            let message = format!("driver `{other}` is unknown");
            Err(table.refuse(word.at, message, "use auto, ring or poll"))
        }
    }
}

/// How long a shard looks for work before it sleeps; none is the daemon's own choice.
fn spin(table: &Table<'_>) -> Result<Option<Duration>, ConfigError> {
    match table.text("spin")? {
        None => Ok(None),
        Some(word) if word.value == "auto" => Ok(None),
        Some(word) if word.value == "off" => Ok(Some(Duration::ZERO)),
        Some(_) => {
            let span = table.span("spin")?;
            if let Some(long) = span.as_ref().filter(|span| span.value > SPIN_MOST) {
                let message =
                    format!("`spin` {:?} is too long and would waste CPU time", long.value);
                let hint = format!("use \"auto\", \"off\", or at most {SPIN_MOST:?}");
                return Err(table.refuse(long.at, message, hint));
            }
            Ok(span.map(|span| span.value))
        }
    }
}

/// A file or directory, by its absolute path.
fn path(table: &Table<'_>, key: &str) -> Result<Option<PathBuf>, ConfigError> {
    table.text(key)?.map(|text| absolute(table, key, &text)).transpose()
}

fn absolute(table: &Table<'_>, key: &str, text: &At<&str>) -> Result<PathBuf, ConfigError> {
    let path = PathBuf::from(text.value);
    if !path.is_absolute() {
        let message = format!("`{key}` = \"{}\" is not an absolute path", text.value);
        return Err(table.refuse(text.at, message, "start it with `/`"));
    }
    Ok(path)
}

/// The directory of the second metadata files. The first ones always lie in the state directory, which the list names `state`.
fn second_metadata(table: &Table<'_>) -> Result<Option<PathBuf>, ConfigError> {
    const HINT: &str = "write metadata = [\"state\", \"/DIR\"], with a directory on another disk than the state directory";
    let list = table.texts("metadata");
    let Some(list) = list.map_err(|error| ConfigError { hint: HINT.into(), ..error })? else {
        return Ok(None);
    };
    let [first, others @ ..] = list.value.as_slice() else {
        return Err(table.refuse(list.at, "`metadata` names no directory", HINT));
    };
    if first.value != STATE {
        let message = format!(
            "`metadata` begins with \"{}\", and the first metadata file lies in the state directory",
            first.value
        );
        return Err(table.refuse(first.at, message, HINT));
    }
    if let [_, third, ..] = others {
        return Err(table.refuse(third.at, "`metadata` names more than two directories", HINT));
    }
    let Some(second) = others.first() else { return Ok(None) };
    if second.value == STATE {
        return Err(table.refuse(second.at, "`metadata` names the state directory twice", HINT));
    }
    absolute(table, "metadata", second).map(Some)
}

/// The most that buffers may take; none is the daemon's own choice.
fn buffer_memory(table: &Table<'_>) -> Result<Option<Bytes>, ConfigError> {
    let memory = table.bytes_or_auto("buffer-memory")?;
    if let Some(few) = memory.as_ref().filter(|memory| memory.value < BUFFER_MEMORY_LEAST) {
        let message = format!("`buffer-memory` {} is too little", few.value);
        let hint = format!("use \"auto\", or at least {BUFFER_MEMORY_LEAST}");
        return Err(table.refuse(few.at, message, hint));
    }
    Ok(memory.map(|memory| memory.value))
}

/// Most NBD connections at once.
fn clients(table: &Table<'_>) -> Result<u32, ConfigError> {
    const MOST: u64 = 65_536;
    match table.count("clients")? {
        Some(count) if count.value > MOST => {
            let message = format!("`clients` = {} is more than the maximum", count.value);
            Err(table.refuse(count.at, message, format!("use at most {MOST}")))
        }
        Some(count) => Ok(count.value as u32),
        None => Ok(CLIENTS_MAX),
    }
}

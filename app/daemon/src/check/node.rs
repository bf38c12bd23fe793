// SPDX-License-Identifier: Apache-2.0
//! What the node itself needs: descriptors, memory, an I/O driver, its key and certificates, and its addresses.

use super::Finding;
use crate::config::{NodeConfig, NodeView};
use crate::open::look;
use crate::{NO_RING, control, descriptors, memory, open_driver, shard, trust};
use anyhow::Result;
use helio_driver::{Address, Host};
use helio_tls::{FileError, PeerTls};
use std::any::Any;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

/// Descriptors, locked memory, the I/O driver and certificates.
pub(super) fn resources(host: &Host, view: &NodeView<'_>) -> Vec<Finding> {
    let descriptors = descriptors::allowed(host, descriptors::Need::of(view));
    let descriptors = descriptors.map(|need| format!("{need} may be open at once"));
    let mut found = vec![Finding::of("file descriptors", descriptors)];
    found.push(memory(host, view.node));
    if view.node.lock_memory {
        let locked = crate::lock_memory(view).map(|()| String::from("can be locked"));
        found.push(Finding::of("memory", locked));
    }
    found.push(driver(view));
    match look::certificates(host, view) {
        Ok(false) => {}
        other => found.push(Finding::of(
            "certificates for NBD",
            other.map(|_| String::from("certificate and key can be used")),
        )),
    }
    found
}

/// What the daemon refuses is a failure, what it starts with all the same a warning.
fn memory(host: &Host, node: &NodeConfig) -> Finding {
    let buffers = memory::allowed(host, node)
        .map(|most| format!("buffers take up to {most}, which the limits of this process allow"));
    let found = Finding::of("buffer memory", buffers);
    match &found.hint {
        Some(hint) if memory::is_enough(host) => Finding::warn("buffer memory", &*found.why, hint),
        _ => found,
    }
}

fn driver(view: &NodeView<'_>) -> Finding {
    match open_driver(view.node) {
        Ok((driver, None)) => Finding::ok("I/O driver", driver.name()),
        Ok((driver, Some(why))) => Finding::warn(
            "I/O driver",
            format!(
                "io_uring cannot be used ({why}); {} is used, which costs more CPU",
                driver.name()
            ),
            NO_RING,
        ),
        Err(error) => Finding::fail("I/O driver", &error),
    }
}

/// The node's key file, against the keys that the configuration names.
pub(super) fn key(view: &NodeView<'_>, own: Result<&Option<PeerTls>, &FileError>) -> Finding {
    match own {
        Ok(Some(key)) => Finding::ok("key", format!("{} holds {}", trust::KEY_FILE, key.public())),
        Ok(None) => {
            Finding::ok("key", format!("none needed: {} is a loopback address", view.node.listen))
        }
        Err(error) => Finding::fail("key", &anyhow::anyhow!("{error}")),
    }
}

/// A listener of either kind, kept until all addresses are judged.
type Held = Box<dyn Any>;

fn boxed<T: Any>(listener: T) -> Held {
    Box::new(listener)
}

/// Every address of the node can be listened on, or its own daemon does.
pub(super) fn addresses(host: &Host, view: &NodeView<'_>, running: bool) -> Vec<Finding> {
    let node = view.node;
    let shard = |address| shard::listen(host, &Address::Inet(address)).map(boxed);
    let commands = |address| {
        let bound = TcpListener::bind(address).map(boxed);
        bound.map_err(|error| control::control_refused(address, &error))
    };
    // Held to the end, as the daemon does: two of its own addresses may be in each other's way.
    let mut held = Vec::new();
    let mut found = Vec::new();
    let mut look =
        |what: &str, address: SocketAddr, listen: &dyn Fn(SocketAddr) -> Result<Held>| {
            let what = format!("{what} address");
            if running && is_used(address) {
                found.push(Finding::ok(what, format!("{address} is used by the running daemon")));
                return;
            }
            let judged = listen(address).map(|listener| held.push(listener));
            found.push(Finding::of(what, judged.map(|()| format!("{address} is free"))));
        };
    look("peer", node.listen, &shard);
    if let Some(nbd) = node.nbd {
        look("NBD", nbd, &shard);
    }
    if let Some(control) = node.control {
        look("control", control, &commands);
    }
    drop(held);
    found
}

fn is_used(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
}

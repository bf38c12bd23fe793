// SPDX-License-Identifier: Apache-2.0
//! What the host gives: socket buffers, congestion control, a synchronised clock, ways to attach volumes. None of it
//! keeps the daemon from serving.
#![allow(unsafe_code)]

use super::Finding;
use crate::config::{LinkConfig, NodeView};
use crate::open::tuning;
use helio_driver::{Address, Linux, Machine};
use helio_units::Bytes;
use std::fs::File;

/// Everything about the host.
pub(super) fn check(view: &NodeView<'_>) -> Vec<Finding> {
    let mirrored = view.groups.iter().filter(|group| group.peer.is_some());
    let links = mirrored.map(|group| link(group.name, &group.group.link, view));
    let mut found: Vec<Finding> = links.collect();
    found.push(clock());
    found.push(attach());
    found
}

fn link(group: &str, link: &LinkConfig, view: &NodeView<'_>) -> Finding {
    let what = format!("socket buffers of {group}");
    let limits = [
        ("send-buffer", link.send_buffer, "net.core.wmem_max"),
        ("receive-buffer", link.receive_buffer, "net.core.rmem_max"),
    ];
    for (key, wanted, limit) in limits {
        let most = sysctl(limit).and_then(|text| text.parse().ok()).map(Bytes);
        if let (Some(wanted), Some(most)) = (wanted, most)
            && wanted > most
        {
            let why = format!("{key} = {wanted}, and the kernel gives at most {most}");
            return Finding::warn(what, why, format!("sysctl -w {limit}={}", wanted.0));
        }
    }
    let socket = Linux::default().stream_for(&Address::Inet(view.node.listen));
    match socket.and_then(|socket| tuning(link).apply(&socket)) {
        Ok(()) => {
            let shown = |size: Option<Bytes>| size.map_or("auto".into(), |size| size.to_string());
            let (send, receive) = (shown(link.send_buffer), shown(link.receive_buffer));
            Finding::ok(what, format!("send {send}, receive {receive}"))
        }
        Err(error) => Finding::warn(
            what,
            format!("the kernel refuses the settings of [group.{group}.link]: {error}"),
            "see `sysctl net.ipv4.tcp_available_congestion_control`; the node does not connect with these settings",
        ),
    }
}

fn sysctl(name: &str) -> Option<String> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Whether something keeps this machine's clock right. Times in status, events and logs of the two nodes are compared by
/// people; no decision rests on them.
fn clock() -> Finding {
    // SAFETY: all-zero bytes are a valid `timex`, and one with `modes` 0 changes nothing.
    let state = unsafe {
        let mut facts: libc::timex = std::mem::zeroed();
        libc::adjtimex(&raw mut facts)
    };
    match state {
        libc::TIME_ERROR => Finding::warn(
            "clock",
            "not synchronised: times in status and logs may differ between the nodes",
            "run chrony, systemd-timesyncd or another NTP client",
        ),
        -1 => Finding::ok("clock", "the kernel does not say whether it is synchronised"),
        _ => Finding::ok("clock", "synchronised"),
    }
}

fn attach() -> Finding {
    if helio_attach::ublk::available().is_ok() {
        return Finding::ok("attach", "ublk can be used");
    }
    let usable = |path: &str| File::options().read(true).write(true).open(path).map(drop);
    let fuse = usable("/dev/fuse").and_then(|()| usable("/dev/loop-control"));
    match fuse {
        Ok(()) => Finding::ok("attach", "fuse can be used"),
        Err(error) => Finding::warn(
            "attach",
            format!(
                "neither ublk nor fuse can be used here ({error}), so that only NBD serves volumes"
            ),
            "modprobe ublk_drv, or modprobe fuse and loop, and run the daemon as root",
        ),
    }
}

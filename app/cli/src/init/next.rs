// SPDX-License-Identifier: Apache-2.0
//! The commands that follow `helio init`: three for each node, and a promotion.

use super::{CONFIG, Node, Plan, is_file};
use crate::args::STATE;
use helio_daemon::KEY_FILE;
use std::path::Path;

/// Where a daemon looks for its configuration.
const CONFIG_DIR: &str = "/etc/heliograph";

/// A path as it is typed in a shell.
pub(crate) fn shell_word(path: &Path) -> String {
    helio_units::shell_word(&path.to_string_lossy())
}

/// One word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// What the operator types next.
pub(super) fn commands(plan: &Plan) -> String {
    let each = if plan.local { here } else { elsewhere };
    let mut text = String::new();
    for (n, node) in plan.nodes.iter().enumerate() {
        text += &format!("{} ({}): copy, check, start\n", node.name, node.address);
        for command in each(plan, n) {
            text += &format!("  {command}\n");
        }
        text.push('\n');
    }
    let [first, second] = &plan.nodes;
    let promote = if plan.local {
        format!("helio promote {} --state {}", plan.group, shell_word(&plan.dir.join(&first.name)))
    } else {
        format!("ssh {} helio promote {}", login(first), plan.group)
    };
    if !plan.local {
        text += &format!(
            "helio.service (packaging/systemd) runs the node that has the name of its host. Without it, or if the names \
             differ, run\nthe daemon on that host: helio daemon --node {}\n\n",
            first.name
        );
    }
    text += &format!("Make {} primary; its data replaces that of {}:\n", first.name, second.name);
    text + &format!("  {promote}\n")
}

/// For two nodes on this host, each with a state directory beside the configuration.
fn here(plan: &Plan, n: usize) -> [String; 3] {
    let Node { name, key_file, .. } = &plan.nodes[n];
    let state = plan.dir.join(name);
    let log = shell_word(&plan.dir.join(format!("{name}.log")));
    let (key, to) = (shell_word(key_file), shell_word(&state.join(KEY_FILE)));
    let (config, state) = (shell_word(&plan.dir.join(CONFIG)), shell_word(&state));
    [
        format!("mkdir -p -m 700 {state} && mv -n {key} {to}"),
        format!("helio check --node {name} --config {config} --state {state}"),
        format!("helio daemon --node {name} --config {config} --state {state} 2> {log} &"),
    ]
}

/// For a node on a host of its own.
fn elsewhere(plan: &Plan, n: usize) -> [String; 3] {
    let node = &plan.nodes[n];
    let (name, at) = (&node.name, login(node));
    let files = plan.volumes.iter().map(|volume| (&volume.members[n], volume.size.0));
    let made: String = files
        .filter(|(path, _)| is_file(path))
        .map(|(path, size)| (shell_word(path), size))
        .map(|(path, size)| format!(" && test ! -e {path} && fallocate -l {size} {path}"))
        .collect();
    // Brackets keep the colons of an address apart from the path, and mean something to a shell.
    let to = |path: &str| match node.host.contains(':') {
        true => quoted(&format!("root@[{}]:{path}", node.host)),
        false => format!("{at}:{path}"),
    };
    let (config, key) = (shell_word(&plan.dir.join(CONFIG)), shell_word(&node.key_file));
    // Nothing that is on the host is replaced.
    let key_there = format!("{STATE}/{KEY_FILE}");
    let make = quoted(&format!(
        "mkdir -p {CONFIG_DIR} && mkdir -p -m 700 {STATE} && test ! -e {CONFIG_DIR}/{CONFIG} && test ! -e \
         {key_there}{made}"
    ));
    [
        format!(
            "ssh {at} {make} && scp {config} {} && scp -p {key} {} && rm {key}",
            to(&format!("{CONFIG_DIR}/")),
            to(&key_there)
        ),
        format!("ssh {at} helio check --node {name}"),
        format!("ssh {at} systemctl enable --now helio"),
    ]
}

fn login(node: &Node) -> String {
    format!("root@{}", node.host)
}

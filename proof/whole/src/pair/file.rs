// SPDX-License-Identifier: Apache-2.0
//! The configuration file as the operator changes it, on both nodes, and applies it.

use super::luck::Ends;
use super::run::{Run, Wish};
use helio_driver::{Host, Mode, OFlags};
use helio_netmodel::Dice;
use helio_tls::{NodeKey, PublicKey};
use serde_json::json;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where the file is on every node.
const FILE: &str = "/etc/heliograph.toml";

impl Run {
    /// Changes something in the file, and applies it: on both nodes, or later on one of them.
    pub(super) fn change_file(&mut self, dice: &mut Dice) {
        let what = self.scenario.change(dice);
        self.clients_max = self.clients_max.max(self.scenario.clients);
        self.groups.iter_mut().for_each(|group| group.queue_was_set = true);
        self.world.tell(format_args!("the configuration changes: {what}"));
        self.write_file();
        let both = dice.chance(3, 4);
        let first = dice.below(2) as usize;
        self.apply(first);
        if both {
            self.apply(1 - first);
        }
    }

    /// The file names every member again.
    pub(super) fn list_members(&mut self) {
        self.scenario.list_members();
        self.write_file();
    }

    /// Writes the file as it is to be on both nodes. A node without power, or without room for it, keeps the one that it has.
    pub(super) fn write_file(&mut self) {
        self.ends.retain(|(_, it)| !matches!(it, Ends::File));
        let keys: Vec<Vec<PublicKey>> = self.nodes.iter().map(|node| node.keys.clone()).collect();
        let text = self.scenario.file(&keys);
        for node in 0..2 {
            self.nodes[node].unapplied = true;
            self.put(node, &text);
        }
        self.serve_what_is_listed();
    }

    /// Gives the file of a node this content. Returns whether it has it.
    fn put(&self, node: usize, text: &str) -> bool {
        let host: Host = Arc::new(self.nodes[node].machine.clone());
        let replaced = replace(&host, Path::new(FILE), text.as_bytes());
        if let Err(why) = &replaced {
            let name = self.nodes[node].name;
            self.world.tell(format_args!("{name}: the configuration file is not changed: {why}"));
        }
        replaced.is_ok()
    }

    /// A group of one node becomes primary by itself once the file has it.
    fn serve_what_is_listed(&mut self) {
        for (group, shape) in self.groups.iter_mut().zip(&self.scenario.groups) {
            if let Some(node) = shape.alone.filter(|_| shape.listed && !group.shape.listed) {
                group.shape.listed = true;
                (group.serves, group.last_served) = (Some(node), Some(node));
            }
        }
    }

    /// Makes the file of a node invalid for a while. The daemon must refuse it.
    pub(super) fn spoil_file(&mut self, node: usize, dice: &mut Dice) {
        let keys: Vec<Vec<PublicKey>> = self.nodes.iter().map(|node| node.keys.clone()).collect();
        let text = self.scenario.file(&keys);
        let text = match dice.below(4) {
            0 => text + "[node.\n",
            1 => text.replacen("address", "adress", 1),
            2 => text.replacen("granularity", "[nonsense]\ngranularity", 1),
            _ => String::new(),
        };
        if !self.put(node, &text) {
            return;
        }
        self.send(
            (node, None),
            "POST",
            "/v2/apply".into(),
            &json!({ "dry_run": false }),
            Wish::Refusal,
        );
        let lasts = Duration::from_millis(500 + dice.below(2000));
        self.ends.push((self.world.now() + lasts, Ends::File));
    }

    /// The next step of a change of a node's key: another key is added, then the node shows it, then the first one is removed.
    pub(super) fn change_key(&mut self, node: usize) {
        let host: Host = Arc::new(self.nodes[node].machine.clone());
        let [shown, next] = ["/state/node.key", "/state/next.key"].map(PathBuf::from);
        let it = &mut self.nodes[node];
        let done = match it.keys[..] {
            [] => return,
            [_] => {
                // What is left of an earlier attempt.
                let _ = host.remove(&next);
                NodeKey::create(&host, &next).map(|key| it.keys.push(key.public())).is_ok()
            }
            [_, new, ..] => match NodeKey::load(&host, &next) {
                Ok(key) if key.public() == new => host.rename(&next, &shown).is_ok(),
                _ => NodeKey::load(&host, &shown).is_ok_and(|key| {
                    it.keys.retain(|known| *known == key.public());
                    true
                }),
            },
        };
        self.world.tell(format_args!("{}: its key changes: {done}", self.nodes[node].name));
        let _ = host.sync_folder(Path::new("/state"));
        self.write_file();
        self.apply(0);
        self.apply(1);
    }
}

/// Writes another file, and gives it the name.
fn replace(host: &Host, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let file = host.open(&new, flags, Mode::RUSR | Mode::WUSR)?;
    file.write_all_at(bytes, 0)?;
    file.sync_all()?;
    host.rename(&new, path)?;
    host.sync_folder(path.parent().unwrap_or(Path::new("/")))
}

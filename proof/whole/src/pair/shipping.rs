// SPDX-License-Identifier: Apache-2.0
//! The first sync by a shipped disk, as an operator does it: behind the response to `seed begin` the members of a node are copied, the
//! copy takes the place of the peer's, with new metadata, and only then `seed end` is said.
//!
//! ```text
//!   Never ──begin is sent──> Unsure ──its response──> Begun(node) ──the disk is put in place──> Placed(node)
//!     ^                        ^────── begin is sent again, or the operator gives up ─┴──────────────┤
//!     └─────────────────────────────────────── the response to end ──────────────────────────────────┘
//! ```

use super::luck::Ends;
use super::node::{Node, write_all};
use super::older::{FOLDER, SECOND};
use super::run::{Run, Wish};
use helio_driver::{Errno, Machine, Mode, OFlags};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How far the operator is with a disk for a group; see the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shipping {
    #[default]
    Never,
    Unsure,
    Begun(usize),
    Placed(usize),
}

impl Run {
    pub(super) fn begin_seed(&mut self, node: usize, group: usize) {
        if self.nodes[node].daemon.is_some() {
            self.groups[group].shipping = Shipping::Unsure;
        }
        self.post(node, group, "seed/begin", &json!({}), Wish::SeedBegin);
    }

    /// Says that the disk is in place, if it is; or ships it, unless the peer is the one that clients used last. An operator who cannot
    /// be sure which disk it would be gives up.
    pub(super) fn end_seed(&mut self, node: usize, group: usize) {
        let it = &self.groups[group];
        match it.shipping {
            Shipping::Begun(from) if from == node && it.last_served == Some(from) => {
                self.stop(1 - from, Duration::from_secs(4));
                let at = self.world.now() + Duration::from_secs(3);
                self.ends.push((at, Ends::Ship { from, group }));
            }
            Shipping::Placed(from) if from == node => {
                self.post(node, group, "seed/end", &json!({}), Wish::SeedEnd);
            }
            Shipping::Never => self.post(node, group, "seed/end", &json!({}), Wish::Other),
            Shipping::Unsure | Shipping::Begun(_) | Shipping::Placed(_) => {
                let body = json!({ "full": true, "give_up_safe_copy": false });
                self.groups[group].shipping = Shipping::Unsure;
                self.post(node, group, "resync", &body, Wish::Other);
            }
        }
    }

    /// A command about a shipped disk was carried out.
    pub(super) fn seeded(&mut self, node: usize, group: usize, wish: Wish) {
        let shipping = &mut self.groups[group].shipping;
        *shipping = match (wish, *shipping) {
            (Wish::SeedBegin, _) => Shipping::Begun(node),
            (Wish::SeedEnd, Shipping::Placed(_)) => Shipping::Never,
            (_, same) => same,
        };
    }

    /// The disk arrives: it takes the place of what a stopped node has, metadata included.
    pub(super) fn place_disk(&mut self, from: usize, group: usize) {
        let to = 1 - from;
        let Node { daemon, images, .. } = &self.nodes[to];
        let begun = self.groups[group].shipping == Shipping::Begun(from);
        if !begun || daemon.is_some() || images.is_unjudged(group) {
            return;
        }
        self.nodes[to].remove_metadata(self.groups[group].shape.name);
        // Also if no new file can be created.
        self.groups[group].promised.forgets(to);
        if !self.create_metadata(to, group) {
            return;
        }
        let shape = self.groups[group].shape.clone();
        let mut placed = true;
        for volume in &shape.volumes {
            let full = self.full_members(from, group, volume).into_iter().next();
            let content = full.and_then(|path| self.nodes[from].machine.content(&path).ok());
            let place =
                |path: PathBuf| self.nodes[to].replace_member(&path, content.as_deref()?).ok();
            placed &= volume.paths(shape.name, to).into_iter().all(|path| place(path).is_some());
        }
        let (name, there) = (shape.name, self.nodes[to].name);
        self.world.tell(format_args!("{there}: a disk of {name} arrives: {placed}"));
        if placed {
            self.groups[group].shipping = Shipping::Placed(from);
        }
    }
}

impl Node {
    fn remove_metadata(&self, group: &str) {
        for folder in [FOLDER, SECOND] {
            _ = self.machine.remove(&PathBuf::from(format!("{folder}/{group}.meta")));
        }
    }

    /// Puts other content into a member.
    fn replace_member(&self, path: &Path, content: &[u8]) -> Result<(), Errno> {
        let file = self.machine.open(path, OFlags::RDWR, Mode::empty())?;
        write_all(file.body(), content)?;
        file.body().sync_all()
    }
}

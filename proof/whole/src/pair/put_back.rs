// SPDX-License-Identifier: Apache-2.0
//! A member restored from a backup: while the daemon does not run, the operator replaces a member, bytes and stamp, with an earlier image.
//! No client may read anything of it, and nothing of it may be copied to another member. If the node refuses the group, the operator
//! puts the newest image back, as the hint says.
//!
//! A backup is restored only if every metadata file proves that it is too old: its stamp is earlier than that of every current member.

use super::act::Order;
use super::luck::STARTS;
use super::node::{Node, write_all};
use super::older::{FOLDER, SECOND, found};
use super::run::Run;
use super::watch::Until;
use crate::coverage::Met;
use helio_disk::STAMP;
use helio_driver::{Errno, Machine, Mode, OFlags};
use helio_format::epochs::{STAMP_BYTES, Stamp};
use helio_format::members::CopyHealth;
use helio_ledger::Ledger;
use helio_units::Moment;
use std::path::PathBuf;

/// A member of a group at a moment.
#[derive(Clone, Debug)]
struct Image {
    group: usize,
    path: PathBuf,
    content: Vec<u8>,
    stamp: [u8; STAMP_BYTES],
}

/// What an operator has of the members of a node.
#[derive(Debug, Default)]
pub(crate) struct Images {
    /// A backup.
    kept: Option<Image>,
    /// The backup replaces the member at the next start at which the metadata proves that it is too old.
    restores: bool,
    /// What backups replaced, until the node serves the group again.
    newest: Vec<Image>,
    /// The group whose newest images are put back before the next start.
    returns: Option<usize>,
}

impl Images {
    /// Whether the backup is to be restored while the daemon does not run.
    pub(super) const fn restore(&mut self, wanted: bool) {
        self.restores = wanted;
    }

    /// The newest images of a group are to be put back before the next start.
    pub(super) const fn return_newest(&mut self, group: usize) {
        self.returns = Some(group);
    }

    /// Whether a member of the group may be an earlier image that no daemon has judged.
    pub(super) fn is_unjudged(&self, group: usize) -> bool {
        self.newest.iter().any(|it| it.group == group)
    }

    /// The node serves these groups: it has judged their members.
    pub(super) fn judged(&mut self, is_served: impl Fn(usize) -> bool) {
        self.newest.retain(|it| !is_served(it.group));
    }
}

impl Node {
    /// What a member is now; none if it has no stamp.
    fn image(&self, group: usize, path: PathBuf) -> Option<Image> {
        let content = self.machine.content(&path).ok()?;
        let file = self.machine.open(&path, OFlags::RDONLY, Mode::empty()).ok()?;
        let mut stamp = [0; STAMP_BYTES];
        let length = file.body().attribute(STAMP, &mut stamp).ok()?;
        (length == STAMP_BYTES).then_some(Image { group, path, content, stamp })
    }

    /// Puts an image in the place of a member. What is there in part has no stamp.
    fn put(&self, image: &Image) -> Result<(), Errno> {
        let file = self.machine.open(&image.path, OFlags::RDWR, Mode::empty())?;
        match file.body().remove_attribute(STAMP) {
            Ok(()) | Err(Errno::NODATA) => file.body().sync_all()?,
            Err(errno) => return Err(errno),
        }
        write_all(file.body(), &image.content)?;
        file.body().sync_all()?;
        file.body().set_attribute(STAMP, &image.stamp)?;
        file.body().sync_all()
    }

    /// The metadata files of a group that exist; none if one of them is not valid.
    fn ledgers(&self, group: &str) -> Option<Vec<Ledger>> {
        let paths = [FOLDER, SECOND].map(|it| PathBuf::from(format!("{it}/{group}.meta")));
        let contents = paths.iter().filter_map(|path| self.machine.content(path).ok());
        contents.map(|bytes| Some(found(&bytes, (group, self.name))?.0)).collect()
    }

    /// Whether every metadata file of a group proves that an image is none of its members.
    fn notices(&self, group: &str, image: &Image) -> bool {
        let Some(stamp) = Stamp::decode(&image.stamp, helio_link::checksum) else { return false };
        let ledgers = self.ledgers(group).unwrap_or_default();
        !ledgers.is_empty() && ledgers.iter().all(|ledger| notices(ledger, &stamp))
    }
}

/// Whether no member of its volume may have that stamp.
fn notices(ledger: &Ledger, stamp: &Stamp) -> bool {
    let at = usize::from(stamp.volume.0);
    let (Some(epochs), Some(members)) = (ledger.epochs().volumes.get(at), ledger.members().get(at))
    else {
        return false;
    };
    let proves = epochs.carried.iter().zip(members).all(|(carried, entry)| {
        // All of such a member is copied or compared, whatever its stamp.
        let is_copied =
            entry.is_none_or(|it| matches!(it.health, CopyHealth::Unproven | CopyHealth::Failed));
        is_copied || carried.is_some_and(|it| it.first() > stamp.epoch)
    });
    proves && ledger.epochs().set == Some(stamp.set)
}

impl Run {
    /// A node is about to start: the operator replaces what is to be replaced.
    pub(super) fn exchange_images(&mut self, node: usize) {
        self.put_newest_back(node);
        if self.nodes[node].images.restores {
            self.restore_backup(node);
        }
    }

    /// Sometimes makes a backup of a member. The daemon may run.
    pub(super) fn make_backup(&mut self, node: usize) {
        let now = self.world.now().since(Moment::ZERO).as_nanos() as u64;
        let mut dice = self.world.dice(self.nodes[node].name).split_nth("backup", now);
        let (group, path) = self.a_member_of_a_group(node, &mut dice);
        let images = &self.nodes[node].images;
        let stays = images.restores || dice.chance(3, 4);
        if images.is_unjudged(group) || images.kept.is_some() && stays {
            return;
        }
        let image = self.nodes[node].image(group, path);
        self.nodes[node].images.kept = image;
    }

    /// The backup replaces the member, if the metadata proves that it is too old.
    fn restore_backup(&mut self, node: usize) {
        let it = &self.nodes[node];
        let Some(backup) = it.images.kept.clone() else { return };
        let Image { group, ref path, .. } = backup;
        let name = self.groups[group].shape.name;
        if it.images.is_unjudged(group) || !it.notices(name, &backup) {
            return;
        }
        let Some(newest) = it.image(group, path.clone()) else { return };
        let put = it.put(&backup);
        self.world.tell(format_args!(
            "{}: {} is restored from a backup: {put:?}",
            it.name,
            path.display()
        ));
        let images = &mut self.nodes[node].images;
        images.newest.push(newest);
        (images.kept, images.restores) = (None, false);
        if put.is_ok() {
            self.fire(Order::RestoreBackup);
            let starts = Until::Passed(self.world.now() + STARTS);
            self.follow(Met::Order(Order::RestoreBackup), starts);
        }
    }

    fn put_newest_back(&mut self, node: usize) {
        let Some(group) = self.nodes[node].images.returns.take() else { return };
        let it = &mut self.nodes[node];
        let (ours, others) = std::mem::take(&mut it.images.newest)
            .into_iter()
            .partition(|image| image.group == group);
        it.images.newest = others;
        let ours: Vec<Image> = ours;
        for image in ours {
            let (put, path) = (it.put(&image), image.path.display());
            self.world.tell(format_args!("{}: the newest {path} is put back: {put:?}", it.name));
            if put.is_err() {
                it.images.newest.push(image);
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! One attached volume on this machine: its mounted file, the loop device on it, its stable name. Everything here may
//! wait for the kernel.

use super::Name;
use crate::blocking::blocking;
use crate::patience::once_let_go_within;
use crate::platform::Platform;
use helio_attach::{AttachError, Channel, Kernel, LoopDevice, Mount, Shape, Used, User};
use helio_driver::{Host, Mode};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long udev and its like may look at a device that is to go; measured in tenths of a second.
const LOOKED_AT: Duration = Duration::from_secs(10);

/// Where things are.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// The folder of mounted files.
    pub(super) files: PathBuf,
    /// The folder of stable names.
    pub(super) links: PathBuf,
    pub(super) platform: Platform,
}

impl Places {
    pub(super) fn file(&self, (group, volume): &Name) -> PathBuf {
        self.files.join(group).join(volume)
    }

    /// Where NBD clients connect.
    pub(super) fn nbd_socket(&self) -> PathBuf {
        self.files.with_file_name("nbd.sock")
    }

    /// Runs what may wait for the kernel, which may wait for our own shard, on another thread.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let done = blocking(&self.platform.host, work).await;
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    pub(super) fn link(&self, (group, volume): &Name) -> PathBuf {
        self.links.join(group).join(volume)
    }
}

/// One attached volume.
#[derive(Debug)]
pub(super) struct Device {
    places: Places,
    mount: Mount,
    node: Option<(LoopDevice, PathBuf)>,
    /// Why there is only the file.
    note: Option<String>,
}

/// What of one is shown.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// What to use.
    pub(super) path: PathBuf,
    pub(super) node: Option<PathBuf>,
    pub(super) file: Option<PathBuf>,
    pub(super) numbers: Option<String>,
    pub(super) note: Option<String>,
    pub(super) platform: Platform,
}

impl Shown {
    pub(super) fn users(&self) -> Vec<User> {
        self.platform.kernel.users_of(&[self.used()]).into_iter().flatten().collect()
    }

    /// What its users have open or mounted.
    pub(super) fn used(&self) -> Used<'_> {
        let paths = [Some(&self.path), self.node.as_ref(), self.file.as_ref()];
        let paths = paths.into_iter().flatten().map(PathBuf::as_path).collect();
        Used { paths, numbers: self.numbers.as_deref() }
    }

    /// Who is in the way of taking it away: not udev, which looks at whatever was unmounted and is gone soon, and its like.
    pub(super) fn in_the_way(&self) -> Vec<User> {
        let nobody = || match self.users() {
            users if users.is_empty() => Ok(()),
            users => Err(users),
        };
        let looked_at = |users: &Vec<User>| users.iter().all(User::only_looks);
        once_let_go_within(&self.platform.host, LOOKED_AT, nobody, looked_at)
            .err()
            .unwrap_or_default()
    }
}

/// Who they are, if there is anybody.
pub(super) fn told(users: &[User]) -> Option<String> {
    let users: Vec<String> = users.iter().map(ToString::to_string).collect();
    if users.is_empty() { None } else { Some(users.join(", ")) }
}

/// Mounts the file of a volume.
pub(super) fn mount(
    places: &Places,
    group: &str,
    volume: &str,
) -> Result<(Mount, Channel), AttachError> {
    let file = places.file(&(group.to_owned(), volume.to_owned()));
    let folder = file.parent().unwrap_or(&places.files);
    let Platform { host, kernel } = &places.platform;
    let made = host.make_folders(folder, Mode::RWXU);
    made.map_err(|errno| AttachError::Io { path: folder.to_owned(), error: errno.into() })?;
    let mounted = kernel.mount(&file, &format!("{group}/{volume}"));
    if mounted.is_err() {
        remove_folder(host, Some(folder));
    }
    mounted
}

/// Takes a file away whoever has it open.
pub(super) fn unmount(places: &Places, mount: Mount) {
    let (Platform { host, kernel }, file) = (&places.platform, mount.path().to_owned());
    match kernel.unmount(mount, true) {
        Ok(()) => remove_folder(host, file.parent()),
        Err((_, error)) => {
            tracing::warn!(file = %file.display(), %error, "cannot be unmounted");
        }
    }
}

impl Device {
    /// Makes the block device on a mounted file that is being served, where that is allowed, and its name. Another program may have
    /// detached the loop device of another volume, whose number is this one's now: the name of that volume must not lead here.
    pub(super) fn new(
        places: &Places,
        (name, all): (&Name, &[Name]),
        mount: Mount,
        shape: Shape,
    ) -> Result<Self, (Mount, AttachError)> {
        let node =
            match places.platform.kernel.loop_device(mount.path(), shape.block, shape.read_only) {
                Ok(node) => node,
                Err(error @ AttachError::NoLoop { .. }) => {
                    let note = Some(format!("{error}; the file can be used directly"));
                    return Ok(Self { places: places.clone(), mount, node: None, note });
                }
                Err(error) => return Err((mount, error)),
            };
        for other in all.iter().filter(|other| *other != name) {
            places.platform.kernel.remove_name(&places.link(other), node.path());
        }
        let link = places.link(name);
        match places.platform.kernel.make_name(&link, node.path()) {
            Ok(()) => {
                let (places, node) = (places.clone(), Some((node, link)));
                Ok(Self { places, mount, node, note: None })
            }
            Err(error) => {
                abandon(&*places.platform.kernel, &node);
                Err((mount, AttachError::Io { path: link, error }))
            }
        }
    }

    /// What to use.
    pub(super) fn path(&self) -> &Path {
        self.node.as_ref().map_or(self.mount.path(), |(_, link)| link)
    }

    pub(super) fn clone_for_show(&self) -> Shown {
        let node = self.node.as_ref().map(|(node, _)| node);
        Shown {
            path: self.path().to_owned(),
            node: node.map(|node| node.path().to_owned()),
            file: Some(self.mount.path().to_owned()),
            numbers: node.and_then(|node| self.places.platform.kernel.numbers(node.path()).ok()),
            note: self.note.clone(),
            platform: self.places.platform.clone(),
        }
    }

    /// Others may give a loop device free as well. Its number is anybody's then, and must not keep the volume's name.
    pub(super) fn lost(&self) -> Option<String> {
        let kernel = &self.places.platform.kernel;
        let (node, _) = self.node.as_ref().filter(|(node, _)| !kernel.has_loop(node))?;
        Some(format!("{} was detached by another program", node.path().display()))
    }

    /// Removes an attached device after `settle` flushed it and released its loop device.
    ///
    /// Only users of the file count: another program may have taken the loop device's number since.
    ///
    /// # Errors
    /// The device, and the users that keep it.
    pub(super) fn give_free(mut self) -> Result<(), (Self, String)> {
        let Platform { host, kernel } = self.places.platform.clone();
        if let Some((node, link)) = &self.node {
            // Programs that look at every device that changes have it open for moments.
            let there = || if kernel.has_loop(node) { Err(()) } else { Ok(()) };
            if once_let_go_within(&host, LOOKED_AT, there, |()| true).is_err() {
                let why = told(&self.clone_for_show().users());
                let why = why.unwrap_or_else(|| {
                    String::from("open in a process that this daemon cannot see")
                });
                return Err((self, why));
            }
            kernel.remove_name(link, node.path());
            self.node = None;
        }
        if let Some(why) = told(&self.clone_for_show().in_the_way()) {
            self.note = Some(String::from("its block device was already removed; detach it again"));
            return Err((self, why));
        }
        let folder = self.mount.path().parent().map(Path::to_owned);
        let note = self.note.take();
        match kernel.unmount(self.mount, false) {
            Ok(()) => {
                remove_folder(&host, folder.as_deref());
                Ok(())
            }
            Err((mount, error)) => {
                let why = format!("{}: {error}", mount.path().display());
                Err((Self { places: self.places, mount, node: None, note }, why))
            }
        }
    }

    /// Takes it away whoever uses it: his requests fail from now on, and the loop device goes with its last user.
    pub(super) fn abandon(self) {
        let kernel = &*self.places.platform.kernel;
        if let Some((node, link)) = &self.node {
            // The name goes last: it may be all that leads the next process to a device whose file was unmounted.
            abandon(kernel, node);
            kernel.remove_name(link, node.path());
        }
        unmount(&self.places, self.mount);
    }
}

fn abandon(kernel: &dyn Kernel, node: &LoopDevice) {
    if let Err(error) = kernel.abandon(node) {
        tracing::warn!(device = %node.path().display(), %error, "cannot be detached");
    }
}

/// Clears away what a daemon left behind that died.
pub(super) fn clear(places: &Places, names: impl Iterator<Item = Name>) {
    let kernel = &*places.platform.kernel;
    let mut nodes = kernel.loops_below(&places.files);
    let mut linked = Vec::new();
    for link in names.map(|name| places.link(&name)) {
        let Some(target) = kernel.named(&link) else { continue };
        // If another program unmounted a file with a long path, only our name leads to its device.
        let hidden = LoopDevice::hidden(target.clone());
        let found = nodes.iter().any(|node| node.path() == target);
        if !found && kernel.has_loop(&hidden) {
            nodes.push(hidden);
        } else if !found {
            continue;
        }
        linked.push((link, target));
    }
    for node in nodes {
        let numbers = kernel.numbers(node.path()).ok();
        let used = kernel.users(&[node.path()], numbers.as_deref());
        abandon(kernel, &node);
        if !used.is_empty() {
            let used: Vec<String> = used.iter().map(ToString::to_string).collect();
            tracing::warn!(
                device = %node.path().display(), used = used.join(", "),
                "a device of the previous daemon only returns errors; unmount it, then it is removed"
            );
        }
    }
    // The names go last: a process that dies before that leaves them to the next one.
    linked.iter().for_each(|(link, target)| kernel.remove_name(link, target));
    match kernel.mounts_below(&places.files) {
        Ok(mounts) => mounts.into_iter().for_each(|mount| unmount(places, mount)),
        Err(error) => tracing::warn!(%error, "stale mounts could not be listed"),
    }
}

/// Removes a group's folder, once it is empty.
fn remove_folder(host: &Host, folder: Option<&Path>) {
    if let Some(folder) = folder {
        let _others_are_there = host.remove_folder(folder);
    }
}

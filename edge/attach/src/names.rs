// SPDX-License-Identifier: Apache-2.0
//! Stable names of devices: symbolic links in a folder of their group.

use crate::loopdev::HIDDEN;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What is behind the device that a stable name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behind {
    /// There is no such device, or nothing uses it.
    Nothing,
    /// A loop device on this file.
    File(PathBuf),
    /// A device of a kind that does not show whose it is.
    Device,
}

/// Makes one. One that leads to another device is replaced if [`refusal`] permits it.
pub(crate) fn make(name: &Path, device: &Path, behind: impl Fn(&Path) -> Behind) -> io::Result<()> {
    if let Some(folder) = name.parent() {
        fs::create_dir_all(folder)?;
    }
    match fs::read_link(name) {
        Ok(other) => {
            let behind = if other == device { Behind::Nothing } else { behind(&other) };
            if let Some(error) = refusal(name, &other, &behind) {
                return Err(error);
            }
            fs::remove_file(name)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(_) => return Err(io::Error::other("is not a link of Heliograph; remove it")),
    }
    symlink(device, name)
}

/// Why a name that leads to `other` cannot be given to another device. A loop device on a file of another program is no reason: the number was
/// free again, and that program took it.
#[must_use]
pub fn refusal(name: &Path, other: &Path, behind: &Behind) -> Option<io::Error> {
    let volume =
        |path: &Path| Some((path.parent()?.file_name()?.to_owned(), path.file_name()?.to_owned()));
    let is_kept = match behind {
        Behind::Nothing => false,
        // The file of the same group and volume, or one that the kernel hides.
        Behind::File(file) => file == Path::new(HIDDEN) || volume(file) == volume(name),
        Behind::Device => true,
    };
    let other = other.display();
    let text = format!(
        "is already the name of {other}, which is in use; remove the link if {other} is another program's"
    );
    is_kept.then(|| io::Error::other(text))
}

/// Removes one if it leads to that device, and the folder of its group with the last one.
pub(crate) fn remove(name: &Path, device: &Path) {
    if target(name).as_deref() != Some(device) {
        return;
    }
    // Another program may have removed it, and other volumes may have their names in the folder.
    let _already_gone = fs::remove_file(name);
    let _others_are_there = name.parent().map(fs::remove_dir);
}

/// The device that one leads to.
pub(crate) fn target(name: &Path) -> Option<PathBuf> {
    fs::read_link(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_replaced_unless_the_volume_may_still_use_its_device() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("db/data");
        let [first, other] = ["/dev/loop1", "/dev/loop2"].map(Path::new);
        let on = |file: &'static str| move |_: &Path| Behind::File(PathBuf::from(file));
        make(&name, first, on("/run/attach/db/data")).expect("the name is free");
        assert_eq!(target(&name).as_deref(), Some(first));
        make(&name, first, on("/run/attach/db/data")).expect("it has that name already");
        for behind in ["/run/attach/db/data", "/"] {
            let refused = make(&name, other, on(behind)).expect_err("the first one is in use");
            assert!(refused.to_string().contains("/dev/loop1"), "{refused}");
        }
        make(&name, other, |_| Behind::Device).expect_err("its owner is unknown");
        for behind in ["/images/other.img", "/run/attach/db/log", "/data"] {
            make(&name, other, on(behind)).expect("another program's");
            make(&name, first, |_| Behind::Nothing).expect("gone");
        }
        assert_eq!(target(&name).as_deref(), Some(first));
    }

    #[test]
    fn a_name_is_removed_with_its_device_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("db/data");
        let [ours, other] = ["/dev/loop1", "/dev/loop2"].map(Path::new);
        make(&name, ours, |_| Behind::Nothing).expect("the name is free");
        remove(&name, other);
        assert_eq!(target(&name).as_deref(), Some(ours));
        remove(&name, ours);
        assert_eq!((target(&name), name.parent().map(Path::exists)), (None, Some(false)));
    }

    #[test]
    fn a_file_with_the_name_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("data");
        fs::write(&name, "something else").expect("written");
        assert!(make(&name, Path::new("/dev/loop1"), |_| Behind::Nothing).is_err());
        assert!(name.exists());
    }
}

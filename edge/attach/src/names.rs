// SPDX-License-Identifier: Apache-2.0
//! Stable names of devices: symbolic links in a folder of their group.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Makes one. One that is there already may be replaced if its device is not in use.
pub(crate) fn make(name: &Path, device: &Path, in_use: impl Fn(&Path) -> bool) -> io::Result<()> {
    if let Some(folder) = name.parent() {
        fs::create_dir_all(folder)?;
    }
    match fs::read_link(name) {
        Ok(other) if other != device && in_use(&other) => {
            return Err(taken(&other));
        }
        Ok(_) => fs::remove_file(name)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(_) => return Err(io::Error::other("is not a link of Heliograph; remove it")),
    }
    symlink(device, name)
}

/// Why a name cannot be given to a device: it leads to another one that is in use.
#[must_use]
pub fn taken(other: &Path) -> io::Error {
    let other = other.display();
    io::Error::other(format!(
        "is already the name of {other}, which is in use; remove the link if {other} is another program's"
    ))
}

/// Whether a loop device on that file may be the volume's with that name: the file has the same group and volume, or
/// the kernel hides which one it was.
#[must_use]
pub fn may_be_of(name: &Path, file: &Path) -> bool {
    let volume =
        |path: &Path| Some((path.parent()?.file_name()?.to_owned(), path.file_name()?.to_owned()));
    file == Path::new(crate::loopdev::HIDDEN) || volume(file) == volume(name)
}

/// Removes one, and the folder of its group with the last one.
pub(crate) fn remove(name: &Path) {
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
    fn a_name_is_replaced_only_if_its_device_is_not_in_use() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("db/data");
        let [first, other] = ["/dev/loop1", "/dev/loop2"].map(Path::new);
        make(&name, first, |_| true).expect("the name is free");
        assert_eq!(target(&name).as_deref(), Some(first));
        make(&name, first, |_| true).expect("it has that name already");
        let refused = make(&name, other, |_| true).expect_err("the first one is in use");
        assert!(refused.to_string().contains("/dev/loop1"), "{refused}");
        make(&name, other, |_| false).expect("the first one is gone");
        assert_eq!(target(&name).as_deref(), Some(other));
        remove(&name);
        assert_eq!((target(&name), name.parent().map(Path::exists)), (None, Some(false)));
    }

    #[test]
    fn a_loop_device_on_another_programs_file_is_not_the_volumes() {
        let name = Path::new("/dev/heliograph/db/data");
        let may_be = |file: &str| may_be_of(name, Path::new(file));
        assert!(may_be("/run/heliograph/attach/db/data") && may_be("/"));
        assert!(!may_be("/images/other.img") && !may_be("/run/heliograph/attach/db/log"));
        assert!(!may_be("/data"));
    }

    #[test]
    fn a_file_with_the_name_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("data");
        fs::write(&name, "something else").expect("written");
        assert!(make(&name, Path::new("/dev/loop1"), |_| false).is_err());
        assert!(name.exists());
    }
}

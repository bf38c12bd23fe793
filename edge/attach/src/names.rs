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
            let text = format!("is already the name of {}, which is in use", other.display());
            return Err(io::Error::other(text));
        }
        Ok(_) => fs::remove_file(name)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(_) => return Err(io::Error::other("is not a link of Heliograph; remove it")),
    }
    symlink(device, name)
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
    fn a_file_with_the_name_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("data");
        fs::write(&name, "something else").expect("written");
        assert!(make(&name, Path::new("/dev/loop1"), |_| false).is_err());
        assert!(name.exists());
    }
}

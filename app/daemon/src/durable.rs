// SPDX-License-Identifier: Apache-2.0
//! Small files that are replaced as a whole and durably: after a crash there is the old content or the new one.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Replaces a file that only its owner reads and writes, or creates it.
///
/// # Errors
/// The file system refuses. The old content is then still there, unless only the sync of the directory failed.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, bytes, Permissions::from_mode(0o600))
}

/// The same with other permissions.
///
/// # Errors
/// As for [`replace`].
pub(crate) fn replace_with(path: &Path, bytes: &[u8], permissions: Permissions) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.set_permissions(permissions)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_keeps_its_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("db.verify");
        replace(&path, b"one").expect("room");
        replace_with(&path, b"two", Permissions::from_mode(0o640)).expect("room");
        assert_eq!(fs::read(&path).expect("it is there"), b"two");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left");
        // A directory of that name takes the place of a full disk.
        fs::create_dir(folder.path().join("db.verify.new")).expect("room");
        replace(&path, b"three").expect_err("there is no place for it");
        assert_eq!(fs::read(&path).expect("it is there"), b"two", "the old content stays");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Small files that are replaced as a whole and durably: after a crash there is the old content or the new one.

use helio_driver::{Host, Mode, OFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::Path;

/// What its owner may do with such a file.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Replaces a file that only its owner reads and writes, or creates it.
///
/// # Errors
/// The file system refuses. The old content is then still there, unless only the sync of the directory failed.
pub(crate) fn replace(host: &Host, path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(host, path, bytes, PRIVATE)
}

/// The same with other permissions.
///
/// # Errors
/// As for [`replace`].
pub(crate) fn replace_with(host: &Host, path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let file = host.open(&new, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC, PRIVATE)?;
    file.body().set_mode(mode)?;
    file.write_all_at(bytes, 0)?;
    file.sync_all()?;
    host.rename(&new, path)?;
    path.parent().map_or(Ok(()), |folder| host.sync_folder(folder))
}

/// Reads the JSON that [`keep`] wrote. One that cannot be read counts as missing, with a warning in the log.
pub(crate) fn load<T: DeserializeOwned>(host: &Host, path: &Path, what: &str) -> Option<T> {
    let text = match host.read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "{what} cannot be read");
            return None;
        }
    };
    let read = serde_json::from_slice(&text);
    read.inspect_err(|error| {
        tracing::warn!(file = %path.display(), %error, "{what} cannot be read and are discarded");
    })
    .ok()
}

/// Replaces a file by the JSON of a value.
///
/// # Errors
/// As for [`replace`].
pub(crate) fn keep(host: &Host, path: &Path, value: &impl Serialize) -> io::Result<()> {
    replace(host, path, &serde_json::to_vec_pretty(value)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_driver::Linux;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_keeps_its_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("db.verify");
        let host = Linux::host();
        replace(&host, &path, b"one").expect("room");
        replace_with(&host, &path, b"two", Mode::from_raw_mode(0o640)).expect("room");
        assert_eq!(fs::read(&path).expect("it is there"), b"two");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left");
        // A directory of that name takes the place of a full disk.
        fs::create_dir(folder.path().join("db.verify.new")).expect("room");
        replace(&host, &path, b"three").expect_err("there is no place for it");
        assert_eq!(fs::read(&path).expect("it is there"), b"two", "the old content stays");
    }
}

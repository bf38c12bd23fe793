// SPDX-License-Identifier: Apache-2.0
//! Files that a verb makes at its end: looked at before its work begins, and never put in the place of somebody else's.

use crate::failure::{failed, unwritable};
use anyhow::{Result, bail};
use helio_units::shell_word;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Refuses a path where nothing can be made, or something is.
pub(crate) fn check(file: &Path, option: &str) -> Result<()> {
    check_ours(file, option, None)
}

/// The same, but for an earlier file of ours, which begins so.
pub(crate) fn check_ours(file: &Path, option: &str, head: Option<&str>) -> Result<()> {
    let shown = file.display();
    // Not all of it: it may be a device.
    let begin = |head: &str| -> std::io::Result<bool> {
        let mut found = Vec::new();
        fs::File::open(file)?.take(head.len() as u64).read_to_end(&mut found)?;
        Ok(!head.is_empty() && found == head.as_bytes())
    };
    match begin(head.unwrap_or_default()) {
        Ok(true) => {}
        Ok(false) => {
            bail!("{shown} exists and is not replaced\n  hint: name another file for {option}")
        }
        Err(why) if why.kind() == ErrorKind::NotFound => {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            if !folder.is_dir() {
                let (folder, word) = (folder.display(), shell_word(&folder.to_string_lossy()));
                bail!(
                    "directory {folder} does not exist\n  hint: `mkdir {word}`, or name another file for {option}"
                );
            }
        }
        Err(why) => {
            let hint = format!("name another file for {option}");
            return Err(failed(format!("cannot write {shown}"), hint)(why));
        }
    }
    Ok(())
}

/// Makes the file and syncs its content, but not its directory; what could not be written whole is not left there.
pub(crate) fn write(file: &Path, text: &str) -> Result<()> {
    let made = OpenOptions::new().write(true).create_new(true).open(file);
    let mut made = made.map_err(unwritable(file))?;
    let written = made.write_all(text.as_bytes()).and_then(|()| made.sync_all());
    if written.is_err() {
        // What is wrong is said; that its beginning could not be removed either adds nothing.
        let _left = fs::remove_file(file);
    }
    written.map_err(unwritable(file))
}

/// Makes it, in the place of an earlier one of ours, which stays until there is a new one.
pub(crate) fn replace(file: &Path, option: &str, head: &str, text: &str) -> Result<()> {
    check_ours(file, option, Some(head))?;
    if !file.exists() {
        return write(file, text);
    }
    let new = beside(file);
    write(&new, text)?;
    let replaced = fs::rename(&new, file);
    if replaced.is_err() {
        let _left = fs::remove_file(&new);
    }
    replaced.map_err(unwritable(file))
}

/// A name that no other process has, so that what one that was killed has left is in nobody's way.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    file.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_whole_is_not_left_there() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("page");
        replace(&file, "--html", "<!", "<!one").expect("there is nothing");
        replace(&file, "--html", "<!", "<!two").expect("it is ours");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "<!two");
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 1, "and nothing beside it");
        // A folder of that name takes the place of a disk without room.
        fs::create_dir(beside(&file)).expect("it can be made");
        replace(&file, "--html", "<!", "<!three").expect_err("there is no place for it");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "<!two", "the old one stays");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Paths in commands that a person runs as printed.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

/// A path as one word for a shell: quoted unless every character stands for itself.
#[must_use]
pub fn shell_word(path: &str) -> String {
    let short = path.strip_prefix("./").filter(|rest| !rest.starts_with('-'));
    let path = short.unwrap_or(path);
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%".contains(c);
    if !path.is_empty() && path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_whatever_is_in_it() {
        for (path, word) in [
            ("/srv/db.img", "/srv/db.img"),
            ("./db", "db"),
            ("./-x", "./-x"),
            ("/mnt/my disk", "'/mnt/my disk'"),
            ("~/it's", r"'~/it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(path), word, "{path}");
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The name of a point-in-time copy.

use core::fmt;

/// The name of a point-in-time copy: 1 to 63 bytes, each an ASCII letter or digit, or one of `-`, `_`, `.` and `:` behind the first; and
/// not `safe-copy`, and not ending in `:rw`, which names a branch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyName {
    length: u8,
    bytes: [u8; Self::BYTES_MAX],
}

impl CopyName {
    /// Most bytes of a name.
    pub const BYTES_MAX: usize = 63;

    /// What the safe copy of a resync is called. It is no name that an operator can give.
    pub const SAFE_COPY: &str = "safe-copy";
    /// What follows the name of a copy where its branch is meant.
    pub const BRANCH: &str = ":rw";

    /// The name of these bytes, if they are one.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let may = |(at, byte): (usize, &u8)| {
            byte.is_ascii_alphanumeric() || at > 0 && b"-_.:".contains(byte)
        };
        let fits = (1..=Self::BYTES_MAX).contains(&name.len());
        let reserved = name == Self::SAFE_COPY || name.ends_with(Self::BRANCH);
        if !fits || reserved || !name.as_bytes().iter().enumerate().all(may) {
            return None;
        }
        let mut bytes = [0; Self::BYTES_MAX];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Some(Self { length: name.len() as u8, bytes })
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Display for CopyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for CopyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;

    #[test]
    fn a_name_has_letters_and_digits_and_few_other_bytes_behind_the_first() {
        for name in ["a", "2026-11-27T10:00:00", "before_upgrade.1", &"x".repeat(63)] {
            assert_eq!(CopyName::new(name).expect("a name").to_string(), name);
        }
        for name in [
            "daily:rw",
            "",
            "-a",
            ".",
            "a b",
            "a/b",
            "a@b",
            "é",
            CopyName::SAFE_COPY,
            &"x".repeat(64),
        ] {
            assert_eq!(CopyName::new(name), None, "{name}");
        }
    }
}

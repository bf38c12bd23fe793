// SPDX-License-Identifier: Apache-2.0
//! Refusals that point into the file.

use std::fmt;

/// A place in the file, both counted from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// Why the file was refused. Prints as `file:line:column: message`, then the hint on a line of its own. The
/// same file is refused again, so a retry never helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file.
    pub file: String,
    /// Where in it; none where the whole file is meant.
    pub place: Option<Place>,
    /// The error and its cause.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(Place { line, column }) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}\n  hint: {}", self.message, self.hint)
    }
}

impl std::error::Error for ConfigError {}

/// The text being read and its name in messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// A refusal that points at byte `at`.
    pub(super) fn refuse(
        &self,
        at: usize,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> ConfigError {
        ConfigError {
            file: self.file.to_owned(),
            place: Some(self.place(at)),
            message: message.into(),
            hint: hint.into(),
        }
    }

    fn place(&self, at: usize) -> Place {
        let before = self.text.get(..at).unwrap_or(self.text);
        let (line, rest) = match before.rfind('\n') {
            Some(end) => (before.matches('\n').count() + 1, &before[end + 1..]),
            None => (1, before),
        };
        Place { line, column: rest.chars().count() + 1 }
    }
}

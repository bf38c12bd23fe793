// SPDX-License-Identifier: Apache-2.0
//! Why something was not done, in words that name the culprit and the hint.

use alloc::format;
use alloc::string::String;
use core::fmt;

/// How a store failed, as it reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// The device cannot read or write there (EIO).
    Io,
    /// The file system is full (ENOSPC).
    NoSpace,
    /// Fewer bytes were moved than asked for.
    Short,
    /// Another error number.
    Other(i32),
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io => f.write_str("I/O error (EIO)"),
            Self::NoSpace => f.write_str("no space left on the store (ENOSPC)"),
            Self::Short => f.write_str("the store moved fewer bytes than asked for"),
            Self::Other(errno) => write!(f, "error number {errno} from the store"),
        }
    }
}

/// Why a client's request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// This node is not primary for the group.
    NotPrimary,
    /// It leaves the volume.
    OutOfBounds,
    /// It does not keep to the volume's blocks.
    Unaligned,
    /// The queue is full and its policy says fail.
    QueueFull,
    /// The local store failed.
    Store(StoreFault),
}

/// Why a command was refused. The text names culprit and cause, the hint stands apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One kebab-case word for programs.
    pub code: &'static str,
    /// What is wrong.
    pub text: String,
    /// What to do about it.
    pub hint: String,
    /// Trying again later may succeed.
    pub retry: bool,
}

impl Refusal {
    /// A refusal that waiting does not cure.
    #[must_use]
    pub fn new(code: &'static str, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, text: text.into(), hint: hint.into(), retry: false }
    }

    /// What is wrong with its form, if anything: each text in one line without a full stop, names in place of numbers and
    /// placeholders, and a hint whose commands have their objects. For tests and proofs.
    #[must_use]
    pub fn flaw(&self) -> Option<String> {
        let Self { code, text, hint, .. } = self;
        let word = |c: char| c.is_ascii_lowercase() || c == '-';
        if code.is_empty() || !code.chars().all(word) {
            return Some(format!("`{code}` is no word of small letters and hyphens"));
        }
        let of_text = |(name, part): (&str, &String)| {
            let fault = flaw_of(part)?;
            Some(format!("the {name} of {code} {fault}: {part}"))
        };
        [("text", text), ("hint", hint)].into_iter().find_map(of_text).or_else(|| {
            let mut commands = hint.split('`').skip(1).step_by(2);
            let objects = |c: &str| c.split(' ').filter(|word| !word.starts_with('-')).count() > 2;
            let bare = |c: &&str| c.starts_with("helio ") && *c != "helio status" && !objects(c);
            commands
                .find(bare)
                .map(|command| format!("`{command}` in the hint of {code} has no object"))
        })
    }

    /// A refusal that waiting may cure.
    #[must_use]
    pub fn later(code: &'static str, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { retry: true, ..Self::new(code, text, hint) }
    }
}

/// What is wrong with the form of one text.
fn flaw_of(text: &str) -> Option<&'static str> {
    let placeholder =
        |name: &&str| text.split(|c: char| !c.is_ascii_alphanumeric()).any(|w| w == *name);
    if text.trim().is_empty() {
        return Some("is empty");
    }
    if text.ends_with('.') || text.contains("  ") || text.contains('\n') {
        return Some("ends with a full stop, or has two spaces or a line break");
    }
    if text.chars().next().is_some_and(char::is_uppercase) {
        return Some("begins with a capital");
    }
    if text.matches('`').count() % 2 == 1 {
        return Some("has a command without an end");
    }
    let number = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    if text.split("volume ").skip(1).any(number) {
        return Some("names a volume by its number");
    }
    // Of two nodes, the reader chooses one.
    let chosen = |name: &str| name == "NODE" && text.contains("choose");
    if ["GROUP", "NODE", "VOLUME", "PEER"].iter().any(|name| placeholder(name) && !chosen(name)) {
        return Some("has a placeholder where a name belongs");
    }
    None
}

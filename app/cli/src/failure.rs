// SPDX-License-Identifier: Apache-2.0
//! Errors of this program. `anyhow!` and `bail!` take the hint in their text, which tidy checks; these add one to errors
//! of others, or a name to an error that has a hint.

use anyhow::anyhow;
use helio_api::ApiError;
use std::fmt::Display;
use std::io;
use std::path::Path;

/// "what failed: why", with a hint if the reason has none.
pub(crate) fn failed<E: Display>(
    what: impl Display,
    hint: impl Display,
) -> impl FnOnce(E) -> anyhow::Error {
    let (what, hint) = (what.to_string(), hint.to_string());
    move |why| hinted(format!("{what}: {why}"), hint)
}

/// A text with its own hint, or with this one if it has none.
pub(crate) fn hinted(text: String, hint: impl Display) -> anyhow::Error {
    match ApiError::read("failed", &text).hint {
        Some(_) => anyhow!(text),
        None => anyhow!("{text}\n  hint: {hint}"),
    }
}

/// The name of a file or option in front of an error that has its hint.
pub(crate) fn named<E: Display>(name: impl Display) -> impl FnOnce(E) -> anyhow::Error {
    let name = name.to_string();
    move |why| anyhow!("{name}: {why:#}")
}

/// A file that cannot be read.
pub(crate) fn unreadable(file: &Path) -> impl FnOnce(io::Error) -> anyhow::Error {
    let what = format!("cannot read {}", file.display());
    failed(what, "name a file that exists and that this user may read")
}

/// A file that cannot be written.
pub(crate) fn unwritable(file: &Path) -> impl FnOnce(io::Error) -> anyhow::Error {
    let what = format!("cannot write {}", file.display());
    failed(
        what,
        "name a file in a directory that this user may write to, on a disk with free space",
    )
}

// SPDX-License-Identifier: Apache-2.0
//! A flush that fails while a member is opened.
//!
//! It says the same as one that fails later: the store may have dropped what it had not made durable. The kernel reports
//! that once, so the next opening finds a flush that succeeds. The copy is recorded as suspect before anything is served
//! from it; if other processes wrote to the file, theirs are the writes that may be lost, and the record is the same.

use crate::failed;
use crate::offline;
use anyhow::{Error, Result, anyhow};
use helio_driver::File;
use helio_ledger::{Found, Ledger};

/// Records that the copies of these volumes, a bit each, are suspect, as an engine does whose flush fails. Returns what the
/// file says then.
///
/// # Errors
/// The file cannot be written, or read again.
pub(super) fn recorded(
    found: Box<(Ledger, Found)>,
    volumes: u64,
    file: &File,
    read: impl Fn() -> Result<Box<(Ledger, Found)>>,
) -> Result<Box<(Ledger, Found)>> {
    if volumes & !found.1.superblock.suspect == 0 {
        return Ok(found);
    }
    let (ledger, Found { superblock, .. }) = *found;
    let mut record = offline::with_age(&ledger, &superblock);
    record.suspect |= volumes;
    // Everything counts as marked; a record that says seeding proves nothing either.
    record.marks_void |= record.seeding == 0;
    offline::write_superblock(ledger, record, file)?;
    read()
}

/// Why a group cannot be served, of which a flush failed and no record of that could be made.
pub(super) fn unrecorded(error: &Error, why: &Error) -> Error {
    let (error, why) = (format!("{error:#}"), format!("{why:#}"));
    let ((reason, hint), (why, other)) = (failed::in_parts(&error), failed::in_parts(&why));
    let (also, first) = match why == reason {
        true => (String::new(), String::new()),
        false => (format!(": {why}"), format!("{other}; ")),
    };
    anyhow!(
        "{reason}. A flush failed when a member was opened, so acknowledged writes may be missing from this copy, and \
         this cannot be recorded{also}. Only the running daemon has this information\n  hint: {first}{hint}. If the \
         daemon ends before that, do not promote this node before its peer has rewritten the whole copy"
    )
}

// SPDX-License-Identifier: Apache-2.0
//! What stands in the way of an attached volume, as operators are told.

use super::Name;
use super::device::{Shown, told};
use super::record::Record;
use helio_api::{ApiError, code};
use helio_attach::User;
use helio_units::shell_word;
use std::path::Path;

pub(super) fn is_leaving((group, volume): &Name) -> ApiError {
    let text = format!("{group}/{volume} is already being detached");
    let hint = format!(
        "wait for its end; `helio status {group}` shows what writes and flushes wait for. `helio detach {group}/{volume} --force` ends \
         the wait and removes the device; writes that were not flushed may be lost"
    );
    ApiError { retry: true, ..ApiError::new("busy", text, hint) }
}

/// The same where `--force` has ended the wait already.
pub(super) fn still_leaving((group, volume): &Name) -> ApiError {
    let text = format!("{group}/{volume} is still being detached");
    ApiError { retry: true, ..ApiError::new("busy", text, "wait for its end") }
}

pub(super) fn is_arriving((group, volume): &Name) -> ApiError {
    let text = format!("{group}/{volume} is still being attached");
    ApiError { retry: true, ..ApiError::new("busy", text, "wait for its end") }
}

pub(super) fn in_use((group, volume): &Name, device: &Path, why: &str) -> ApiError {
    let text = format!("{group}/{volume}, attached as {}, is in use: {why}", device.display());
    let hint = format!(
        "unmount it or end the processes, then `helio detach {group}/{volume}`; with --force they get I/O errors"
    );
    ApiError::new("in-use", text, hint)
}

/// A device that cannot be flushed, and stays.
pub(super) fn not_flushed((group, volume): &Name, device: &Path, why: &std::io::Error) -> ApiError {
    let text = format!(
        "{group}/{volume}, attached as {}, cannot be flushed and stays attached: {why}",
        device.display()
    );
    let hint = format!(
        "`helio status {group}` shows the cause. `helio detach {group}/{volume} --force` removes the device; writes that were \
         not flushed may be lost"
    );
    ApiError::new("attach-failed", text, hint)
}

/// Volumes that are attached, each with what uses it.
pub(super) fn attached(devices: &[(Name, Shown)]) -> Option<ApiError> {
    let (texts, hints): (Vec<String>, Vec<String>) = devices.iter().map(one_attached).unzip();
    if texts.is_empty() {
        return None;
    }
    let hint = format!("{}, then repeat", hints.join(", "));
    Some(ApiError::new("in-use", texts.join("; "), hint))
}

fn one_attached(((group, volume), shown): &(Name, Shown)) -> (String, String) {
    let users = shown.users();
    let mounts = users.iter().filter_map(|user| match user {
        User::Mounted(place) => {
            Some(format!("`umount {}`, ", shell_word(&place.to_string_lossy())))
        }
        _ => None,
    });
    let hint = format!("{}`helio detach {group}/{volume}`", mounts.collect::<String>());
    let text = format!("{group}/{volume} is attached as {}", shown.path.display());
    (told(&users).map_or(text.clone(), |users| format!("{text} and {users}")), hint)
}

/// A device that could not be made durable.
pub(super) fn not_settled((group, volume): &Name, why: &std::io::Error) -> ApiError {
    let text = format!("{group}/{volume} was removed before all its writes were durable: {why}");
    ApiError::new(
        "attach-failed",
        text,
        "writes that were not flushed may be lost: check the applications that use the volume",
    )
}

pub(super) fn manner(record: &Record) -> String {
    let manner = if record.read_only { "read-only" } else { "read-write" };
    format!("{manner}, via {}", record.via)
}

pub(super) fn failed(error: &std::io::Error) -> ApiError {
    let text =
        format!("the list of attached volumes cannot be written to the state directory: {error}");
    ApiError::new(code::INTERNAL, text, "check the file system of the state directory")
}

pub(super) fn refused(error: helio_attach::AttachError) -> ApiError {
    let hint = "run the daemon as root with access to /dev/fuse, or use the volume over NBD: nbd.sock in the state \
                directory";
    match error {
        helio_attach::AttachError::NoFuse { .. } => {
            ApiError::new("no-fuse", error.to_string(), hint)
        }
        helio_attach::AttachError::NoNbd { .. } => {
            let hint =
                "load the module (`modprobe nbd`) and run the daemon as root, or use --via fuse";
            ApiError::new("no-nbd", error.to_string(), hint)
        }
        helio_attach::AttachError::NoUblk { .. } => {
            let hint = "load the module (`modprobe ublk_drv`, Linux 6.5 or later) and run the daemon as root, or use --via fuse";
            ApiError::new("no-ublk", error.to_string(), hint)
        }
        other => {
            let hint = "correct the named cause and attach again";
            ApiError::new("attach-failed", other.to_string(), hint)
        }
    }
}

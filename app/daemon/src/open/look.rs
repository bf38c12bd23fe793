// SPDX-License-Identifier: Apache-2.0
//! What opening a group would refuse, found by the same judges, with nothing made, changed or held afterwards.

use super::mirror::{self, Places};
use super::state::writable;
use super::{allocate, before, begin, metadata};
use super::{engine_config, is_held, options, take};
use crate::config::{GroupView, NodeView, VolumeConfig};
use crate::patience::once_let_go;
use anyhow::{Result, anyhow, bail};
use helio_disk::Look;
use helio_driver::Linux;
use helio_ledger::Opened;
use helio_units::Bytes;
use std::path::Path;

pub(crate) use super::Others;

/// The deepest folder of a path that exists: whose file system a new file would be on.
pub(crate) fn ground(path: &Path) -> &Path {
    path.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."))
}

/// One of a volume's members.
pub(crate) fn member(
    name: &str,
    config: &VolumeConfig,
    path: &Path,
    others: &mut Others,
) -> Result<Look> {
    let options = options(name, config);
    others.take((name, path))?;
    let look = once_let_go(
        &Linux::host(),
        || helio_disk::look(path, &options, &others.other_users),
        is_held,
    )?;
    Ok(look)
}

/// A group's metadata, or the room for it. Returns what would be allocated.
pub(crate) fn metadata(view: &GroupView<'_>, node: &str, state: &Path) -> Result<Bytes> {
    let engine = engine_config(view, node);
    let places = Places::of(view.name, state, view.node.second_metadata.as_deref());
    if let Some(folder) = &view.node.second_metadata {
        writable(folder).map_err(|errno| {
            anyhow!(
                "{}, the second directory of `metadata`, cannot be used: {}\n  hint: make this directory writable for \
                 the daemon's user, or remove it from `metadata`",
                folder.display(),
                std::io::Error::from(errno)
            )
        })?;
    }
    let found = mirror::look(&places, &engine)?;
    match &found.opened {
        Opened::Found(opened) => {
            metadata::fits(&opened.1.superblock, &engine, &found.shown)?;
            return Ok(Bytes::ZERO);
        }
        // It is converted to a new file.
        Opened::Older(older) => metadata::fits(&older.1.superblock, &engine, &found.shown)?,
        Opened::Fresh => begin::not_lost(&places.first, &engine, &begin::named(view, node))?,
    }
    let bytes = begin::bytes(&engine);
    for path in places.all() {
        if let Err(error) = allocate::room(ground(path), bytes) {
            bail!(allocate::refusal(&path.display().to_string(), bytes, &error));
        }
    }
    Ok(Bytes(bytes))
}

/// A group's before-image file, or the folder where it will be.
pub(crate) fn before_images(view: &GroupView<'_>, state: &Path) -> Result<()> {
    let path = before::place(view.name, state, view.group.safe_copy_dir.as_deref())?;
    if path.symlink_metadata().is_ok() {
        take(&before::file(&path, false)?, &path.display().to_string())?;
    }
    Ok(())
}

/// What a node's own certificates are, if it has some.
pub(crate) fn certificates(view: &NodeView<'_>) -> Result<bool> {
    super::protection(view.node).map(|protection| protection.is_some())
}

// SPDX-License-Identifier: Apache-2.0
//! What opening a group would refuse, found by the same judges, with nothing made, changed or held afterwards.

use super::mirror::{self, Places};
use super::owners::Members;
use super::state::writable;
use super::{allocate, before, begin, metadata};
use super::{engine_config, is_held, options, take};
use crate::config::{GroupView, NodeView, VolumeConfig};
use crate::patience::once_let_go;
use anyhow::{Result, anyhow, bail};
use helio_disk::Look;
use helio_driver::Host;
use helio_ledger::Opened;
use helio_units::Bytes;
use std::collections::BTreeSet;
use std::path::Path;

pub(crate) use super::Others;

/// The deepest folder of a path that exists: whose file system a new file would be on.
pub(crate) fn ground<'a>(host: &Host, path: &'a Path) -> &'a Path {
    path.ancestors().find(|folder| host.is_folder(folder)).unwrap_or(Path::new("."))
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
        others.host(),
        || helio_disk::look(path, &options, &others.other_users),
        is_held,
    )?;
    Ok(look)
}

/// A group's metadata, or the room for it. Returns what would be allocated.
pub(crate) fn metadata(
    host: &Host,
    view: &GroupView<'_>,
    (node, groups): (&str, &BTreeSet<String>),
    state: &Path,
) -> Result<Bytes> {
    let engine = engine_config(view, node);
    let places = Places::of(host, view.name, state, view.node.second_metadata.as_deref());
    if let Some(folder) = &view.node.second_metadata {
        writable(host, folder).map_err(|errno| {
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
        Opened::Fresh => Members::of(host, view, node, groups).not_lost(&places, &engine)?,
    }
    let bytes = begin::bytes(&engine);
    for path in places.all() {
        if let Err(error) = allocate::room(host, ground(host, path), bytes) {
            bail!(allocate::refusal(&path.display().to_string(), bytes, &error));
        }
    }
    Ok(Bytes(bytes))
}

/// A group's before-image file, or the folder where it will be.
pub(crate) fn before_images(host: &Host, view: &GroupView<'_>, state: &Path) -> Result<()> {
    let path = before::place(host, view.name, state, view.group.safe_copy_dir.as_deref())?;
    if host.is_named(&path) {
        take(host, &before::file(host, &path, false)?, &path.display().to_string())?;
    }
    Ok(())
}

/// What a node's own certificates are, if it has some.
pub(crate) fn certificates(host: &Host, view: &NodeView<'_>) -> Result<bool> {
    super::protection(host, view.node).map(|protection| protection.is_some())
}

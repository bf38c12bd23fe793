// SPDX-License-Identifier: Apache-2.0
//! `helio snapshot restore --from`: writes exported images back to the volumes of their group.

use super::export::{ALONE, Progress, Source, print_result};
use super::images::{another_device, complete, differing, unrecorded};
use crate::args::{At, SnapshotName};
use crate::confirm::Consent;
use crate::failure::hinted;
use crate::stopping::{Second, Stopping};
use anyhow::{Result, bail};
use helio_format::exported::{CHUNK_BYTES, ExportRecord};
use helio_image::{Access, CopyPlan, Done, Folder, Image, Store, Target, copy};
use helio_units::Bytes;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

pub(super) fn restore(at: &At, of: SnapshotName, dir: &Path, consent: Consent) -> Result<ExitCode> {
    let folder = Folder::open(dir)?;
    let mut record = named(&folder, &of)?;
    let (group, name) = (record.of.group.clone(), record.of.name.clone());
    let source = Source::of(at, Some(group.clone()))?;
    if !source.shape().eq(record.shape()) {
        bail!(
            "the images in {} are of other volumes than {group} has\n  hint: `helio status {group} -v` shows them",
            dir.display()
        );
    }
    source.check_unused()?;
    let mut doubts = match differing(&record) {
        Bytes::ZERO => Vec::new(),
        changed => vec![format!(
            "the images were changed since the export (up to {changed}); the changed content is restored"
        )],
    };
    let is_changed = !doubts.is_empty();
    let images = open(&folder, &mut record, &mut doubts)?;
    let stake = format!(
        "everything that was written to {group} since snapshot {name} ({}) will be lost; until the command has ended, the volumes hold parts of both",
        record.of.at
    );
    let stake = [vec![stake], doubts].concat().join("; ");
    consent.get(&stake, "overwrite the volumes?")?;
    // Clients may have used the volumes while the question was open. From here on no other client does.
    let source = Source::of(at, Some(group.clone()))?;
    source.check_unused()?;
    let mut alone = source.client(0, ALONE)?;
    add_changes(&source, &mut record)?;
    // Not before it was confirmed: a signal ends a question.
    let stopping = Stopping::catch(Second::Ends)?;
    let plan = record.volumes.iter().map(|volume| CopyPlan {
        size: volume.size,
        chunks: volume.differs.clone(),
        target: Target::Compared,
    });
    let plan: Vec<CopyPlan> = plan.collect();
    let ends = |volume: usize| {
        let target = source.client(volume, ALONE)?;
        Ok((Box::new(Arc::clone(&images[volume])) as _, Box::new(target) as _))
    };
    let (mut progress, mut left) = (Progress::new(differing(&record)), differing(&record));
    let mut settle = |done: &[Done]| {
        let chunks = done.iter().map(|done| done.chunks.end - done.chunks.start).sum::<u64>();
        left = Bytes(left.0.saturating_sub(chunks * CHUNK_BYTES));
        progress.show(left);
        Ok(())
    };
    let copied = copy(&plan, None, stopping.flag(), &ends, &mut settle).and_then(|copied| {
        for volume in 0..plan.len() {
            Store::flush(&mut source.client(volume, ALONE)?)?;
        }
        // It was open all the time, so no other client was let in.
        Store::flush(&mut alone)?;
        Ok(copied)
    });
    drop(progress);
    let parts = format!("the volumes of {group} hold parts of {name} and of what they held");
    let copied = copied.map_err(|why| {
        hinted(format!("{parts}: {why}"), "repeat the command when the cause is repaired")
    })?;
    if copied.stopped {
        bail!("the restore was interrupted: {parts}\n  hint: repeat the command");
    }
    let what = if is_changed { "the changed images of snapshot" } else { "snapshot" };
    let text = format!(
        "{group} holds {what} {name} again: {} read, {} written",
        copied.read, copied.written
    );
    print_result(&record.of, dir, copied, text, Vec::new(), consent.json)
}

/// The record of a directory that has that snapshot, which can be restored.
fn named(folder: &Folder, of: &SnapshotName) -> Result<ExportRecord> {
    let record = complete(folder)?;
    let (group, name) = (&record.of.group, &record.of.name);
    if of.name != *name || of.group.as_ref().is_some_and(|of| of != group) {
        bail!(
            "{} has {group}@{name}\n  hint: name this snapshot, or another directory",
            folder.path().display()
        );
    }
    if !record.of.consistent {
        bail!(
            "{group}@{name} was inconsistent, and so are its images\n  hint: restore another snapshot"
        );
    }
    Ok(record)
}

/// Adds where the volumes may differ from the snapshot.
fn add_changes(source: &Source, record: &mut ExportRecord) -> Result<()> {
    for (at, volume) in record.volumes.iter_mut().enumerate() {
        match source.differing(at, &record.of, None)? {
            Some(changed) => volume.differs.add_set(&changed),
            None => volume.differs.add_all(),
        }
    }
    Ok(())
}

/// Opens the images. If it is not known where one differs from the snapshot, all of it counts as different.
fn open(
    folder: &Folder,
    record: &mut ExportRecord,
    doubts: &mut Vec<String>,
) -> Result<Vec<Arc<Image>>> {
    let mut images = Vec::new();
    for volume in &mut record.volumes {
        let image = Image::open(&folder.image(&volume.name), volume, Access::Read)?;
        if image.is_another_device(volume)? {
            bail!(
                "{}\n  hint: let {} lead to the right one",
                another_device(&volume.name),
                folder.image(&volume.name).display()
            );
        }
        if image.was_written_since(volume)? {
            doubts.push(unrecorded(&volume.name));
            volume.differs.add_all();
        }
        images.push(Arc::new(image));
    }
    Ok(images)
}

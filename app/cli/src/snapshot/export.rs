// SPDX-License-Identifier: Apache-2.0
//! `helio snapshot export`: copies a snapshot to images that do not depend on it.

use super::images::{differing, unrecorded};
use crate::args::{At, Export, SnapshotName};
use crate::client::{Client, ClientError};
use crate::confirm::Consent;
use crate::stopping::Stopping;
use crate::verbs::{done, one_group};
use crate::which;
use anyhow::{Result, anyhow, bail};
use helio_api::{ApiError, GroupStatus, SnapshotList, paths};
use helio_format::exported::{
    CHUNK_BYTES, ChunkSet, ExportRecord, ExportStage, Exported, ExportedVolume,
};
use helio_image::{Copied, CopyPlan, Done, Folder, Image, copy};
use helio_nbd::{ClientOptions, Context, Contexts, status};
use helio_units::{Bytes, Sequence};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::symlink;
use std::process::ExitCode;
use std::sync::Arc;

/// Places of an image that are compared although nothing differs there by the record.
const SAMPLES: u64 = 32;
/// Bytes of which the state is asked at once.
const ASKED_AT_ONCE: u64 = 1 << 30;

/// A group of this node, and its volumes over NBD.
pub(super) struct Source {
    at: At,
    pub(super) group: GroupStatus,
    pub(super) list: SnapshotList,
}

/// What is exported, to where.
struct Job {
    source: Source,
    of: Exported,
    folder: Folder,
    images: Vec<Arc<Image>>,
    record: ExportRecord,
    warnings: Vec<String>,
}

pub(super) fn export(at: &At, wish: Export) -> Result<ExitCode> {
    let Export { snapshot: SnapshotName { group, name }, dir, images, limit, yes, json } = wish;
    let stopping = Stopping::catch()?;
    let source = Source::of(at, group)?;
    let of = source.exported(&name)?;
    let folder = Folder::create(&dir)?;
    for image in &images {
        source.volume(&image.volume)?;
        let link = folder.image(&image.volume);
        let is_there =
            || std::fs::canonicalize(&link).ok() == std::fs::canonicalize(&image.path).ok();
        if link.symlink_metadata().is_err() {
            let path = std::fs::canonicalize(&image.path).map_err(|why| {
                anyhow!(
                    "{}: {why}\n  hint: name a device or file that exists",
                    image.path.display()
                )
            })?;
            symlink(path, &link)?;
        } else if !is_there() {
            bail!(
                "{} exists, and is not {}\n  hint: name another directory",
                link.display(),
                image.path.display()
            );
        }
    }
    let mut job = Job::new(source, of, folder, Consent { yes, json })?;
    let copied = job.run(limit, &stopping)?;
    let Exported { group, name, .. } = &job.of;
    let (shown, Copied { read, written, stopped }) = (dir.display(), copied);
    if stopped {
        let left = differing(&job.record);
        bail!(
            "the export of {group}@{name} was interrupted; {left} are still to be copied\n  hint: repeat the command to continue"
        );
    }
    let text = format!("{group}@{name} is exported to {shown}: {read} read, {written} written");
    done(text, std::mem::take(&mut job.warnings), json)
}

impl Source {
    pub(super) fn of(at: &At, group: Option<String>) -> Result<Self> {
        if at.remote.is_some() {
            return Err(anyhow!(
                "images are files of the node, and the daemon is on another host\n  hint: run the command on that host, without --host and HELIO_HOST"
            ));
        }
        let client = Client::new(at)?;
        let group = which::group(&client, group)?;
        let list = client.get(&paths::of_group(paths::SNAPSHOTS, &group))?;
        Ok(Self { at: at.clone(), group: one_group(&client, &group)?, list })
    }

    fn volume(&self, name: &str) -> Result<()> {
        if self.group.volumes.iter().any(|volume| volume.name == name) {
            return Ok(());
        }
        let names: Vec<_> = self.group.volumes.iter().map(|volume| volume.name.clone()).collect();
        let text = format!("group {} has no volume {name}", self.group.name);
        Err(refused(ApiError::name_one_of("unknown-volume", text, &names)))
    }

    /// The snapshot of that name, the newest one if it is to replace another.
    fn exported(&self, name: &str) -> Result<Exported> {
        let all = exported_all(&self.list);
        all.into_iter().rfind(|it| it.name == name).ok_or_else(|| {
            let SnapshotList { group, node, .. } = &self.list;
            let text = format!("group {group} has no snapshot {name} on {node}");
            refused(ApiError::new(
                "unknown-snapshot",
                text,
                format!("`helio snapshot list {group}`"),
            ))
        })
    }

    /// Opens a volume in a snapshot. Fails if it is not that one any more.
    fn open(&self, volume: usize, of: &Exported) -> Result<helio_nbd::Client> {
        let client = self.client(volume, &format!("@{}", of.name))?;
        // Another snapshot may have the name since; if not, the connection is to this one.
        let list: SnapshotList =
            Client::new(&self.at)?.get(&paths::of_group(paths::SNAPSHOTS, &of.group))?;
        if exported_all(&list).iter().rfind(|it| it.name == of.name) == Some(of) {
            return Ok(client);
        }
        bail!(
            "snapshot {} of {} was replaced or deleted during the export\n  hint: export a snapshot to the same directory again",
            of.name,
            of.group
        )
    }

    /// Opens a volume, or what is called so beyond its name.
    pub(super) fn client(&self, volume: usize, suffix: &str) -> Result<helio_nbd::Client> {
        let (group, volume) = (&self.group.name, &self.group.volumes[volume].name);
        let export = format!("{group}/{volume}{suffix}");
        let contexts = match suffix {
            "" => Contexts::NONE,
            _ => Contexts::NONE.with(Context::Changed),
        };
        let options = ClientOptions { contexts, ..ClientOptions::default() };
        let socket = self.at.state.join("nbd.sock");
        helio_nbd::Client::connect_unix_with(&socket, &export, options).map_err(|why| {
            anyhow!(
                "cannot open {export} at {}: {why}\n  hint: `helio status {group}`",
                socket.display()
            )
        })
    }

    /// What changed in a volume since that snapshot, if the group still has it.
    pub(super) fn changed_since(&self, of: &Exported, volume: usize) -> Result<Option<ChunkSet>> {
        let Some(base) = exported_all(&self.list).into_iter().find(|it| it.is_same(of)) else {
            return Ok(None);
        };
        let mut client = self.open(volume, &base)?;
        if !client.contexts().has(Context::Changed) {
            return Ok(None);
        }
        let size = self.group.volumes[volume].size_bytes;
        let (mut set, mut at) = (ChunkSet::new(size), 0);
        while at < size.0 {
            let asked = Bytes((size.0 - at).min(ASKED_AT_ONCE));
            let told = client.block_status(at, asked, false)?;
            let begin = at;
            for extent in told.iter().flat_map(|(_, extents)| extents) {
                let end = at + extent.length;
                if extent.flags & status::CHANGED != 0 {
                    set.add(at / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES));
                }
                at = end;
            }
            if at == begin {
                bail!(
                    "the daemon told nothing of {asked} from {begin} on\n  hint: {}",
                    crate::typed::help()
                );
            }
        }
        Ok(Some(set))
    }
}

/// The snapshots of a group, as an export records them.
fn exported_all(list: &SnapshotList) -> Vec<Exported> {
    let exported = |it: &helio_api::Snapshot| Exported {
        group: list.group.clone(),
        name: it.name.clone(),
        generation: it.generation.clone(),
        position: Sequence(it.position),
        at: it.at_ms,
        consistent: it.consistent,
    };
    list.snapshots.iter().map(exported).collect()
}

fn refused(error: ApiError) -> anyhow::Error {
    ClientError::Refused(Box::new(error)).into()
}

impl Job {
    /// Looks what is there, asks, and says in the record what is copied.
    fn new(source: Source, of: Exported, mut folder: Folder, consent: Consent) -> Result<Self> {
        let volumes = source.group.volumes.iter().map(|volume| ExportedVolume {
            name: volume.name.clone(),
            size: volume.size_bytes,
            written: 0,
            differs: ChunkSet::new(volume.size_bytes),
        });
        let stage = ExportStage::Copying;
        let mut record = ExportRecord { of: of.clone(), stage, volumes: volumes.collect() };
        let old = folder.record().cloned();
        if let Some(old) = &old {
            fits(old, &record, &folder)?;
        }
        if let Some(stake) = stake(old.as_ref(), &record, &folder) {
            consent.get(&stake, "overwrite it?")?;
        }
        let (mut images, mut warnings) = (Vec::new(), Vec::new());
        if !of.consistent {
            warnings
                .push(format!("{}@{} is inconsistent, and so are its images", of.group, of.name));
        }
        for (at, volume) in record.volumes.iter_mut().enumerate() {
            let image = Image::open(&folder.image(&volume.name), volume, true)?;
            let old = old.as_ref().map(|old| (&old.of, &old.volumes[at]));
            let known = match old {
                Some((was, had)) if !image.is_blank() => {
                    if image.was_written_since(had.written)? {
                        warnings.push(unrecorded(&volume.name));
                        None
                    } else {
                        source.differs(was, &of, at, had)?
                    }
                }
                _ => None,
            };
            match known {
                Some(set) => volume.differs = set,
                None => volume.differs.add_all(),
            }
            if !samples_are_equal(&source, &of, at, (volume, &image))? {
                warnings.push(format!(
                    "the image of {} differs where the record has no change; all of it is compared",
                    volume.name
                ));
                volume.differs.add_all();
            }
            images.push(Arc::new(image));
        }
        folder.keep(record.clone())?;
        Ok(Self { source, of, folder, images, record, warnings })
    }

    /// Copies, and keeps the record of how far it is.
    fn run(&mut self, limit: Option<helio_units::Rate>, stopping: &Stopping) -> Result<Copied> {
        let Self { source, of, folder, images, record, .. } = self;
        let plan = record.volumes.iter().zip(images.iter()).map(|(volume, image)| CopyPlan {
            size: volume.size,
            chunks: volume.differs.clone(),
            blank: image.is_blank(),
        });
        let plan: Vec<CopyPlan> = plan.collect();
        let open = |volume: usize| {
            let source = source.open(volume, of)?;
            Ok((Box::new(source) as _, Box::new(Arc::clone(&images[volume])) as _))
        };
        let mut progress = Progress::new(differing(record));
        let mut settle = |done: &[Done]| {
            for (at, (image, volume)) in images.iter().zip(&mut record.volumes).enumerate() {
                let mut of_volume = done.iter().filter(|done| done.volume == at).peekable();
                if of_volume.peek().is_some() {
                    image.flush().map_err(image.failed("flush"))?;
                    image.forget();
                    of_volume.for_each(|done| volume.differs.remove(done.chunks.clone()));
                }
            }
            progress.show(differing(record));
            if done.is_empty() { Ok(()) } else { folder.keep(record.clone()).map(drop) }
        };
        let copied = copy(&plan, limit, stopping.flag(), &open, &mut settle)?;
        if !copied.stopped {
            record.stage = ExportStage::Complete;
            for (volume, image) in record.volumes.iter_mut().zip(images) {
                image.flush().map_err(image.failed("flush"))?;
                volume.written = image.written()?;
            }
            folder.keep(record.clone())?;
        }
        Ok(copied)
    }
}

impl Source {
    /// Where an image differs from a snapshot, if that is known.
    fn differs(
        &self,
        was: &Exported,
        of: &Exported,
        volume: usize,
        had: &ExportedVolume,
    ) -> Result<Option<ChunkSet>> {
        if was.is_same(of) {
            return Ok(Some(had.differs.clone()));
        }
        let mut changed = self.changed_since(was, volume)?;
        if let Some(changed) = &mut changed {
            changed.add_set(&had.differs);
        }
        Ok(changed)
    }
}

/// Refuses a directory that has images of something else.
fn fits(old: &ExportRecord, new: &ExportRecord, folder: &Folder) -> Result<()> {
    let key = |it: &ExportRecord| -> Vec<_> {
        it.volumes.iter().map(|volume| (volume.name.clone(), volume.size)).collect()
    };
    if old.of.group == new.of.group && key(old) == key(new) {
        return Ok(());
    }
    bail!(
        "{} has a snapshot of group {} with other volumes\n  hint: name another directory",
        folder.path().display(),
        old.of.group
    )
}

/// What an export overwrites that no snapshot has.
fn stake(old: Option<&ExportRecord>, new: &ExportRecord, folder: &Folder) -> Option<String> {
    let shown = folder.path().display();
    match old {
        Some(old) if old.stage != ExportStage::Copying && old.differing() > 0 => Some(format!(
            "what was written to the images in {shown} since they were exported, up to {}, will be lost",
            differing(old)
        )),
        Some(_) => None,
        None => {
            let paths = new.volumes.iter().map(|volume| folder.image(&volume.name));
            let found: Vec<_> =
                paths.filter(|path| path.exists()).map(|path| path.display().to_string()).collect();
            (!found.is_empty()).then(|| format!("everything in {} will be lost", found.join(", ")))
        }
    }
}

/// Whether an image is equal to the snapshot in some of the places where it is to be.
fn samples_are_equal(
    source: &Source,
    of: &Exported,
    at: usize,
    (volume, image): (&ExportedVolume, &Image),
) -> Result<bool> {
    let chunks = volume.differs.chunks();
    let step = (chunks / SAMPLES).max(1);
    let mut places =
        (0..chunks).step_by(step as usize).filter(|chunk| !volume.differs.has(*chunk)).peekable();
    if places.peek().is_none() {
        return Ok(true);
    }
    let mut client = source.open(at, of)?;
    for chunk in places {
        let from = chunk * CHUNK_BYTES;
        let length = CHUNK_BYTES.min(volume.size.0 - from) as usize;
        let [mut theirs, mut ours] = [vec![0; length], vec![0; length]];
        client.read(from, &mut theirs)?;
        image.read(from, &mut ours).map_err(image.failed("read"))?;
        if theirs != ours {
            return Ok(false);
        }
    }
    Ok(true)
}

/// How far it is, on a terminal.
pub(super) struct Progress {
    all: Bytes,
    shown: bool,
}

impl Progress {
    pub(super) fn new(all: Bytes) -> Self {
        Self { all, shown: std::io::stderr().is_terminal() }
    }

    pub(super) fn show(&mut self, left: Bytes) {
        if self.shown {
            let (all, copied) = (self.all, Bytes(self.all.0.saturating_sub(left.0)));
            // A terminal that is gone shows nothing.
            let _ = write!(std::io::stderr(), "\r{copied} of {all} compared\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = writeln!(std::io::stderr());
        }
    }
}

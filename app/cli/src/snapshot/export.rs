// SPDX-License-Identifier: Apache-2.0
//! `helio snapshot export`: copies a snapshot to images that do not depend on it.

use super::images::{differing, unrecorded};
use crate::args::{At, Export};
use crate::client::{Client, ClientError};
use crate::confirm::Consent;
use crate::failure::{failed, unwritable};
use crate::stopping::{Second, Stopping};
use crate::verbs::{done, one_group, printed};
use crate::which;
use anyhow::{Result, anyhow, bail};
use helio_api::{ApiError, Attachments, GroupStatus, SnapshotList, paths};
use helio_format::exported::{
    CHUNK_BYTES, ChunkSet, ExportRecord, ExportStage, Exported, ExportedVolume,
};
use helio_image::{Access, Copied, CopyPlan, Done, Folder, Image, Store, Target, copy};
use helio_nbd::{ClientOptions, Context, Contexts, status};
use helio_units::{Bytes, Role, Sequence};
use serde_json::json;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

/// The export of a volume that is used alone.
pub(super) const ALONE: &str = ":alone";

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
    let source = Source::of(at, wish.snapshot.group.clone())?;
    let of = source.exported(&wish.snapshot.name)?;
    for image in &wish.images {
        source.check_volume(&image.volume)?;
    }
    check_apart(&wish)?;
    let existed = wish.dir.exists();
    let job = Job::new(source, of, &wish);
    let mut job = job.inspect_err(|_| {
        if !existed {
            // With something in it, it stays.
            let _removed = std::fs::remove_dir(&wish.dir);
        }
    })?;
    // Not before it was confirmed: a signal ends a question.
    let stopping = Stopping::catch(Second::Ends)?;
    let copied =
        job.run(wish.limit, &stopping).map_err(|why| job.source.explained(&job.of, why))?;
    let Copied { read, written, stopped } = copied;
    let Exported { group, name, .. } = &job.of;
    if stopped {
        let left = differing(&job.record);
        bail!(
            "the export of {group}@{name} was interrupted; {left} are still to be copied\n  hint: repeat the command to continue"
        );
    }
    let shown = wish.dir.display();
    let text = format!("{group}@{name} is exported to {shown}: {read} read, {written} written");
    print_result(&job.of, &wish.dir, copied, text, job.warnings, wish.json)
}

/// Prints the result of a copy.
pub(super) fn print_result(
    of: &Exported,
    dir: &Path,
    copied: Copied,
    message: String,
    warnings: Vec<String>,
    json: bool,
) -> Result<ExitCode> {
    if !json {
        return done(message, warnings, false);
    }
    printed(&json!({
        "message": message,
        "warnings": warnings,
        "snapshot": format!("{}@{}", of.group, of.name),
        "identity": of.identity,
        "position": of.position.0,
        "directory": dir,
        "read_bytes": copied.read.0,
        "written_bytes": copied.written.0,
    }))
}

/// Refuses one file or device for several volumes.
fn check_apart(wish: &Export) -> Result<()> {
    let place = |at: usize| std::fs::canonicalize(&wish.images[at].path).ok();
    for (at, image) in wish.images.iter().enumerate() {
        let other = (0..at).find(|other| place(*other).is_some() && place(*other) == place(at));
        if let Some(other) = other.map(|other| &wish.images[other].volume) {
            let (path, volume) = (image.path.display(), &image.volume);
            bail!(
                "{path} is named as the image of both {other} and {volume}\n  hint: name another one for {volume}"
            );
        }
    }
    Ok(())
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

    fn check_volume(&self, name: &str) -> Result<()> {
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

    /// Names and sizes of the volumes.
    pub(super) fn shape(&self) -> impl Iterator<Item = (&str, Bytes)> {
        self.group.volumes.iter().map(|volume| (volume.name.as_str(), volume.size_bytes))
    }

    /// Refuses a group that cannot be written, or whose volumes are in use.
    pub(super) fn check_unused(&self) -> Result<()> {
        let GroupStatus { name, node, volumes, .. } = &self.group;
        if self.group.role != Role::Primary {
            let text =
                format!("{name} is not primary on {node}, and its volumes cannot be written there");
            let hint = format!(
                "run the command on the primary; `helio status {name}` shows which node that is"
            );
            return Err(refused(ApiError::new("not-primary", text, hint)));
        }
        let attached = self.attached()?;
        if !attached.is_empty() {
            // The kernel's NBD client of a device is counted as a client, too.
            let text =
                format!("{name} is in use: attached as block devices: {}", attached.join(", "));
            let detach: Vec<String> =
                attached.iter().map(|volume| format!("`helio detach {name}/{volume}`")).collect();
            let hint = format!("unmount them, then {}", detach.join(" and "));
            return Err(refused(ApiError::new("in-use", text, hint)));
        }
        let clients: u64 = volumes.iter().map(|volume| volume.clients.0).sum();
        if clients > 0 {
            let text =
                format!("{clients} NBD connection(s) use {name}: their caches would be wrong");
            let hint =
                format!("unmount and disconnect them first; `helio client list {name}` shows them");
            return Err(refused(ApiError::new("in-use", text, hint)));
        }
        Ok(())
    }

    /// The devices of the volumes themselves.
    fn attached(&self) -> Result<Vec<String>> {
        let all: Attachments = Client::new(&self.at)?.get(paths::ATTACHMENTS)?;
        let ours = all.attachments.into_iter().filter(|it| it.group == self.group.name);
        Ok(ours.map(|it| it.volume).filter(|volume| !volume.contains('@')).collect())
    }

    /// Why an export failed, if the snapshot is gone.
    fn explained(&self, of: &Exported, why: anyhow::Error) -> anyhow::Error {
        let path = paths::of_group(paths::SNAPSHOTS, &of.group);
        let list = Client::new(&self.at).and_then(|client| Ok(client.get::<SnapshotList>(&path)?));
        match list {
            Ok(list) if !exported_all(&list).contains(of) => gone(of),
            _ => why,
        }
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
        Err(gone(of))
    }

    /// Opens a volume, or what is called so beyond its name.
    pub(super) fn client(&self, volume: usize, suffix: &str) -> Result<helio_nbd::Client> {
        let (group, volume) = (&self.group.name, &self.group.volumes[volume].name);
        let export = format!("{group}/{volume}{suffix}");
        let contexts = match suffix {
            "" | ALONE => Contexts::NONE,
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

    /// The chunks in which two snapshots of a volume, or a snapshot and the volume, may differ; none if this node does not have them any more.
    pub(super) fn differing(
        &self,
        volume: usize,
        one: &Exported,
        other: Option<&Exported>,
    ) -> Result<Option<ChunkSet>> {
        if other.is_some_and(|other| other.is_same(one)) {
            return Ok(Some(ChunkSet::new(self.group.volumes[volume].size_bytes)));
        }
        let all = exported_all(&self.list);
        let place = |of: &Exported| all.iter().position(|it| it.is_same(of));
        // What changed since the older of them has all in which they differ.
        let places = match other {
            Some(other) => place(one).zip(place(other)).map(|(one, other)| one.min(other)),
            None => place(one),
        };
        places.map_or(Ok(None), |place| self.changed_since(&all[place], volume))
    }

    fn changed_since(&self, base: &Exported, volume: usize) -> Result<Option<ChunkSet>> {
        // It may be gone since.
        let Ok(mut client) = self.open(volume, base) else { return Ok(None) };
        if !client.contexts().has(Context::Changed) {
            return Ok(None);
        }
        let size = self.group.volumes[volume].size_bytes;
        let (mut set, mut at) = (ChunkSet::new(size), 0);
        while at < size.0 {
            let asked = Bytes((size.0 - at).min(ASKED_AT_ONCE));
            let Ok(contexts) = client.block_status(at, asked, false) else { return Ok(None) };
            let begin = at;
            for extent in contexts.iter().flat_map(|(_, extents)| extents) {
                let end = at + extent.length;
                if extent.flags & status::CHANGED != 0 {
                    set.add(at / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES));
                }
                at = end;
            }
            if at == begin {
                return Ok(None);
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
        node: list.node.clone(),
        identity: it.identity.clone(),
        position: Sequence(it.position),
        at: it.at_ms,
        consistent: it.consistent,
    };
    list.snapshots.iter().map(exported).collect()
}

fn gone(of: &Exported) -> anyhow::Error {
    anyhow!(
        "snapshot {} of {} was deleted or replaced during the export\n  hint: export another snapshot to the same directory",
        of.name,
        of.group
    )
}

fn refused(error: ApiError) -> anyhow::Error {
    ClientError::Refused(Box::new(error)).into()
}

impl Job {
    /// Looks what is there, asks, and says in the record what is copied.
    fn new(source: Source, of: Exported, wish: &Export) -> Result<Self> {
        let volumes = source.group.volumes.iter().map(|volume| ExportedVolume {
            name: volume.name.clone(),
            size: volume.size_bytes,
            written: 0,
            image: String::new(),
            differs: ChunkSet::new(volume.size_bytes),
        });
        let stage = ExportStage::Copying;
        let mut record = ExportRecord { of: of.clone(), stage, volumes: volumes.collect() };
        let mut folder = Folder::create(&wish.dir)?;
        let old = folder.record().cloned();
        if let Some(old) = &old {
            fits(old, &record, &folder)?;
        }
        let mut found = Found::of(&source, &folder, old.as_ref());
        let mut images = Vec::new();
        for (at, volume) in record.volumes.iter_mut().enumerate() {
            images.push(found.look(at, volume, &of, wish)?);
        }
        let Found { stakes, mut warnings, .. } = found;
        if !of.consistent {
            let (group, name) = (&of.group, &of.name);
            warnings.push(format!("{group}@{name} is inconsistent, and so are its images"));
        }
        if !stakes.is_empty() {
            Consent { yes: wish.yes, json: wish.json }
                .get(&stakes.join("; "), "overwrite these images?")?;
        }
        let volumes = record.volumes.iter_mut().zip(images);
        let images = volumes.map(|(volume, (path, image))| {
            let image = match image {
                Some(image) => image,
                None => Image::open(&path, volume, Access::Create)?,
            };
            link(&folder.image(&volume.name), &path)?;
            volume.image = image.named().to_owned();
            Ok(Arc::new(image))
        });
        let images = images.collect::<Result<Vec<_>>>()?;
        folder.keep(record.clone())?;
        Ok(Self { source, of, folder, images, record, warnings })
    }

    /// Copies, and keeps the record of how far it is.
    fn run(&mut self, limit: Option<helio_units::Rate>, stopping: &Stopping) -> Result<Copied> {
        let Self { source, of, folder, images, record, .. } = self;
        let plan = record.volumes.iter().zip(images.iter()).map(|(volume, image)| CopyPlan {
            size: volume.size,
            chunks: volume.differs.clone(),
            target: match (image.is_blank(), image.is_suspect()) {
                (true, _) => Target::Blank,
                (false, true) => Target::Suspect,
                (false, false) => Target::Compared,
            },
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
                    Image::flush(image).map_err(image.failed("flush"))?;
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
                Image::flush(image).map_err(image.failed("flush"))?;
                volume.written = image.written()?;
            }
            folder.keep(record.clone())?;
        }
        Ok(copied)
    }
}

/// An image that lies elsewhere was exported to before and is not there now: its device is detached, or its file system not mounted.
/// A new file in its place would lie on another disk.
fn detached(path: &Path, volume: &ExportedVolume) -> anyhow::Error {
    let (name, path) = (&volume.name, path.display());
    anyhow!(
        "the image of {name} is missing: {path}\n  hint: attach its device, or mount its file system; to create another image, export to another directory"
    )
}

/// What is found in a directory.
struct Found<'a> {
    source: &'a Source,
    folder: &'a Folder,
    old: Option<&'a ExportRecord>,
    /// What would be overwritten that nothing else has.
    stakes: Vec<String>,
    warnings: Vec<String>,
}

impl<'a> Found<'a> {
    fn of(source: &'a Source, folder: &'a Folder, old: Option<&'a ExportRecord>) -> Self {
        let mut found = Self { source, folder, old, stakes: Vec::new(), warnings: Vec::new() };
        let Some(old) = old else { return found };
        let (group, shown) = (&source.group, folder.path().display());
        let peer = group.peer.as_ref().map(|peer| &peer.name);
        if old.of.node != group.node && peer != Some(&old.of.node) {
            let (name, node) = (&old.of.group, &old.of.node);
            found
                .stakes
                .push(format!("the images in {shown} are of {name} on {node}, another group"));
        }
        if old.stage != ExportStage::Copying && old.differing() > 0 {
            let differs = differing(old);
            found.stakes.push(format!(
                "what was written to the images in {shown} since they were exported, up to {differs}, will be lost"
            ));
        }
        found
    }

    /// Where the image of a volume is kept, and that, if it exists. Adds what is copied to it.
    fn look(
        &mut self,
        at: usize,
        volume: &mut ExportedVolume,
        of: &Exported,
        wish: &Export,
    ) -> Result<(PathBuf, Option<Image>)> {
        let path = self.place(&volume.name, wish)?;
        if !path.exists() {
            if self.folder.image(&volume.name).is_symlink() {
                return Err(detached(&path, volume));
            }
            volume.differs.add_all();
            return Ok((path, None));
        }
        let image = Image::open(&path, volume, Access::Write)?;
        let had = self.old.map(|old| &old.volumes[at]);
        let known = match had.filter(|had| image.is_that_of(had)) {
            None => {
                let shown = path.display();
                self.stakes.push(format!("everything in {shown} will be lost"));
                None
            }
            Some(had) if image.was_written_since(had)? => {
                self.stakes.push(unrecorded(&volume.name));
                None
            }
            Some(had) => self.known(at, of, had)?,
        };
        match known.filter(|_| !wish.compare && !image.is_suspect()) {
            Some(set) => volume.differs = set,
            None => volume.differs.add_all(),
        }
        if !samples_are_equal(self.source, of, at, (volume, &image))? {
            self.stakes.push(format!(
                "the image of {} was changed where the record has no change, and all of it is compared",
                volume.name
            ));
            volume.differs.add_all();
        }
        Ok((path, Some(image)))
    }

    /// Where an image differs from the snapshot, if that is known.
    fn known(&self, at: usize, of: &Exported, had: &ExportedVolume) -> Result<Option<ChunkSet>> {
        let Some(old) = self.old else { return Ok(None) };
        let mut known = self.source.differing(at, &old.of, Some(of))?;
        if let Some(known) = &mut known {
            known.add_set(&had.differs);
        }
        Ok(known)
    }

    /// Where the image of a volume is, or is to be.
    fn place(&self, volume: &str, wish: &Export) -> Result<PathBuf> {
        let link = self.folder.image(volume);
        let Some(wished) = wish.images.iter().rfind(|image| image.volume == volume) else {
            return Ok(link);
        };
        // Links are not resolved: /dev/vg0/copy is persistent, the device that it leads to is not.
        let wished = std::path::absolute(&wished.path)
            .map_err(failed("no current directory", "name the image with an absolute path"))?;
        if link.symlink_metadata().is_ok() && link.read_link().ok().as_ref() != Some(&wished) {
            let (link, wished) = (link.display(), wished.display());
            bail!(
                "{link} already exists and is not a link to {wished}\n  hint: use another directory, or move {link} away"
            );
        }
        Ok(wished)
    }
}

/// Lets a name in the directory lead to an image that lies elsewhere.
fn link(link: &Path, path: &Path) -> Result<()> {
    if link == path || link.symlink_metadata().is_ok() {
        return Ok(());
    }
    symlink(path, link).map_err(unwritable(link))
}

/// Refuses a directory that has images of something else.
fn fits(old: &ExportRecord, new: &ExportRecord, folder: &Folder) -> Result<()> {
    if old.of.group == new.of.group && old.shape().eq(new.shape()) {
        return Ok(());
    }
    bail!(
        "{} has a snapshot of group {} with other volumes\n  hint: name another directory",
        folder.path().display(),
        old.of.group
    )
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
    // Other ones each time.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let first = now.map_or(0, |now| u64::from(now.subsec_nanos()) % step);
    let places = (first..chunks).step_by(step as usize);
    let mut places = places.filter(|chunk| !volume.differs.has(*chunk)).peekable();
    if places.peek().is_none() {
        return Ok(true);
    }
    let mut client = source.open(at, of)?;
    for chunk in places {
        let from = chunk * CHUNK_BYTES;
        let length = CHUNK_BYTES.min(volume.size.0 - from) as usize;
        let [mut theirs, mut ours] = [vec![0; length], vec![0; length]];
        Store::read(&mut client, from, &mut theirs)?;
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

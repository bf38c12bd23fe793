// SPDX-License-Identifier: Apache-2.0
//! Records where images change, before they do.

use crate::Image;
use crate::folder::{Folder, RECORD};
use anyhow::{Result, anyhow};
use helio_format::exported::{ChunkSet, ExportRecord, ExportStage};
use helio_link::checksum;
use helio_units::Extent;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

/// Chunks that are recorded at once: fewer flushes, and what did not change is compared, not written.
const CHUNKS_AT_ONCE: u64 = 16;

/// The record of a directory while its images are served.
#[derive(Debug)]
pub(crate) struct Recorder {
    folder: Folder,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    record: ExportRecord,
    file: File,
    /// Where the next addition goes.
    end: u64,
    /// The checksum of the record.
    sum: [u8; 4],
    /// An addition could not be written: what is behind the last one is not known.
    failed: bool,
}

impl Recorder {
    /// Says in the record that the images may change from now on.
    pub(crate) fn begin(
        mut folder: Folder,
        mut record: ExportRecord,
        images: &[Image],
    ) -> Result<Self> {
        record.stage = ExportStage::Imported;
        for (volume, image) in record.volumes.iter_mut().zip(images) {
            (volume.written, volume.image) = (0, image.named().to_owned());
        }
        let bytes = folder.keep(record.clone())?;
        let path = folder.path().join(RECORD);
        let file = OpenOptions::new().write(true).open(&path);
        let file = file.map_err(|why| {
            anyhow!("cannot open {}: {why}\n  hint: repeat the command", path.display())
        })?;
        let sum = *bytes.last_chunk().unwrap_or_else(|| unreachable!("a record has a checksum"));
        let open = Open { record, file, end: bytes.len() as u64, sum, failed: false };
        Ok(Self { folder, open: Mutex::new(open) })
    }

    /// Returns once it is durable that this extent of a volume may differ.
    ///
    /// # Errors
    /// It cannot be recorded: the image must not change there.
    pub(crate) fn changes(&self, volume: usize, extent: Extent) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let touched = ChunkSet::touched(extent);
        if touched.clone().all(|chunk| open.record.volumes[volume].differs.has(chunk)) {
            return Ok(());
        }
        if open.failed {
            return Err(io::Error::other("changes cannot be recorded any more"));
        }
        let chunks = open.record.volumes[volume].differs.chunks();
        let ahead = touched.start / CHUNKS_AT_ONCE * CHUNKS_AT_ONCE
            ..touched.end.next_multiple_of(CHUNKS_AT_ONCE).min(chunks);
        let added = open.add(volume, ahead);
        open.failed = added.is_err();
        added
    }

    /// Ends the recording: from now on, whatever writes the images is noticed by their time.
    pub(crate) fn end(self, images: &[Image]) -> Result<ExportRecord> {
        let Self { mut folder, open } = self;
        let mut record = open.into_inner().unwrap_or_else(PoisonError::into_inner).record;
        record.stage = ExportStage::Complete;
        for (volume, image) in record.volumes.iter_mut().zip(images) {
            image.flush().map_err(image.failed("flush"))?;
            volume.written = image.written()?;
        }
        folder.keep(record.clone())?;
        Ok(record)
    }
}

impl Open {
    fn add(&mut self, volume: usize, chunks: Range<u64>) -> io::Result<()> {
        let addition = ExportRecord::addition(&self.sum, volume as u16, &chunks, checksum);
        self.file.write_all_at(&addition, self.end)?;
        self.file.sync_data()?;
        self.end += addition.len() as u64;
        self.record.volumes[volume].differs.add(chunks);
        Ok(())
    }
}

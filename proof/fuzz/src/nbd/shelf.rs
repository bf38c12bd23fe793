// SPDX-License-Identifier: Apache-2.0
//! Exports in memory, and what a request to each of them must be like.

use helio_nbd::{
    Command, Context, Contexts, ExportInfo, Exports, MAX_PAYLOAD, OpenRefusal, Request,
    StatusExtent,
};
use helio_units::Bytes;

/// Bytes of the disk there is; the vast export has more, all zero.
const DISK: usize = 64 << 10;
const VAST: u64 = 1 << 50;

/// Exports alike but for their size; a door that is shut; one that nobody should have configured.
pub(super) struct Shelf {
    data: ExportInfo,
}

impl Shelf {
    /// As a byte says: read-only, changing elsewhere, TRIM, fast zeroes, which contexts, how large a block.
    pub(super) fn of(flags: u8) -> Self {
        let set = |bit: u8| flags & 1 << bit != 0;
        let contexts = [(4, Context::Allocation), (5, Context::Marks), (7, Context::Changed)]
            .into_iter()
            .filter(|(bit, _)| !set(*bit))
            .fold(Contexts::NONE, |contexts, (_, context)| contexts.with(context));
        Self {
            data: ExportInfo {
                name: "data".into(),
                description: "a disk in memory".into(),
                size: Bytes(DISK as u64),
                read_only: set(0),
                volatile: set(0) && set(1),
                trim: set(2),
                fast_zero: set(3),
                longest_effect: Bytes::gib(4),
                contexts,
                minimum_block: if set(6) { 512 } else { 1 },
                preferred_block: 4096,
                handle: 7,
            },
        }
    }

    /// The export of a handle.
    pub(super) fn export(&self, handle: u64) -> ExportInfo {
        match handle {
            7 => self.data.clone(),
            8 => self.vast(),
            other => panic!("no export has the handle {other}"),
        }
    }

    fn vast(&self) -> ExportInfo {
        ExportInfo { name: "vast".into(), size: Bytes(VAST), handle: 8, ..self.data.clone() }
    }
}

impl Exports for Shelf {
    fn list(&self, each: &mut dyn FnMut(&ExportInfo)) {
        each(&self.data);
        each(&self.vast());
    }

    fn open(&self, name: &str) -> Result<ExportInfo, OpenRefusal> {
        match name {
            "" | "data" => Ok(self.data.clone()),
            "vast" => Ok(self.vast()),
            "odd" => Ok(ExportInfo { minimum_block: 3, ..self.data.clone() }),
            "shut" => Err(OpenRefusal::Policy("secondary here; promote it first".into())),
            _ => Err(OpenRefusal::Unknown),
        }
    }
}

/// Nothing is handed out that the export did not offer, and nothing needs to be checked again.
pub(super) fn worth_serving(request: &Request, export: &ExportInfo) {
    let extent = request.extent;
    let command = request.command;
    assert!(extent.offset.checked_add(extent.length).is_some_and(|end| end <= export.size.0));
    assert_eq!(extent.length == 0, command == Command::Flush, "{request:?}");
    let block = u64::from(export.minimum_block);
    assert!(extent.offset.is_multiple_of(block) && extent.length.is_multiple_of(block));
    if matches!(command, Command::Read | Command::Write) {
        assert!(extent.length <= u64::from(MAX_PAYLOAD));
    }
    let changes = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes);
    assert!(!changes || !export.read_only, "a change of what is read-only");
    assert!(command != Command::Trim || export.trim, "TRIM was not offered");
    assert!(!request.fua || changes);
    assert!(!request.no_hole || command == Command::WriteZeroes);
    assert!(!request.fast || (command == Command::WriteZeroes && export.fast_zero));
    assert!(!request.one || matches!(command, Command::Read | Command::BlockStatus));
    assert!(request.contexts.within(export.contexts));
    assert_eq!(request.contexts.is_empty(), command != Command::BlockStatus);
}

/// Where on a disk a request is, as far as there is a disk.
pub(super) struct Disk(Vec<u8>);

impl Disk {
    pub(super) fn new() -> Self {
        Self(vec![0; DISK])
    }

    pub(super) fn place(&mut self, request: &Request) -> &mut [u8] {
        let clip = |at: u64| usize::try_from(at).unwrap_or(DISK).min(DISK);
        &mut self.0[clip(request.extent.offset)..clip(request.extent.end())]
    }
}

/// What is said of a request's extent: stretches in steps of blocks, some of them empty, some of the same flags, that
/// may end early; the cookie decides.
pub(super) fn status(request: &Request, block: u32) -> Vec<StatusExtent> {
    let mut dice = helio_testkit::Dice::new(request.cookie.0);
    let mut left = request.extent.length;
    let mut told = Vec::new();
    for _ in 0..dice.below(6) {
        let blocks = left / u64::from(block);
        let length = dice.below(blocks + 1) * u64::from(block);
        told.push(StatusExtent { length, flags: dice.below(2) as u32 });
        left -= length;
    }
    told
}

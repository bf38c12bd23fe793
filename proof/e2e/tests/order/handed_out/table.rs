// SPDX-License-Identifier: Apache-2.0
//! What is to come of each command in each state. A combination that is missing does not compile.

use super::commands::Command;
use super::states::State;
use Wanted::{Given, LeftOut, Refused};

/// What is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// What clients read, or true words, at once.
    Given,
    /// A refusal with this code, or with these words, whose steps lead to it.
    Refused(&'static str),
    /// The combination does not occur, for that reason.
    LeftOut(&'static str),
}

/// The row of a state.
pub(super) const fn wanted(state: State, command: Command) -> Wanted {
    match state {
        State::AtRest => at_rest(command),
        State::RestorePending => restore_pending(command),
        State::Unmerged => unmerged(command),
        State::Blank => blank(command),
        State::Copying | State::Removed => other_member(command),
        State::Suspect => suspect(command),
        State::ServedFromPeer => served_from_peer(command),
    }
}

const NOT_WHOLE: Wanted = Refused("not-whole");
/// The configuration names its group no more, and its metadata does.
const OWNED: Wanted = Refused("is a disk of group db");
/// A client that reads gets this error, without a reason.
const EIO: Wanted = Refused("EIO");
const ONE_MEMBER: Wanted = LeftOut("the volume has one member");
const IN_SYNC: Wanted =
    LeftOut("lyon reads all of a volume to get in sync, and then nothing is blank");
const LYON_HAS_IT: Wanted = LeftOut("lyon has everything");
const VERIFY_WAITS: Wanted = LeftOut("a verify waits until both copies are complete");
const DISK_GONE: Wanted = LeftOut("the disk is gone");

const fn at_rest(command: Command) -> Wanted {
    match command {
        Command::Adopt => OWNED,
        Command::Release
        | Command::ForBackup
        | Command::SeedBegin
        | Command::Resolve
        | Command::Reverse
        | Command::MetadataCreate
        | Command::MetadataAccept
        | Command::Inspect
        | Command::Verify
        | Command::Export
        | Command::Drill
        | Command::ReadSecondary => Given,
    }
}

const fn restore_pending(command: Command) -> Wanted {
    match command {
        Command::Release
        | Command::ForBackup
        | Command::SeedBegin
        | Command::Resolve
        | Command::Reverse => NOT_WHOLE,
        Command::MetadataCreate | Command::MetadataAccept => Refused("the rest of a restore"),
        Command::Adopt => OWNED,
        Command::Export | Command::Drill => Refused("the rest is still being written"),
        Command::ReadSecondary => EIO,
        Command::Inspect | Command::Verify => Given,
    }
}

/// A read of layers makes members equal where it reads.
const fn unmerged(command: Command) -> Wanted {
    match command {
        Command::Release
        | Command::ForBackup
        | Command::SeedBegin
        | Command::Resolve
        | Command::Reverse => NOT_WHOLE,
        Command::Adopt => OWNED,
        Command::ReadSecondary => EIO,
        Command::MetadataCreate
        | Command::MetadataAccept
        | Command::Inspect
        | Command::Verify
        | Command::Export
        | Command::Drill => Given,
    }
}

/// What nothing wrote or read holds nothing that counts, wherever it is handed out.
const fn blank(command: Command) -> Wanted {
    match command {
        Command::Resolve | Command::Reverse | Command::Verify => IN_SYNC,
        Command::Adopt => OWNED,
        Command::ReadSecondary => EIO,
        Command::Release
        | Command::ForBackup
        | Command::SeedBegin
        | Command::MetadataCreate
        | Command::MetadataAccept
        | Command::Inspect
        | Command::Export
        | Command::Drill => Given,
    }
}

/// The other member has everything.
const fn other_member(command: Command) -> Wanted {
    match command {
        Command::ForBackup => Refused("last-member"),
        Command::Adopt => OWNED,
        Command::Release
        | Command::SeedBegin
        | Command::Resolve
        | Command::Reverse
        | Command::MetadataCreate
        | Command::MetadataAccept
        | Command::Inspect
        | Command::Verify
        | Command::Export
        | Command::Drill
        | Command::ReadSecondary => Given,
    }
}

/// Nothing but the metadata tells of a failed flush: if it is lost, or an older one is accepted, the copy counts as it reads. To give a
/// suspect copy up needs no acceptance of it.
const fn suspect(command: Command) -> Wanted {
    match command {
        Command::Release | Command::SeedBegin | Command::Export | Command::Drill => {
            Refused("suspect")
        }
        Command::ForBackup => ONE_MEMBER,
        Command::Adopt => OWNED,
        Command::Verify => VERIFY_WAITS,
        Command::ReadSecondary => Refused("is inconsistent"),
        Command::Resolve
        | Command::Reverse
        | Command::MetadataCreate
        | Command::MetadataAccept
        | Command::Inspect => Given,
    }
}

const fn served_from_peer(command: Command) -> Wanted {
    match command {
        Command::Release => NOT_WHOLE,
        Command::SeedBegin => Refused("lacking"),
        Command::ForBackup => ONE_MEMBER,
        Command::Resolve | Command::Reverse => LYON_HAS_IT,
        Command::MetadataCreate | Command::MetadataAccept | Command::Adopt => DISK_GONE,
        Command::Verify => VERIFY_WAITS,
        Command::Export => LeftOut("lyon has the snapshot, and paris has none"),
        Command::Drill => Refused("not-consistent"),
        Command::ReadSecondary => Refused("is inconsistent"),
        Command::Inspect => Given,
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The flight recorder: the last events, in a ring of fixed size, cheap enough to be always on.

use crate::event::{Command, CommandId, Event, Kept, Operation, StoreOutcome};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use helio_format::copying::Copying;
use helio_format::invalid::Invalid;
use helio_format::lease::Lease;
use helio_format::message::Message;
use helio_format::reading::Reading;
use helio_format::roles::Roles;
use helio_format::snapshot::{Snapshot, SnapshotAct};
use helio_stack::{LayerSetting, PoolOutcome, SetOp};
use helio_units::Moment;

/// Events remembered: a second or so of a busy group, hours of a quiet one.
pub const RECORDS: usize = 4096;

/// One event, boiled down to a word and two numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When.
    pub at: Moment,
    /// What.
    pub what: &'static str,
    /// Its first number: a request, position or operation.
    pub a: u64,
    /// Its second number: an offset, or how far.
    pub b: u64,
    /// How many bytes a request is about; zero for anything else.
    pub length: u32,
    /// On which volume.
    pub volume: u16,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.what, self.a, self.b)?;
        if self.length > 0 {
            write!(f, " {} @{}", self.length, self.volume)?;
        }
        Ok(())
    }
}

/// The ring.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    ring: Box<[Record]>,
    next: usize,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { ring: vec![Record::default(); RECORDS].into_boxed_slice(), next: 0 }
    }
}

impl Recorder {
    pub(crate) fn record(&mut self, at: Moment, event: &Event) {
        let (what, a, b) = boil_down(event);
        let (length, volume) = size(event);
        self.ring[self.next % RECORDS] = Record { at, what, a, b, length, volume };
        self.next += 1;
    }

    /// The records, oldest first.
    pub(crate) fn dump(&self) -> Vec<Record> {
        let first = self.next.saturating_sub(RECORDS);
        (first..self.next).map(|n| self.ring[n % RECORDS]).collect()
    }
}

/// Length and volume of a request.
fn size(event: &Event) -> (u32, u16) {
    let Event::Request(request) = event else { return (0, 0) };
    let length = match request.operation {
        Operation::Read(extent)
        | Operation::Write { extent, .. }
        | Operation::Zero { extent, .. }
        | Operation::Discard { extent, .. } => extent.length,
        Operation::Flush => 0,
    };
    (u32::try_from(length).unwrap_or(u32::MAX), request.volume.0)
}

fn boil_down(event: &Event) -> (&'static str, u64, u64) {
    match event {
        Event::Request(r) => match r.operation {
            Operation::Read(e) => ("read", r.id.0, e.offset),
            Operation::Write { extent, .. } => ("write", r.id.0, extent.offset),
            Operation::Zero { extent, .. } => ("zero", r.id.0, extent.offset),
            Operation::Discard { extent, .. } => ("discard", r.id.0, extent.offset),
            Operation::Flush => ("flush", r.id.0, 0),
        },
        Event::CopyIo(io) => ("copy-io", io.name, io.on.copy().0),
        Event::StoreDone { io, outcome } => match outcome {
            StoreOutcome::Failed(_) | StoreOutcome::Refused(_) => ("store-failed", io.0, 0),
            _ => ("store-done", io.0, 0),
        },
        Event::SuperblockSaved { ok, sequence } => ("superblock-saved", u64::from(*ok), *sequence),
        Event::Kept { kept: Kept::Hot { ticket }, ok, .. } => ("hot-kept", *ticket, u64::from(*ok)),
        Event::Kept { kept: Kept::Marks { page }, ok, .. } => {
            ("marks-kept", u64::from(*page), u64::from(*ok))
        }
        Event::BeforeFound(found) => {
            ("before-found", found.copies.len() as u64, found.records.len() as u64)
        }
        Event::PoolDone(outcome) => {
            let failed = !matches!(outcome, PoolOutcome::Done | PoolOutcome::Loaded(_));
            ("pool-done", u64::from(failed), 0)
        }
        Event::Recorded { ok, .. } => ("layer-recorded", u64::from(*ok), 0),
        Event::Compared { name, equal } => ("compared", *name, u64::from(*equal)),
        Event::Connected => ("connected", 0, 0),
        Event::Disconnected { .. } => ("disconnected", 0, 0),
        Event::DialFailed { began } => ("dial-failed", began.0, 0),
        Event::LinkTook { bytes } => ("link-took", *bytes, 0),
        Event::LinkMeasured { round_trip, rate } => {
            ("link-measured", u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX), rate.0)
        }
        Event::Message(message) => of_message(message),
        Event::Command { id, command } => of_command(*id, command),
        Event::Reconfigure { .. } => ("reconfigure", 0, 0),
        Event::Calendar(at) => ("calendar", at.0, 0),
        Event::VerifyRemembered(_) => ("verify-remembered", 0, 0),
        Event::HookAnswered { question, refused } => {
            ("hook-answered", u64::from(refused.is_none()), question.0)
        }
        Event::Held { by } => ("held", u64::from(by.is_some()), 0),
        Event::Used { volumes } => ("used", *volumes, 0),
        Event::Layers(setting) => of_setting(*setting),
        Event::MetadataFault { .. } => ("metadata-fault", 0, 0),
        Event::Disks(disks) => ("disks", disks.len() as u64, 0),
        Event::Tick => ("tick", 0, 0),
    }
}

const fn of_setting(setting: LayerSetting) -> (&'static str, u64, u64) {
    match setting {
        LayerSetting::ReadCost { leg, cost } => {
            ("read-cost", (leg.volume.0 as u64) << 8 | leg.member.0 as u64, cost as u64)
        }
        LayerSetting::MergeDelay(factor) => ("merge-delay", factor as u64, 0),
        LayerSetting::Background(volumes) => ("background", volumes, 0),
        LayerSetting::Distrust(leg) => {
            ("distrust", (leg.volume.0 as u64) << 8 | leg.member.0 as u64, 0)
        }
        LayerSetting::Unnamed(leg) => {
            ("unnamed", (leg.volume.0 as u64) << 8 | leg.member.0 as u64, 0)
        }
        LayerSetting::LetCool => ("let-cool", 0, 0),
    }
}

fn of_reading(talk: &Reading) -> (&'static str, u64, u64) {
    match talk {
        Reading::Wanted { extent, .. } => ("peer-wants-read", extent.offset, extent.length),
        Reading::Told { ticket, .. } => ("peer-tells-read", *ticket, 0),
    }
}

fn of_message(message: &Message) -> (&'static str, u64, u64) {
    match message {
        Message::Hello(h) => ("peer-hello", h.incarnation, h.head.0),
        Message::Start(s) => ("peer-start", s.from.0, u64::from(s.consistent)),
        Message::Item(i) => ("peer-item", i.sequence.0, i.after.0),
        Message::Ack(a) => ("peer-ack", a.completed.0, a.durable.0),
        Message::Ping(p) => ("peer-ping", p.token, p.accepted.0),
        Message::Pong { token, flushing, .. } => ("peer-pong", *token, u64::from(*flushing)),
        Message::Goodbye { .. } => ("peer-goodbye", 0, 0),
        Message::PromoteRequest { durable, .. } => ("peer-asks-promotion", durable.0, 0),
        Message::PromoteReply { granted, .. } => ("peer-answers-promotion", u64::from(*granted), 0),
        Message::Copying(talk) => of_copying(talk),
        Message::Roles(Roles::SwitchWanted) => ("peer-wants-switch", 0, 0),
        Message::Roles(Roles::Invite { head, .. }) => ("peer-invites", head.0, 0),
        Message::Roles(Roles::Row { .. }) => ("peer-tells-row", 0, 0),
        Message::Lease(Lease::Wanted { number, millis }) => {
            ("peer-wants-lease", *number, u64::from(*millis))
        }
        Message::Lease(Lease::Granted { number, millis }) => {
            ("peer-grants-lease", *number, u64::from(*millis))
        }
        Message::Invalid(Invalid::Failed { generation }) => {
            ("peer-metadata-failed", generation.number, 0)
        }
        Message::Invalid(Invalid::Recorded) => ("peer-recorded-metadata", 0, 0),
        Message::Lease(Lease::Returned) => ("peer-returns-lease", 0, 0),
        Message::Reading(talk) => of_reading(talk),
        Message::Report(report) => {
            ("peer-reports", report.differing, u64::from(!report.fault.is_empty()))
        }
        Message::Disks(disks) => ("peer-disks", disks.len() as u64, 0),
        Message::Snapshot(Snapshot { at, act, .. }) => {
            ("peer-announces", at.0, u64::from(!matches!(act, SnapshotAct::Delete(_))))
        }
    }
}

fn of_command(id: CommandId, command: &Command) -> (&'static str, u64, u64) {
    match command {
        Command::Promote { force } => ("promote", id.0, u64::from(*force)),
        Command::Restore { force } => ("restore", id.0, u64::from(*force)),
        Command::GiveUpSafeCopy => ("give-up-safe-copy", id.0, 0),
        Command::Demote => ("demote", id.0, 0),
        Command::Yield { generation, .. } => ("yield", id.0, generation.number),
        Command::Switch => ("switch", id.0, 0),
        Command::Pause => ("pause", id.0, 0),
        Command::Resume => ("resume", id.0, 0),
        Command::Resync => ("resync", id.0, 0),
        Command::Mode(mode) => ("mode", id.0, *mode as u64),
        Command::FullResync => ("full-resync", id.0, 0),
        Command::ResetQueueMarks => ("reset-queue-marks", id.0, 0),
        Command::Stop => ("stop", id.0, 0),
        Command::Verify(wish) => ("verify", id.0, u64::from(wish.repair)),
        Command::StopVerify => ("stop-verify", id.0, 0),
        Command::SeedBegin { at } => ("seed-begin", id.0, *at),
        Command::SeedEnd => ("seed-end", id.0, 0),
        Command::Replace { volume, .. } => ("replace", id.0, u64::from(volume.0)),
        Command::Accept { volume } => ("accept", id.0, u64::from(volume.0)),
        Command::Reverse(wish) => ("reverse", id.0, u64::from(wish.full)),
        Command::Snapshot(SnapshotAct::Create(_)) => ("snapshot-create", id.0, 0),
        Command::Snapshot(SnapshotAct::Refresh(_)) => ("snapshot-refresh", id.0, 0),
        Command::Snapshot(SnapshotAct::Delete(_)) => ("snapshot-delete", id.0, 0),
        Command::RestoreSnapshot(_) => ("snapshot-restore", id.0, 0),
        Command::SnapshotHere(SnapshotAct::Create(_)) => ("snapshot-create-here", id.0, 0),
        Command::SnapshotHere(SnapshotAct::Refresh(_)) => ("snapshot-refresh-here", id.0, 0),
        Command::SnapshotHere(SnapshotAct::Delete(_)) => ("snapshot-delete-here", id.0, 0),
        Command::Set(SetOp::Add { leg, .. }) => ("member-add", id.0, u64::from(leg.member.0)),
        Command::Set(SetOp::Remove { leg, .. }) => ("member-remove", id.0, u64::from(leg.member.0)),
        Command::Set(SetOp::Merge(volume)) => ("member-merge", id.0, u64::from(volume.0)),
    }
}

fn of_copying(talk: &Copying) -> (&'static str, u64, u64) {
    match talk {
        Copying::MarksWanted => ("peer-wants-marks", 0, 0),
        Copying::Marks { page, .. } => ("peer-marks", u64::from(*page), 0),
        Copying::MarksEnd { trusted } => ("peer-marks-end", u64::from(*trusted), 0),
        Copying::DigestsWanted { extent, .. } => {
            ("peer-wants-digests", extent.offset, extent.length)
        }
        Copying::Digests { extent, .. } => ("peer-digests", extent.offset, extent.length),
        Copying::EmptyWanted { extent, .. } => {
            ("peer-wants-emptiness", extent.offset, extent.length)
        }
        Copying::Empty { extent, empty, .. } => {
            ("peer-emptiness", extent.offset, u64::from(*empty))
        }
        Copying::NoRoom { wanted, free } => ("peer-has-no-room", *wanted, *free),
        Copying::Differs { extent, sequence, .. } => ("peer-differs", sequence.0, extent.offset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Request;
    use helio_format::message::Start;
    use helio_units::{Extent, Payload, PayloadId, RequestId, Sequence, VolumeIndex};

    #[test]
    fn the_recorder_keeps_the_last_and_forgets_the_first() {
        let mut recorder = Recorder::default();
        for n in 0..RECORDS as u64 + 10 {
            recorder.record(Moment(n), &Event::LinkTook { bytes: n });
        }
        let records = recorder.dump();
        assert_eq!(
            (records.len(), records[0].a, records[RECORDS - 1].a),
            (RECORDS, 10, RECORDS as u64 + 9)
        );
    }

    #[test]
    fn a_request_is_recorded_with_its_volume_and_its_place() {
        let extent = Extent::new(8192, 4096);
        let payload = Payload { id: PayloadId(1), length: 4096 };
        let operations = [
            ("read", Operation::Read(extent)),
            ("write", Operation::Write { extent, payload, fua: false }),
            ("zero", Operation::Zero { extent, punch: false, fua: false }),
            ("discard", Operation::Discard { extent, fua: false }),
            ("flush", Operation::Flush),
        ];
        let mut recorder = Recorder::default();
        for (n, (_, operation)) in operations.into_iter().enumerate() {
            let (id, volume) = (RequestId(n as u64), VolumeIndex(3));
            recorder.record(Moment(7), &Event::Request(Request { id, volume, operation }));
        }
        for (n, record) in recorder.dump().into_iter().enumerate() {
            let (what, operation) = operations[n];
            let flush = operation == Operation::Flush;
            let (b, length) = if flush { (0, 0) } else { (8192, 4096) };
            let a = n as u64;
            assert_eq!(record, Record { at: Moment(7), what, a, b, length, volume: 3 });
        }
    }

    #[test]
    fn a_message_is_recorded_with_its_kind_and_its_positions() {
        let lineage = helio_format::lineage::Lineage::default();
        let (consistent, keep, whole, to_copy, stream) = (true, false, false, 0, 1);
        let (from, ships) = (Sequence(9), false);
        let start = Start { lineage, from, consistent, keep, whole, to_copy, stream, ships };
        let told =
            Message::Pong { token: 5, flushing: true, waits: false, short: false, metadata: 0 };
        let messages = [
            (Message::Start(start), ("peer-start", 9, 1)),
            (told, ("peer-pong", 5, 1)),
            (
                Message::Lease(Lease::Wanted { number: 2, millis: 400 }),
                ("peer-wants-lease", 2, 400),
            ),
            (Message::Copying(Copying::MarksEnd { trusted: true }), ("peer-marks-end", 1, 0)),
        ];
        for (message, expected) in messages {
            let mut recorder = Recorder::default();
            recorder.record(Moment(7), &Event::Message(message));
            let record = recorder.dump()[0];
            assert_eq!((record.what, record.a, record.b), expected);
        }
    }

    #[test]
    fn a_command_is_recorded_with_its_number_and_what_it_asks_for() {
        let commands = [
            (Command::Promote { force: true }, ("promote", 4, 1)),
            (Command::Demote, ("demote", 4, 0)),
            (Command::SeedBegin { at: 77 }, ("seed-begin", 4, 77)),
            (Command::Accept { volume: VolumeIndex(3) }, ("accept", 4, 3)),
        ];
        for (command, expected) in commands {
            let mut recorder = Recorder::default();
            recorder.record(Moment(7), &Event::Command { id: CommandId(4), command });
            let record = recorder.dump()[0];
            assert_eq!((record.what, record.a, record.b), expected);
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Events and effects in a few words each, for the story of a run.

use helio_engine::{
    Answer, Command, Effect, Event, Keep, Operation, PoolOp, ReadAs, SetOp, StoreOp, StoreOutcome,
};
use helio_format::lineage::Lineage;
use helio_format::message::{Hello, Item, ItemKind, Message};
use helio_format::superblock::Superblock;
use helio_units::{Extent, Payload};

/// What an engine is told; nothing where it is not worth a line.
pub(crate) fn of_event(event: &Event) -> Option<String> {
    Some(match event {
        Event::Request(request) => {
            let what = of_operation(request.operation);
            format!("<- request {}: {what} of volume {}", request.id.0, request.volume.0)
        }
        Event::StoreDone { io, outcome } => match outcome {
            StoreOutcome::Done => format!("<- io {} done", io.0),
            StoreOutcome::Read { zero, .. } => format!("<- io {} read, zeros {zero}", io.0),
            StoreOutcome::Digests(list) => format!("<- io {} read, {} digests", io.0, list.len()),
            StoreOutcome::Empty(empty) => format!("<- io {} looked, empty {empty}", io.0),
            StoreOutcome::Differing(runs) => {
                format!("<- io {} read, {} runs differ", io.0, runs.len())
            }
            StoreOutcome::Verified(runs) => format!("<- io {} compared, differing {runs:?}", io.0),
            StoreOutcome::Refused(_) => format!("<- io {} refused, untouched", io.0),
            StoreOutcome::Failed(fault) | StoreOutcome::CopyFailed(fault) => {
                format!("<- io {} FAILED: {fault}", io.0)
            }
        },
        Event::Kept { kept, ok, .. } => format!("<- kept {kept:?}: {ok}"),
        Event::SuperblockSaved { ok, .. } => format!("<- superblock saved: {ok}"),
        Event::BeforeFound(found) => {
            let heads: Vec<_> = found.copies.iter().map(|copy| copy.image.head.0).collect();
            format!("<- copies of items {heads:?}, {} chunks", found.records.len())
        }
        Event::Recorded { ok, .. } => format!("<- members recorded: {ok}"),
        Event::CopyIo(io) => format!("<- {:?} on copy {}", io.op, io.on),
        Event::Compared { equal, .. } => format!("<- compared, equal: {equal}"),
        Event::PoolDone(outcome) => format!("<- before-images: {outcome:?}"),
        Event::Connected => "<- connected".to_owned(),
        Event::Message(message) => format!("<- {}", of_message(message)),
        Event::Disconnected { why } => format!("<- disconnected: {why}"),
        Event::DialFailed { began } => format!("<- a dial of {began:?} failed"),
        Event::LinkMeasured { round_trip, rate } => {
            format!("<- link measured: {round_trip:?}, {rate}")
        }
        Event::Command { id, command } => format!("<- command {}: {}", id.0, of_command(*command)),
        Event::Reconfigure { .. } => "<- configuration changed".to_owned(),
        Event::Calendar(at) => format!("<- calendar: {at}"),
        Event::VerifyRemembered(memory) => format!("<- verify remembered: {memory:?}"),
        Event::HookAnswered { refused, .. } => format!("<- hook answered: {refused:?}"),
        Event::MetadataFault { what, .. } => format!("<- metadata fault {what}"),
        Event::Held { by } => format!("<- held by {by:?}"),
        Event::Disks(disks) => format!("<- disks: {disks:?}"),
        Event::Used { volumes } => format!("<- used: volumes {volumes:#b}"),
        Event::Layers(setting) => format!("<- layers: {setting:?}"),
        Event::Tick | Event::LinkTook { .. } => return None,
    })
}

/// What an engine asks for; nothing where it is not worth a line.
pub(crate) fn of_effect(effect: &Effect) -> Option<String> {
    Some(match effect {
        Effect::Keep(Keep::Hot { ticket, add, remove }) => {
            format!("-> keep hot extents #{ticket}: +{add:?} -{remove:?}")
        }
        Effect::Keep(Keep::Marks { page, bits }) => {
            let ones: u32 = bits.iter().map(|word| word.count_ones()).sum();
            format!("-> keep page {page} of marks, {ones} set")
        }
        Effect::Reply { request, answer } => match answer {
            Answer::Done(_) => format!("-> answer {}: done", request.0),
            Answer::Branch => format!("-> answer {}: done on a branch", request.0),
            Answer::Read(_) => format!("-> answer {}: read", request.0),
            Answer::Denied(denial) => format!("-> answer {}: DENIED, {denial:?}", request.0),
        },
        Effect::Store { io, leg, op, read_as } => {
            let member = match leg.member.0 {
                0 => String::new(),
                n => format!(", member {n}"),
            };
            let op = of_store_op(*op, read_as);
            format!("-> io {}: {op} of volume {}{member}", io.0, leg.volume.0)
        }
        Effect::Record(record) => format!("-> record {record:?}"),
        Effect::Compare { pair, .. } => format!("-> compare {pair:?}"),
        Effect::Look { io, volume, extent, read_as, .. } => {
            let read = StoreOp::Read { extent: *extent };
            format!("-> look {}: {} of volume {}", io.0, of_store_op(read, read_as), volume.0)
        }
        Effect::Send(message) => format!("-> {}", of_message(message)),
        Effect::Hangup { why, refused } => format!("-> hang up, refused {refused}: {why}"),
        Effect::SaveSuperblock(record) => format!("-> save {}", of_record(record)),
        Effect::Pool(PoolOp::Append { rows, .. }) => format!("-> preserve {} rows", rows.len()),
        Effect::Pool(op) => format!("-> before-images: {op:?}"),
        Effect::PauseReceiving(pause) => format!("-> pause receiving: {pause}"),
        Effect::CommandDone { id, result } => match result {
            Ok(done) => format!("-> command {} done: {}", id.0, done.text),
            Err(refusal) => {
                format!("-> command {} refused, {}: {}", id.0, refusal.code, refusal.text)
            }
        },
        Effect::Note(note) => format!("   \"{}\"", note.text),
        Effect::Stopped => "-> stopped".to_owned(),
        Effect::DismissClients => "-> let clients go".to_owned(),
        Effect::AskHook(_) => "-> ask the hook".to_owned(),
        Effect::Release(_) => return None,
    })
}

fn of_record(b: &Superblock) -> String {
    format!(
        "{} {}, head {}, clean {}, consistent {}, wrote {}, equal {}",
        b.role,
        of_lineage(&b.lineage),
        b.head,
        b.clean,
        b.consistent,
        b.wrote,
        b.equal
    )
}

fn of_lineage(lineage: &Lineage) -> String {
    let mut words = lineage.generation.to_string();
    for ancestor in lineage.ancestors().iter().take(3) {
        words += &format!(" < {}@{}", ancestor.generation, ancestor.fork);
    }
    words
}

fn of_command(command: Command) -> String {
    match command {
        Command::Promote { force } => format!("promote, force {force}"),
        Command::Restore { force } => format!("promote and restore, force {force}"),
        Command::GiveUpSafeCopy => "resync, give the safe copy up".to_owned(),
        Command::Mode(mode) => format!("mode {mode}"),
        Command::Demote => "demote".to_owned(),
        Command::Yield { generation, .. } => format!("yield {generation}"),
        Command::Switch => "switch".to_owned(),
        Command::Pause => "pause".to_owned(),
        Command::Resume => "resume".to_owned(),
        Command::Resync => "resync".to_owned(),
        Command::FullResync => "full resync".to_owned(),
        Command::Reverse(wish) => format!("reverse, everywhere: {}", wish.full),
        Command::Replace { volume, .. } => format!("replace the disk of volume {}", volume.0),
        Command::Accept { volume } => format!("accept the suspect copy of volume {}", volume.0),
        Command::ResetQueueMarks => "reset queue marks".to_owned(),
        Command::Stop => "stop".to_owned(),
        Command::Verify(wish) => format!("verify, repair {}", wish.repair),
        Command::StopVerify => "stop the verify".to_owned(),
        Command::SeedBegin { .. } => "seed begin".to_owned(),
        Command::SeedEnd => "seed end".to_owned(),
        Command::Snapshot(act) => format!("snapshot: {act:?}"),
        Command::RestoreSnapshot(name) => format!("restore snapshot {name}"),
        Command::SnapshotHere(act) => format!("snapshot here: {act:?}"),
        Command::Set(SetOp::Add { leg, by_bitmap }) => {
            format!("add member {} of volume {}, by bitmap {by_bitmap}", leg.member.0, leg.volume.0)
        }
        Command::Set(SetOp::Remove { leg, force }) => {
            format!("remove member {} of volume {}, force {force}", leg.member.0, leg.volume.0)
        }
        Command::Set(SetOp::Merge(volume)) => format!("merge volume {}", volume.0),
    }
}

fn flags(flags: &[(bool, &'static str)]) -> String {
    flags.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect()
}

/// Offsets and lengths in blocks.
fn blocks(extent: Extent) -> String {
    let block = crate::BLOCK.0;
    format!("{}+{}", extent.offset / block, extent.length / block)
}

fn of_operation(operation: Operation) -> String {
    match operation {
        Operation::Read(extent) => format!("read {}", blocks(extent)),
        Operation::Write { extent, fua, .. } => {
            format!("write {}{}", blocks(extent), flags(&[(fua, " fua")]))
        }
        Operation::Zero { extent, fua, .. } => {
            format!("zero {}{}", blocks(extent), flags(&[(fua, " fua")]))
        }
        Operation::Discard { extent, fua } => {
            format!("discard {}{}", blocks(extent), flags(&[(fua, " fua")]))
        }
        Operation::Flush => "flush".to_owned(),
    }
}

fn of_store_op(op: StoreOp, read_as: &ReadAs) -> String {
    match op {
        StoreOp::Read { extent } => match read_as {
            ReadAs::Bytes | ReadAs::BytesOrZero | ReadAs::Runs { .. } => {
                of_operation(Operation::Read(extent))
            }
            ReadAs::Digests { .. } | ReadAs::DigestPayload => {
                format!("digests of {}", blocks(extent))
            }
            ReadAs::Differing { .. } | ReadAs::Unequal { .. } => {
                format!("compare {}", blocks(extent))
            }
        },
        StoreOp::Map { extent } => format!("is {} empty", blocks(extent)),
        StoreOp::Write { extent, payload, fua } => {
            of_operation(Operation::Write { extent, payload, fua })
        }
        StoreOp::Zero { extent, punch, fua } => {
            of_operation(Operation::Zero { extent, punch, fua })
        }
        StoreOp::Discard { extent, fua } => of_operation(Operation::Discard { extent, fua }),
        StoreOp::Flush => of_operation(Operation::Flush),
    }
}

fn of_message(message: &Message) -> String {
    match message {
        Message::Hello(hello) => of_hello(hello),
        Message::Start(start) => format!(
            "start of {} from {}, consistent {}, keep {}, to copy {}",
            of_lineage(&start.lineage),
            start.from,
            start.consistent,
            start.keep,
            start.to_copy
        ),
        Message::Item(item) => of_item(item),
        Message::Ack(ack) => format!(
            "ack received {}, completed {}, durable {}, and {:?}",
            ack.received,
            ack.completed,
            ack.durable,
            ack.ranges.as_slice().iter().map(|(a, b)| (a.0, b.0)).collect::<Vec<_>>()
        ),
        Message::Ping(ping) => {
            let state = ping.state.map_or("no state", helio_units::State::word);
            format!("ping {}, {state}{}", ping.token, flags(&[(ping.hurry, ", hurry")]))
        }
        Message::Copying(talk) => format!("{talk:?}"),
        Message::Roles(talk) => format!("{talk:?}"),
        Message::Lease(talk) => format!("{talk:?}"),
        Message::Invalid(talk) => format!("{talk:?}"),
        Message::Reading(talk) => format!("{talk:?}"),
        Message::Report(report) => format!("{report:?}"),
        Message::Snapshot(snapshot) => format!("{snapshot:?}"),
        Message::Disks(disks) => format!("{disks:?}"),
        Message::Pong { token, flushing, waits, short, .. } => {
            let said = [(*flushing, ", flushing"), (*waits, ", waits"), (*short, ", short")];
            format!("pong {token}{}", flags(&said))
        }
        Message::Goodbye { parting, text } => format!("goodbye, {parting:?}: {text}"),
        Message::PromoteRequest { generation, durable } => {
            format!("may I become primary, at {generation}:{durable}")
        }
        Message::PromoteReply { granted, text } => format!("promotion granted {granted} {text}"),
    }
}

fn of_hello(h: &Hello) -> String {
    format!(
        "hello of {} #{:04x}: {}{}, {}, head {}, received {}, durable {}",
        h.node,
        h.incarnation & 0xffff,
        h.role,
        flags(&[
            (h.serving, " serving"),
            (h.clean, " clean"),
            (h.wrote, " wrote"),
            (h.alone, " alone"),
            (h.trusted, " trusted"),
            (h.sure, " sure"),
            (!h.consistent, " INCONSISTENT")
        ]),
        of_lineage(&h.lineage),
        h.head,
        h.received,
        h.durable
    )
}

fn of_item(item: &Item) -> String {
    let Item { extent, fua, punch, .. } = *item;
    let what = match item.kind {
        ItemKind::Write => {
            of_operation(Operation::Write { extent, payload: Payload::default(), fua })
        }
        ItemKind::Zero => of_operation(Operation::Zero { extent, punch, fua }),
        ItemKind::Discard => of_operation(Operation::Discard { extent, fua }),
        ItemKind::Flush => of_operation(Operation::Flush),
        ItemKind::Consistent => "consistent".to_owned(),
        ItemKind::Same => format!("same at {extent}"),
        ItemKind::Verify => format!("verify {extent}"),
        ItemKind::Snapshot => "snapshot".to_owned(),
    };
    format!(
        "item {} after {}: {what}{} of volume {}",
        item.sequence,
        item.after,
        flags(&[(item.resync, " (copier)")]),
        item.volume.0
    )
}

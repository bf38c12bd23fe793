// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::before::CopyId;
use crate::copying::DIGESTS_MAX;
use crate::disks::DISKS_MAX;
use crate::lineage::ANCESTORS_MAX;
use crate::members::DiskMark;
use crate::snapshot::SnapshotAct;
use alloc::boxed::Box;
use alloc::vec;
use helio_units::{Bytes, CopyName};
use proptest::prelude::*;

fn generation() -> impl Strategy<Value = Generation> {
    (counted(), any::<u64>()).prop_map(|(number, tag)| Generation { number, tag })
}

/// What a peer counts.
fn counted() -> impl Strategy<Value = u64> {
    0..COUNTED_BELOW
}

fn counts<const N: usize>() -> impl Strategy<Value = [u64; N]> {
    any::<[u64; N]>().prop_map(|values| values.map(|value| value % COUNTED_BELOW))
}

fn lineage() -> impl Strategy<Value = Lineage> {
    prop::collection::vec((generation(), counted()), 1..ANCESTORS_MAX + 3).prop_map(|forks| {
        forks
            .iter()
            .fold(Lineage::default(), |l, (generation, at)| l.fork(*generation, Sequence(*at)))
    })
}

fn item() -> impl Strategy<Value = Message> {
    let kinds = prop::sample::select(ItemKind::ALL.to_vec());
    let place = (any::<u16>(), any::<u64>(), 1..PAYLOAD_BYTES_MAX);
    (1..COUNTED_BELOW, kinds, any::<[bool; 3]>(), place).prop_map(
        |(sequence, kind, flags, (volume, offset, length))| {
            let length = if kind == ItemKind::Verify { 16 * (1 + length % 256) } else { length };
            Message::Item(Item {
                sequence: Sequence(sequence),
                after: Sequence(sequence - 1),
                kind,
                fua: flags[0],
                punch: flags[1],
                resync: flags[2],
                volume: VolumeIndex(volume),
                extent: if kind.has_place() {
                    Extent::new(offset, u64::from(length))
                } else {
                    Extent::default()
                },
                payload: kind.has_payload().then_some(Payload { id: PayloadId(0), length }),
            })
        },
    )
}

fn copying() -> impl Strategy<Value = Copying> {
    let place = (any::<u16>(), any::<u32>(), 1..u32::MAX, any::<bool>()).prop_map(
        |(volume, offset, length, coarse)| {
            (VolumeIndex(volume), Extent::new(u64::from(offset), u64::from(length)), coarse)
        },
    );
    let word = any::<u64>();
    prop_oneof![
        Just(Copying::MarksWanted),
        (any::<u32>(), prop::option::of(word)).prop_map(|(page, word)| {
            let bits = word.map(|word| Box::new([word; crate::copying::PAGE_WORDS]));
            Copying::Marks { page, bits }
        }),
        any::<bool>().prop_map(|trusted| Copying::MarksEnd { trusted }),
        place.clone().prop_map(|(volume, extent, coarse)| Copying::DigestsWanted {
            volume,
            extent,
            coarse
        }),
        (place.clone(), prop::collection::vec(any::<[u8; 16]>(), 1..=DIGESTS_MAX)).prop_map(
            |((volume, extent, coarse), list)| Copying::Digests { volume, extent, coarse, list }
        ),
        any::<[u64; 2]>().prop_map(|[wanted, free]| Copying::NoRoom { wanted, free }),
        place.clone().prop_map(|(volume, extent, _)| Copying::EmptyWanted { volume, extent }),
        place.clone().prop_map(|(volume, extent, empty)| Copying::Empty { volume, extent, empty }),
        (place, counted()).prop_map(|((volume, extent, _), at)| {
            Copying::Differs { volume, extent, sequence: Sequence(at) }
        }),
    ]
}

fn roles() -> impl Strategy<Value = Roles> {
    prop_oneof![
        Just(Roles::SwitchWanted),
        (generation(), counted())
            .prop_map(|(generation, at)| Roles::Invite { generation, head: Sequence(at) }),
        "[a-z-]{0,64}".prop_map(|label| Roles::Row { label }),
    ]
}

fn reading() -> impl Strategy<Value = Reading> {
    let place = (any::<u16>(), any::<u32>(), 1..=PAYLOAD_BYTES_MAX, any::<bool>());
    let payload = (1..=PAYLOAD_BYTES_MAX).prop_map(|length| Payload { id: PayloadId(0), length });
    let what = prop_oneof![Just(Told::Zeros), payload.prop_map(Told::Bytes), Just(Told::Failed)];
    prop_oneof![
        (counts::<2>(), place).prop_map(|([ticket, at], (volume, offset, length, zeros))| {
            let extent = Extent::new(u64::from(offset), u64::from(length));
            let (after, volume) = (Sequence(at), VolumeIndex(volume));
            Reading::Wanted { ticket, after, volume, extent, zeros }
        }),
        (any::<u64>(), what).prop_map(|(ticket, what)| Reading::Told { ticket, what }),
    ]
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let act =
        prop::sample::select(vec![SnapshotAct::Create, SnapshotAct::Delete, SnapshotAct::Refresh]);
    let name = "[a-z0-9][a-zA-Z0-9._:-]{0,62}"
        .prop_filter_map("some names are reserved", |name| CopyName::new(&name));
    (counted(), act, name, any::<u64>()).prop_map(|(at, act, name, id)| Snapshot {
        at: Sequence(at),
        act: act(name),
        id: CopyId::of(id),
    })
}

fn disk() -> impl Strategy<Value = Disk> {
    (0..VOLUMES_MAX as u16, 1u128.., any::<bool>()).prop_map(|(volume, identity, whole)| Disk {
        volume: VolumeIndex(volume),
        mark: DiskMark::of(identity),
        whole,
    })
}

fn report() -> impl Strategy<Value = Report> {
    let mode = prop::option::of(prop::sample::select(Mode::ALL.to_vec()));
    (mode, any::<u64>(), prop::option::of(any::<u64>()), ".{0,100}").prop_map(
        |(effective, differing, only_here, fault)| Report {
            effective,
            paused: differing % 2 == 0,
            ahead: differing % 3 == 0,
            differing,
            only_here: only_here.map(Bytes),
            last_write: only_here.map(core::time::Duration::from_millis),
            hint: fault.clone(),
            fault,
        },
    )
}

fn hello() -> impl Strategy<Value = Message> {
    (any::<[bool; 8]>(), lineage(), counts::<5>(), "[a-z]{0,64}", report()).prop_map(
        |(f, lineage, n, name, report)| {
            Message::Hello(Hello {
                group: name.clone(),
                node: name,
                incarnation: n[0],
                role: if f[0] { Role::Primary } else { Role::Secondary },
                serving: f[1],
                clean: f[2],
                consistent: f[3],
                wrote: f[4],
                alone: f[5],
                trusted: f[6],
                sure: f[7],
                doubts: f[0] ^ f[7],
                discarded: f[1] ^ f[6],
                suspect: f[1] ^ f[7],
                keeps: f[2] ^ f[6],
                lineage,
                head: Sequence(n[2]),
                received: Sequence(n[3]),
                durable: Sequence(n[4]),
                granularity: n[0] as u32,
                metadata: n[1],
                remembers: n[2],
                sizes: n.to_vec(),
                blocks: vec![Blocks { member: 512 << (n[0] % 4), volume: 4096 }; 5],
                report,
            })
        },
    )
}

fn lease() -> impl Strategy<Value = Lease> {
    (0..3, any::<u64>(), any::<u32>()).prop_map(|(kind, number, millis)| match kind {
        0 => Lease::Wanted { number, millis },
        1 => Lease::Granted { number, millis },
        _ => Lease::Returned,
    })
}

fn any_pong([token, metadata]: [u64; 2]) -> Message {
    let says = |n| token % n == 0;
    Message::Pong { token, flushing: says(2), waits: says(5), short: says(3), metadata }
}

pub(crate) fn any_message() -> impl Strategy<Value = Message> {
    let start = (lineage(), counts::<2>(), any::<[bool; 2]>()).prop_map(
        |(lineage, [from, to_copy], [consistent, keep])| {
            Message::Start(Start {
                lineage,
                from: Sequence(from),
                consistent,
                keep,
                whole: keep,
                to_copy,
                stream: to_copy as u32,
                ships: to_copy % 2 == 1,
            })
        },
    );
    let ack = (0u64..1 << 60, 0u64..1000, prop::collection::vec(1u64..50, 0..RANGES_MAX)).prop_map(
        |(durable, gap, steps)| {
            let completed = Sequence(durable + gap);
            let (mut at, mut ranges) = (completed.0 + 1, Ranges::default());
            for step in steps {
                assert!(ranges.push_range(Sequence(at), Sequence(at + step)));
                at += step + 2;
            }
            Message::Ack(Ack {
                stream: gap as u32,
                received: Sequence(at),
                completed,
                durable: Sequence(durable),
                ranges,
            })
        },
    );
    prop_oneof![
        hello(),
        start,
        item(),
        ack,
        counts::<4>().prop_map(|n| Message::Ping(Ping {
            token: n[0],
            accepted: Sequence(n[1]),
            completed: Sequence(n[3]),
            metadata: n[2],
            backlog_bytes: n[2],
            backlog_items: n[3],
            backlog_age: n[0],
            hurry: n[0] % 2 == 0,
            state: State::ALL.get((n[1] % 8) as usize).copied(),
            mode: Mode::ALL.get((n[2] % 5) as usize).copied()
        })),
        counts::<2>().prop_map(any_pong),
        copying().prop_map(Message::Copying),
        roles().prop_map(Message::Roles),
        lease().prop_map(Message::Lease),
        generation().prop_map(|generation| Message::Invalid(Invalid::Failed { generation })),
        Just(Message::Invalid(Invalid::Recorded)),
        reading().prop_map(Message::Reading),
        report().prop_map(Message::Report),
        snapshot().prop_map(Message::Snapshot),
        prop::collection::vec(disk(), 0..=DISKS_MAX).prop_map(Message::Disks),
        (prop::sample::select(Parting::ALL.to_vec()), ".{0,100}")
            .prop_map(|(parting, text)| Message::Goodbye { parting, text }),
        (generation(), counted()).prop_map(|(generation, durable)| {
            Message::PromoteRequest { generation, durable: Sequence(durable) }
        }),
        (any::<bool>(), ".{0,100}")
            .prop_map(|(granted, text)| Message::PromoteReply { granted, text }),
    ]
}

proptest! {
    #[test]
    fn every_message_comes_back_as_it_was_sent(message in any_message()) {
        let mut body = Vec::new();
        message.encode(&mut body);
        prop_assert!(body.len() <= BODY_BYTES_MAX);
        prop_assert_eq!(Message::decode(message.code(), &body, message.payload_length()), Ok(message));
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(
        code in any::<u8>(), length in any::<u32>(), body in prop::collection::vec(any::<u8>(), 0..200)
    ) {
        let _refused_or_not = Message::decode(code, &body, length);
    }

    #[test]
    fn a_byte_more_or_less_is_refused(message in any_message()) {
        let mut body = Vec::new();
        message.encode(&mut body);
        body.push(0);
        prop_assert!(Message::decode(message.code(), &body, message.payload_length()).is_err());
        body.pop();
        prop_assert!(body.pop().is_none() || Message::decode(message.code(), &body, message.payload_length()).is_err());
    }
}

#[test]
fn ranges_grow_in_place_and_are_bounded() {
    let mut ranges = Ranges::default();
    assert!(ranges.push(Sequence(5)) && ranges.push(Sequence(6)) && ranges.push(Sequence(9)));
    assert_eq!(ranges.as_slice(), &[(Sequence(5), Sequence(6)), (Sequence(9), Sequence(9))]);
    for n in 0..14 {
        assert!(ranges.push(Sequence(20 + 2 * n)));
    }
    assert!(!ranges.push(Sequence(100)), "the seventeenth range was taken");
}

#[test]
fn a_long_text_is_cut_at_a_character() {
    let text: String = core::iter::repeat_n('é', 400).collect();
    let mut body = Vec::new();
    Message::Goodbye { parting: Parting::Refused, text }.encode(&mut body);
    let Ok(Message::Goodbye { text, .. }) = Message::decode(7, &body, 0) else {
        panic!("not read")
    };
    assert_eq!(text.chars().count(), 256);
}

/// One more of it would not fit into a record, or not into its type.
#[test]
fn a_count_that_a_record_could_not_go_on_from_is_refused() {
    let ping = |metadata| Message::Ping(Ping { metadata, ..Ping::default() });
    let pong = |metadata| Message::Pong {
        token: 1,
        flushing: false,
        waits: false,
        short: false,
        metadata,
    };
    let start = |number| {
        let lineage = Lineage::default().fork(Generation { number, tag: 1 }, Sequence(1));
        let (from, to_copy, stream) = (Sequence(1), 0, 1);
        let (consistent, keep, whole) = (true, false, true);
        Message::Start(Start {
            lineage,
            from,
            consistent,
            keep,
            whole,
            to_copy,
            stream,
            ships: whole,
        })
    };
    let decodes = |message: Message| {
        let mut body = Vec::new();
        message.encode(&mut body);
        Message::decode(message.code(), &body, 0).is_ok()
    };
    for (value, fits) in [(COUNTED_BELOW - 1, true), (COUNTED_BELOW, false), (u64::MAX, false)] {
        assert_eq!(decodes(ping(value)), fits, "ping, {value}");
        assert_eq!(decodes(pong(value)), fits, "pong, {value}");
        assert_eq!(decodes(start(value)), fits, "start, {value}");
    }
    let invite =
        |at| Message::Roles(Roles::Invite { generation: Generation::NONE, head: Sequence(at) });
    assert!(decodes(invite((1 << 63) - 1)) && !decodes(invite(1 << 63)), "a position");
}

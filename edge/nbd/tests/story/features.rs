// SPDX-License-Identifier: Apache-2.0
//! What clients may agree on beyond the plain protocol: chunks, contexts, extended headers.

use crate::memory::{Disk, Server, pair};
use helio_nbd::{
    Client, ClientError, ClientOptions, Context, Contexts, Cookie, ErrorCode, Form, StatusExtent,
    TransmissionFlags, status,
};
use helio_units::{Bytes, Extent};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const FORMS: [Form; 3] = [Form::Simple, Form::Structured, Form::Extended];

/// A disk of 1 MiB with data from 64 KiB to 128 KiB, of which the second half is marked.
fn disk() -> Arc<Disk> {
    let mut disk = Disk::new(Bytes::mib(1));
    disk.bytes.lock().unwrap()[64 << 10..128 << 10].fill(7);
    disk.marked = Extent::new(96 << 10, 32 << 10);
    disk.export.fast_zero = true;
    Arc::new(disk)
}

fn client(disk: &Arc<Disk>, form: Form, contexts: Contexts) -> Client {
    let (stream, _server) = pair(disk);
    Client::over_unix_with(stream, "db/data", ClientOptions { form, contexts }).unwrap()
}

fn run(length: u64, flags: u32) -> StatusExtent {
    StatusExtent { length, flags }
}

#[test]
fn every_form_serves_the_whole_volume() {
    for form in FORMS {
        let disk = disk();
        let mut client = client(&disk, form, Contexts::NONE);
        assert_eq!(client.form(), form);
        client.write(4096, &[9; 5000], true).unwrap();
        client.write_zeroes(100 << 10, Bytes(4096), false, false).unwrap();
        client.trim(104 << 10, Bytes(4096), false).unwrap();
        client.fast_zeroes(108 << 10, Bytes(4096)).unwrap();
        client.cache(0, Bytes(123)).unwrap();
        client.flush().unwrap();
        let mut back = vec![0xff; 1 << 20];
        client.read(0, &mut back).unwrap();
        assert!(back == *disk.bytes.lock().unwrap(), "{form:?}");
        assert_eq!(back[100 << 10..112 << 10], [0; 12 << 10]);
        assert_eq!(disk.warmed.load(Ordering::SeqCst), 123);
        let error = client.cache(1 << 20, Bytes(1)).unwrap_err();
        let ClientError::Failed { source, .. } = error else { panic!("{error}") };
        assert_eq!(source.code, ErrorCode::Invalid);
        assert_eq!(source.message.is_empty(), form == Form::Simple);
        client.disconnect().unwrap();
    }
}

#[test]
fn every_form_has_an_error_for_what_is_unaligned_or_too_long() {
    for form in FORMS {
        let mut disk = Disk::new(Bytes::mib(128));
        disk.export.minimum_block = 512;
        let (mut sender, mut receiver) = client(&Arc::new(disk), form, Contexts::NONE).split();
        let mut code = |sent: Result<(), ClientError>| {
            sent.expect("is sent");
            receiver.receive().expect("is answered").result.map(drop).map_err(|error| error.code)
        };
        let (one, long) = (Cookie(1), 33 << 20);
        assert_eq!(code(sender.send_read(one, 0, 1)), Err(ErrorCode::Invalid), "{form:?}");
        assert_eq!(code(sender.send_write(one, 1, &[9; 512], false)), Err(ErrorCode::Invalid));
        assert_eq!(code(sender.send_read(one, 0, long)), Err(ErrorCode::Overflow));
        let data = vec![9; long as usize];
        assert_eq!(code(sender.send_write(one, 0, &data, false)), Err(ErrorCode::Invalid));
        // The payload was skipped, and nothing of it written.
        assert_eq!(code(sender.send_read(one, 0, 512)), Ok(()), "{form:?}");
        sender.send_disconnect().expect("leaves");
    }
}

#[test]
fn zeroes_come_as_holes_unless_one_piece_is_wanted() {
    for form in FORMS {
        let (mut sender, mut receiver) = client(&disk(), form, Contexts::NONE).split();
        sender.send_read(Cookie(1), 0, 1 << 20).unwrap();
        let reply = receiver.receive().unwrap();
        let data = reply.result.unwrap();
        assert!(data[64 << 10..128 << 10].iter().all(|byte| *byte == 7));
        let zeroes = data.iter().filter(|byte| **byte == 0).count();
        assert_eq!(zeroes, (1 << 20) - (64 << 10));
        let holes = [Extent::new(0, 64 << 10), Extent::new(128 << 10, (1 << 20) - (128 << 10))];
        if form == Form::Simple {
            assert!(reply.holes.is_empty());
            let whole = sender.send_read_whole(Cookie(2), 0, 1 << 20);
            assert!(matches!(whole, Err(ClientError::NotOffered(_))));
            continue;
        }
        assert_eq!(reply.holes, holes);
        sender.send_read_whole(Cookie(2), 0, 1 << 20).unwrap();
        let reply = receiver.receive().unwrap();
        assert_eq!((reply.result, reply.holes), (Ok(data), Vec::new()));
    }
}

#[test]
fn contexts_tell_what_is_allocated_and_what_is_marked() {
    for form in [Form::Structured, Form::Extended] {
        let mut client = client(&disk(), form, Contexts::ALL);
        assert_eq!(client.contexts(), Contexts::ALL);
        let free = status::HOLE | status::ZERO;
        let told = client.block_status(0, Bytes::mib(1), false).unwrap();
        let kib = |count: u64| count << 10;
        let allocation = vec![run(kib(64), free), run(kib(64), 0), run(kib(896), free)];
        let marks = vec![run(kib(96), 0), run(kib(32), status::MARKED), run(kib(896), 0)];
        // The server says nothing of the last one.
        let unknown = |length| (Context::Changed, vec![run(length, status::CHANGED)]);
        let marks = (Context::Marks, marks);
        assert_eq!(told, [(Context::Allocation, allocation), marks, unknown(1 << 20)]);
        let told = client.block_status(kib(100), Bytes(4096), true).unwrap();
        let marks = (Context::Marks, vec![run(4096, status::MARKED)]);
        let allocation = (Context::Allocation, vec![run(4096, 0)]);
        assert_eq!(told, [allocation, marks.clone(), unknown(4096)]);
        let only = Contexts::NONE.with(Context::Marks);
        let filtered = client.filtered_block_status(kib(100), Bytes(4096), only);
        match form {
            Form::Extended => assert_eq!(filtered.unwrap(), [marks]),
            _ => assert!(matches!(filtered, Err(ClientError::NotOffered(_)))),
        }
        let error = client.block_status(1 << 20, Bytes(1), false).unwrap_err();
        assert!(error.to_string().ends_with("exceeds the end of the export (EINVAL)"));
    }
}

#[test]
fn one_context_may_be_chosen_or_offered_alone() {
    let only = Contexts::NONE.with(Context::Marks);
    let mut chosen = client(&disk(), Form::Structured, only);
    let told = chosen.block_status(0, Bytes(4096), false).unwrap();
    assert_eq!(told, [(Context::Marks, vec![run(4096, 0)])]);

    let mut disk = Disk::new(Bytes::mib(1));
    disk.export.contexts = only;
    assert_eq!(client(&Arc::new(disk), Form::Extended, Contexts::ALL).contexts(), only);

    let mut disk = Disk::new(Bytes::mib(1));
    disk.export.contexts = Contexts::NONE;
    let mut none = client(&Arc::new(disk), Form::Extended, Contexts::ALL);
    assert!(matches!(none.block_status(0, Bytes(1), false), Err(ClientError::NotOffered(_))));
}

#[test]
fn contexts_are_listed_by_name() {
    let server = Server::start(&disk());
    let offered = Client::offered_contexts(server.socket(), "db/data").unwrap();
    assert_eq!(offered, ["base:allocation", "heliograph:marks", "heliograph:changed"]);
    let refused = Client::offered_contexts(server.socket(), "nowhere").unwrap_err();
    assert!(refused.to_string().contains("refused LIST_META_CONTEXT: no such export"));
}

#[test]
fn zeroes_that_would_be_slow_are_refused_at_once() {
    let mut client = client(&Arc::new(Disk::new(Bytes::mib(1))), Form::Extended, Contexts::NONE);
    let error = client.fast_zeroes(0, Bytes(4096)).unwrap_err();
    let ClientError::Failed { source, .. } = error else { panic!("{error}") };
    assert_eq!(source.code, ErrorCode::NotSupported);
    client.write_zeroes(0, Bytes(4096), false, false).unwrap();
}

#[test]
fn only_extended_headers_carry_lengths_of_more_than_32_bits() {
    for form in [Form::Structured, Form::Extended] {
        let (mut sender, mut receiver) = client(&disk(), form, Contexts::NONE).split();
        let sent = sender.send_trim(Cookie(1), 0, 5_u64 << 30, false);
        if form == Form::Structured {
            assert!(matches!(sent, Err(ClientError::Unsendable(_))));
            continue;
        }
        sent.unwrap();
        let error = receiver.receive().unwrap().result.unwrap_err();
        assert_eq!(error.to_string(), "exceeds the end of the export (EINVAL)");
    }
}

#[test]
fn a_copy_that_changes_elsewhere_promises_less() {
    let mut disk = Disk::new(Bytes::mib(1));
    (disk.export.read_only, disk.export.volatile) = (true, true);
    let server = Server::start(&Arc::new(disk));
    let listed = Client::list(server.socket()).unwrap();
    assert_eq!(listed[0].description, "read-only, changes as the primary writes: a disk in memory");
    let client = Client::connect_unix(server.socket(), "db/data").unwrap();
    assert!(client.flags().has(TransmissionFlags::READ_ONLY));
    for absent in [
        TransmissionFlags::CAN_MULTI_CONN,
        TransmissionFlags::SEND_TRIM,
        TransmissionFlags::SEND_WRITE_ZEROES,
        TransmissionFlags::SEND_FAST_ZERO,
    ] {
        assert!(!client.flags().has(absent));
    }
}

#[test]
fn a_server_that_cannot_do_more_is_used_as_it_is() {
    let (stream, _server) = pair(&disk());
    let options = ClientOptions { form: Form::Simple, contexts: Contexts::ALL };
    let client = Client::over_unix_with(stream, "db/data", options).unwrap();
    assert_eq!((client.form(), client.contexts()), (Form::Simple, Contexts::NONE));
}

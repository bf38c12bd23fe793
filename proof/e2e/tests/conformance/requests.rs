// SPDX-License-Identifier: Apache-2.0
//! What is asked of an export, and what is answered.

use crate::raw::Raw;
use crate::stage::{check, serving, socket, start, tell, wait_clients};
use helio_e2e::{number, wait, wait_level};
use helio_nbd::codec::{command, command_flag, option};
use helio_nbd::{Client, ClientError, ClientOptions, Context, Contexts, Cookie, ErrorCode, Form};
use helio_testkit::{Plan, require};
use helio_units::{Bytes, Mode};

#[test]
fn zeroes_travel_as_holes_and_with_df_in_one_chunk() {
    require!("python3-libnbd");
    let pair = serving();
    check(&pair, &["holes", &pair.export("paris", "data")]);
}

#[test]
fn allocation_reports_holes_on_sparse_members_and_zeroes_on_allocated_ones() {
    require!("python3-libnbd", "nbdinfo");
    let pair = serving();
    check(&pair, &["allocation", &pair.export("paris", "data"), "full"]);
    check(&pair, &["allocation", &pair.export("paris", "thin"), "sparse"]);
    let map = tell("nbdinfo", &["--map", "--json", &pair.export("paris", "thin")]).json();
    let kinds: Vec<_> = map.as_array().expect("a list").iter().map(|e| &e["type"]).collect();
    assert_eq!(kinds, [3, 0, 3], "{map}");
    let zero = tell("nbdinfo", &["--map", "--json", &pair.export("paris", "data")]).json();
    assert!(zero.as_array().expect("a list").iter().all(|e| e["type"] != 3), "{zero}");
}

#[test]
fn dirty_regions_show_what_was_written_without_the_queue() {
    require!("python3-libnbd");
    let pair = serving();
    check(&pair, &["unmarked", &pair.export("paris", "data")]);
    pair.helio("paris", &["pause", "db"]).expect_success();
    wait(&pair, "paris", "logging", |status| status["state"] == "logging");
    check(&pair, &["marked", &pair.export("paris", "data")]);
    pair.helio("paris", &["resync", "db"]).expect_success();
    wait_level(&pair, "paris");
    check(&pair, &["unmarked", &pair.export("paris", "data")]);
}

#[test]
fn long_trims_and_zeroes_are_done_with_and_without_fua() {
    require!("python3-libnbd");
    let pair = serving();
    check(&pair, &["effects", &pair.export("paris", "data")]);
    check(&pair, &["effects", &pair.export("paris", "thin")]);
}

#[test]
fn the_longest_read_and_write_have_32_mib() {
    require!("python3-libnbd");
    let pair = serving();
    check(&pair, &["largest", &pair.export("paris", "data")]);
}

#[test]
fn every_refusal_has_its_error_and_leaves_the_connection_usable() {
    require!("python3-libnbd");
    let pair = serving();
    check(&pair, &["errors", &pair.export("paris", "data")]);
}

#[test]
fn a_flush_covers_writes_that_were_acknowledged_on_other_connections() {
    require!("python3-libnbd");
    let pair = serving();
    check(&pair, &["barrier", &pair.export("paris", "data")]);
    let status = pair.status("paris");
    let cursors = &status["groups"][0]["cursors"];
    assert_eq!(cursors["durable"], cursors["accepted"], "{status}");
}

#[test]
fn unknown_commands_are_refused_and_a_payload_too_long_to_skip_ends_the_connection() {
    let mut pair = serving();
    let connect = || Raw::unix(&socket(&pair, "paris")).greet_well().enter("db/data");
    let mut raw = connect();
    for unknown in [command::RESIZE, 9, 0x7FFF] {
        raw.request(unknown, 0, 0, 512);
        assert_eq!(raw.answer(), Some(ErrorCode::Invalid), "command {unknown}");
    }
    raw.request(command::TRIM, command_flag::PAYLOAD_LEN, 0, 512);
    assert_eq!(raw.answer(), Some(ErrorCode::Invalid), "a flag of extended headers");
    raw.request(command::FLUSH, 0, 512, 0);
    assert_eq!(raw.answer(), Some(ErrorCode::Invalid), "a flush with a place");
    raw.request(command::READ, 0, 0, 0);
    assert_eq!(raw.answer(), Some(ErrorCode::Invalid), "a read of nothing");
    raw.request(command::FLUSH, 0, 0, 0);
    assert_eq!(raw.answer(), None);
    raw.request(command::WRITE, 0, 0, 65 << 20);
    raw.closed().expect("the server closes");
    let mut stray = connect();
    stray.say(&[0x55; 28]);
    stray.closed().expect("the server closes");
    let log = pair.daemon("paris").log();
    assert!(log.contains("client sent a payload of 68157440 bytes"), "{log}");
    assert!(log.contains("client sent 0x55555555 instead of a request"), "{log}");
}

#[test]
fn unaligned_or_too_long_requests_are_refused_in_every_form_and_no_client_waits() {
    let mut pair = serving();
    let (one, long, absurd) = (Cookie(1), vec![9; 33 << 20], vec![9; 65 << 20]);
    for form in [Form::Simple, Form::Structured, Form::Extended] {
        let options = ClientOptions { form, contexts: Contexts::NONE };
        let client = Client::connect_unix_with(socket(&pair, "paris"), "db/data", options);
        let (mut sender, mut receiver) = client.expect("connects").split();
        let mut code = |sent: Result<(), ClientError>| {
            sent.expect("is sent");
            receiver.receive().expect("is answered").result.map_err(|error| error.code)
        };
        let refused = |code| Err::<Vec<u8>, _>(code);
        assert_eq!(code(sender.send_read(one, 0, 1)), refused(ErrorCode::Invalid), "{form:?}");
        assert_eq!(code(sender.send_write(one, 1, &[9], false)), refused(ErrorCode::Invalid));
        assert_eq!(code(sender.send_read(one, 0, 33 << 20)), refused(ErrorCode::Overflow));
        assert_eq!(code(sender.send_read(one, 0, u32::MAX)), refused(ErrorCode::Overflow));
        assert_eq!(code(sender.send_write(one, 0, &long, false)), refused(ErrorCode::Invalid));
        assert_eq!(code(sender.send_read(one, 0, 512)), Ok(vec![0; 512]), "{form:?}");
        // Too long to skip: the connection ends, perhaps while the payload is still being sent.
        let _ = sender.send_write(one, 0, &absurd, false);
        receiver.receive().expect_err("the server closes");
    }
    // Each of the three forms; a line that repeats is logged once.
    let log = pair.daemon("paris").log();
    assert_eq!(log.matches("client sent a payload of 68157440 bytes").count(), 1, "{log}");
}

#[test]
fn a_client_of_export_name_has_an_error_for_each_request_of_one_byte() {
    let pair = serving();
    let mut raw = Raw::unix(&socket(&pair, "paris")).greet_well();
    raw.send_option(option::EXPORT_NAME, b"db/data");
    let _size_and_flags: [u8; 10] = raw.hear();
    for (command, offset, length) in [
        (command::READ, 0, 1),
        (command::READ, 1, 512),
        (command::TRIM, 0, 1),
        (command::WRITE_ZEROES, 511, 512),
    ] {
        raw.request(command, 0, offset, length);
        assert_eq!(raw.answer(), Some(ErrorCode::Invalid), "{command} {offset} {length}");
    }
    raw.request(command::WRITE, 0, 1, 3);
    raw.say(b"abc");
    assert_eq!(raw.answer(), Some(ErrorCode::Invalid));
    raw.request(command::READ, 0, 0, 512);
    assert_eq!((raw.answer(), raw.hear()), (None, [0; 512]));
}

#[test]
fn libnbd_gets_the_block_sizes_without_a_request() {
    require!("python3-libnbd");
    let pair = serving();
    check(&pair, &["unrequested_sizes", &pair.export("paris", "data")]);
}

#[test]
fn extended_headers_carry_lengths_beyond_4_gib_and_filtered_block_status() {
    const LARGE: u64 = 6 << 30;
    let pair = Plan::new("db").mode(Mode::Async).volume("data", Bytes(LARGE)).prepare();
    crate::stage::amend(&pair, "volume.data]\n", "volume.data]\nsparse = true\n");
    let pair = start(pair);
    let options = ClientOptions { form: Form::Extended, contexts: Contexts::ALL };
    let connect = || Client::connect_unix_with(socket(&pair, "paris"), "db/data", options);
    let mut client = connect().expect("connects");
    let offered = Contexts::NONE.with(Context::Allocation).with(Context::Marks);
    assert_eq!((client.form(), client.contexts()), (Form::Extended, offered));
    client.write(5 << 30, &[7; 4096], true).expect("writes");
    let status = client.block_status(0, Bytes(LARGE), false).expect("is told");
    assert_eq!(status.len(), 2, "{status:?}");
    let allocation = &status.iter().find(|(c, _)| *c == Context::Allocation).expect("is there").1;
    assert_eq!(allocation[0].length, 5 << 30, "{allocation:?}");
    let only = Contexts::NONE.with(Context::Marks);
    let filtered = client.filtered_block_status(0, Bytes(LARGE), only).expect("is told");
    assert!(filtered.len() == 1 && filtered[0].0 == Context::Marks, "{filtered:?}");
    client.trim(0, Bytes(LARGE), false).expect("trims");
    client.disconnect().expect("leaves");

    let (mut sender, mut receiver) = connect().expect("connects").split();
    let mut outcome = |sender: &mut helio_nbd::ClientSender, length: u64| {
        sender.send_write_zeroes(Cookie(length), 0, length, false, false).expect("is sent");
        receiver.receive().expect("is answered").result.map(drop).map_err(|error| error.code)
    };
    assert_eq!(outcome(&mut sender, 4 << 30), Ok(()));
    assert_eq!(outcome(&mut sender, 5 << 30), Err(ErrorCode::Overflow));
    assert_eq!(outcome(&mut sender, 4096), Ok(()));
    wait_level(&pair, "paris");
}

#[test]
fn qemu_speaks_extended_headers() {
    require!("qemu-io", "qemu-img");
    let pair = serving();
    let uri = pair.export("paris", "thin");
    let steps = ["write -P 7 1M 64k", "write -z 0 48M", "discard 48M 16M", "read -P 0 0 64M"];
    let mut arguments = vec!["-f", "raw", uri.as_str()];
    arguments.extend(steps.iter().flat_map(|step| ["-c", step]));
    let told = tell("qemu-io", &arguments);
    let said = format!("{}{}", told.stdout, told.stderr);
    assert!(told.status.success() && !said.contains("verification failed"), "{told}");
    let map = tell("qemu-img", &["map", "--output=json", "-f", "raw", &uri]).json();
    assert_eq!(map[0]["length"], 64 << 20, "{map}");
    assert_eq!(map[0]["zero"], true, "{map}");
}

#[test]
fn a_write_that_stopped_halfway_counts_for_nothing() {
    let pair = serving();
    let before = number(&pair.status("paris"), "/groups/0/cursors/accepted");
    let mut raw = Raw::unix(&socket(&pair, "paris")).greet_well().enter("db/data");
    raw.request(command::WRITE, 0, 0, 1 << 20);
    raw.say(&[9; 300_000]);
    drop(raw);
    wait_clients(&pair, 0);
    assert_eq!(number(&pair.status("paris"), "/groups/0/cursors/accepted"), before);
    let mut client = Client::connect_unix(socket(&pair, "paris"), "db/data").expect("connects");
    let mut bytes = [1; 4096];
    client.read(0, &mut bytes).expect("reads");
    assert_eq!(bytes, [0; 4096]);
}

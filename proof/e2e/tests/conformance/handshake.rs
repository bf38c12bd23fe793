// SPDX-License-Identifier: Apache-2.0
//! What is said before an export is entered.

use crate::raw::Raw;
use crate::stage::{SIZE, check, serving, socket, tell};
use helio_nbd::codec::{client_flag, option, reply};
use helio_nbd::{MAX_NAME, MAX_OPTION_LENGTH, MAX_OPTIONS};
use helio_testkit::require;

#[test]
fn an_old_handshake_is_refused_and_the_log_says_why() {
    let mut pair = serving();
    let connect = || Raw::unix(&socket(&pair, "paris"));
    connect().greet(client_flag::NO_ZEROES).closed().expect("the server closes");
    connect().greet(1 << 31 | client_flag::FIXED_NEWSTYLE).closed().expect("the server closes");
    let mut odd = connect().greet_well();
    odd.say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    odd.closed().expect("the server closes");
    let log = pair.daemon("paris").log();
    for reason in [
        "client uses an old handshake: its flags 0x2 do not have fixed newstyle",
        "client set flags that were not offered: 0x80000001",
        "instead of an option",
    ] {
        assert!(log.contains(reason), "{reason:?} is not in {log}");
    }
}

#[test]
fn nbdinfo_lists_every_volume_twice_with_description_and_block_sizes() {
    require!("nbdinfo");
    let pair = serving();
    let list = pair.export("paris", "data").replace("/db/data?", "/?");
    let said = tell("nbdinfo", &["--list", "--json", &list]).json();
    assert_eq!((&said["protocol"], &said["TLS"]), (&"newstyle-fixed".into(), &false.into()));
    let exports = said["exports"].as_array().expect("a list");
    let expected = [
        ("db/data", "data of group db, mirrored to lyon"),
        ("db/data:ro", "data of group db, read-only"),
        ("db/thin", "thin of group db, mirrored to lyon"),
        ("db/thin:ro", "thin of group db, read-only"),
    ];
    assert_eq!(exports.len(), expected.len(), "{said}");
    for (export, (name, description)) in exports.iter().zip(expected) {
        assert_eq!(
            (&export["export-name"], &export["description"]),
            (&name.into(), &description.into())
        );
        assert_eq!(export["export-size"], SIZE.0);
        let read_only = name.ends_with(":ro");
        assert_eq!(export["is_read_only"], read_only);
        for ability in ["can_trim", "can_zero"] {
            assert_eq!(export[ability], !read_only, "{ability}: {export}");
        }
        for ability in ["can_cache", "can_df", "can_flush", "can_fua", "can_multi_conn"] {
            assert_eq!(export[ability], true, "{ability}: {export}");
        }
        for (kind, size) in [("minimum", 512), ("preferred", 4096), ("maximum", 32 << 20)] {
            assert_eq!(export[format!("block_size_{kind}")], size, "{export}");
        }
        let contexts = serde_json::json!(["base:allocation", "heliograph:marks"]);
        assert_eq!(export["contexts"], contexts);
    }
}

#[test]
fn qemu_nbd_lists_the_exports_and_their_contexts() {
    require!("qemu-nbd");
    let pair = serving();
    let socket = socket(&pair, "paris");
    let said = tell("qemu-nbd", &["--list", "-k", &socket.to_string_lossy()]).expect_success();
    assert!(said.starts_with("exports available: 4\n"), "{said}");
    for line in ["export: 'db/data'", "description: data of group db, mirrored to lyon"] {
        assert!(said.contains(line), "{line:?} is not in {said}");
    }
    // It says so where extended headers were agreed on, if it knows of them: since 8.2.
    let version = tell("qemu-nbd", &["--version"]).expect_success();
    let number = version.split_whitespace().nth(1).unwrap_or_default();
    let mut parts = number.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    let knows = (parts.next(), parts.next()) >= (Some(8), Some(2));
    let times = said.matches("transaction size: 64-bit").count();
    assert_eq!(times, if knows { 4 } else { 0 }, "{said}");
    assert_eq!(said.matches("heliograph:marks").count(), 4, "{said}");
}

#[test]
fn an_export_is_described_before_it_is_entered() {
    require!("python3-libnbd");
    let pair = serving();
    check(&pair, &["information", &pair.export("paris", "data")]);
}

#[test]
fn contexts_are_listed_by_namespace_and_chosen_by_name() {
    require!("python3-libnbd");
    let pair = serving();
    check(&pair, &["contexts", &pair.export("paris", "data")]);
}

#[test]
fn options_too_large_or_unknown_are_refused_and_the_negotiation_continues() {
    let mut pair = serving();
    let mut raw = Raw::unix(&socket(&pair, "paris")).greet_well();
    let name = "n".repeat(MAX_NAME + 1);
    let long = [&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), &[0, 0]].concat();
    for (option, data, kind) in [
        (option::GO, long, reply::ERR_TOO_BIG),
        (option::GO, vec![0; 60_000], reply::ERR_TOO_BIG),
        (option::GO, vec![0, 0, 0, 9, b'x'], reply::ERR_INVALID),
        (option::GO, b"\0\0\0\x02db\0\0".to_vec(), reply::ERR_UNKNOWN),
        (option::LIST, vec![1], reply::ERR_INVALID),
        (4711, vec![3; 100], reply::ERR_UNSUP),
        (option::STARTTLS, Vec::new(), reply::ERR_POLICY),
        (option::LIST_META_CONTEXT, b"\0\0\0\x07db/data\0\0\xff\xff".to_vec(), reply::ERR_INVALID),
    ] {
        let said = raw.option(option, &data);
        assert_eq!(said.kind, kind, "option {option}: {}", said.text());
        assert!(!said.text().is_empty(), "a refusal says why");
    }
    let mut raw = raw.enter("db/data");
    raw.request(helio_nbd::codec::command::FLUSH, 0, 0, 0);
    assert_eq!(raw.answer(), None);

    let mut huge = Raw::unix(&socket(&pair, "paris")).greet_well();
    huge.send_option(4711, &vec![0; MAX_OPTION_LENGTH as usize + 1]);
    huge.closed().expect("the server closes");
    assert!(pair.daemon("paris").log().contains("with 65537 bytes, more than 65536"));
}

#[test]
fn options_without_end_end_the_connection() {
    let mut pair = serving();
    let mut raw = Raw::unix(&socket(&pair, "paris")).greet_well();
    for _ in 0..MAX_OPTIONS {
        assert_eq!(raw.option(4711, &[]).kind, reply::ERR_UNSUP);
    }
    raw.send_option(4711, &[]);
    raw.closed().expect("the server closes");
    assert!(pair.daemon("paris").log().contains("client sent more than 1024 options"));
}

#[test]
fn export_name_opens_an_export_or_ends_the_connection() {
    let mut pair = serving();
    let mut raw = Raw::unix(&socket(&pair, "paris")).greet_well();
    raw.send_option(option::EXPORT_NAME, b"db/data");
    let answer: [u8; 10] = raw.hear();
    assert_eq!(u64::from_be_bytes(std::array::from_fn(|n| answer[n])), SIZE.0);
    raw.request(helio_nbd::codec::command::FLUSH, 0, 0, 0);
    assert_eq!(raw.answer(), None);
    let mut wrong = Raw::unix(&socket(&pair, "paris")).greet_well();
    wrong.send_option(option::EXPORT_NAME, b"db/date");
    wrong.closed().expect("the server closes");
    let log = pair.daemon("paris").log();
    assert!(
        log.contains("unknown export \\\"db/date\\\"")
            || log.contains("unknown export \"db/date\""),
        "{log}"
    );
}

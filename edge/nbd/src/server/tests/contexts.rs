// SPDX-License-Identifier: Apache-2.0
//! Metadata contexts: listed, chosen, asked.

use super::*;
use crate::codec::{Context, StatusExtent};

const SET: u32 = option::SET_META_CONTEXT;
const LIST: u32 = option::LIST_META_CONTEXT;

/// What one option is answered with where chunks were agreed on.
fn answered(option: u32, data: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let chunks = sent_option(option::STRUCTURED_REPLY, &[]);
    let told = feed(&[hello(), chunks, sent_option(option, data)].concat());
    assert_eq!(told.error, None);
    answers(&told.out)[1..].to_vec()
}

/// The names found, where the answer ends in an acknowledgement; its number where it is refused.
fn found(option: u32, data: &[u8]) -> Result<Vec<String>, u32> {
    let answers = answered(option, data);
    let (last, contexts) = answers.split_last().unwrap();
    if last.1 != reply::ACK {
        assert!(contexts.is_empty());
        return Err(last.1);
    }
    assert!(contexts.iter().all(|(_, kind, _)| *kind == reply::META_CONTEXT));
    let name = |data: &[u8]| String::from_utf8(data[4..].to_vec()).unwrap();
    Ok(contexts.iter().map(|(_, _, data)| name(data)).collect())
}

#[test]
fn a_list_is_these_bytes() {
    let wanted = [
        (LIST, reply::META_CONTEXT, b"\0\0\0\0base:allocation".to_vec()),
        (LIST, reply::META_CONTEXT, b"\0\0\0\0heliograph:marks".to_vec()),
        (LIST, reply::META_CONTEXT, b"\0\0\0\0heliograph:changed".to_vec()),
        (LIST, reply::ACK, Vec::new()),
    ];
    assert_eq!(answered(LIST, b"\0\0\0\x07db/data\0\0\0\0"), wanted);
}

#[test]
fn a_choice_is_these_bytes() {
    let asked = b"\0\0\0\x07db/data\0\0\0\x01\0\0\0\x10heliograph:marks";
    assert_eq!(queries("db/data", &["heliograph:marks"]), asked);
    let wanted = [
        (SET, reply::META_CONTEXT, b"\0\0\0\x02heliograph:marks".to_vec()),
        (SET, reply::ACK, Vec::new()),
    ];
    assert_eq!(answered(SET, asked), wanted);
}

#[test]
fn queries_find_what_they_name() {
    let (base, marks, changed) = ("base:allocation", "heliograph:marks", "heliograph:changed");
    for (query, listed, chosen) in [
        (&["base:allocation"][..], &[base][..], &[base][..]),
        (&["heliograph:marks"], &[marks], &[marks]),
        (&["heliograph:changed"], &[changed], &[changed]),
        (&["heliograph:marks", "base:allocation"], &[base, marks], &[base, marks]),
        (&["base:allocation", "base:allocation"], &[base], &[base]),
        // A namespace stands for all in it, but only in a list.
        (&["base:"], &[base], &[]),
        (&["heliograph:"], &[marks, changed], &[]),
        (&["base:", "heliograph:marks"], &[base, marks], &[marks]),
        // Nothing found is no error.
        (&["base:nosuch"], &[], &[]),
        (&["heliograph:mark", "heliograph:marksx"], &[], &[]),
        (&["qemu:dirty-bitmap:b", ":"], &[], &[]),
        (&["BASE:allocation"], &[], &[]),
        // Nothing asked is everything in a list, and nothing in a choice.
        (&[], &[base, marks, changed], &[]),
    ] {
        assert_eq!(found(LIST, &queries("db/data", query)).unwrap(), listed, "{query:?}");
        assert_eq!(found(SET, &queries("db/data", query)).unwrap(), chosen, "{query:?}");
    }
}

#[test]
fn an_export_offers_what_it_has() {
    assert!(found(LIST, &queries("plain", &[])).unwrap().is_empty());
    assert!(found(SET, &queries("plain", &["base:allocation"])).unwrap().is_empty());
}

#[test]
fn what_cannot_be_read_is_refused() {
    let many = vec!["a:b"; MAX_QUERIES as usize + 1];
    let good = queries("db/data", &["base:allocation"]);
    for (data, refused) in [
        (Vec::new(), reply::ERR_INVALID),
        (good[..good.len() - 1].to_vec(), reply::ERR_INVALID),
        ([&good[..], b"x"].concat(), reply::ERR_INVALID),
        ([&queries("db/data", &[])[..], b"x"].concat(), reply::ERR_INVALID),
        (b"\xff\xff\xff\xff".to_vec(), reply::ERR_INVALID),
        (b"\0\0\0\x07db/data\0\0\0\x01\xff\xff\xff\xffx".to_vec(), reply::ERR_INVALID),
        (queries("db/data", &["no colon"]), reply::ERR_INVALID),
        (queries("db/data", &["base:\0"]), reply::ERR_INVALID),
        (b"\0\0\0\x07db/data\0\0\0\x01\0\0\0\x02\xff:".to_vec(), reply::ERR_INVALID),
        (queries("nowhere", &["base:allocation"]), reply::ERR_UNKNOWN),
        (queries("shut", &[]), reply::ERR_POLICY),
        (queries("db/data", &many), reply::ERR_TOO_BIG),
        (queries("db/data", &[&format!("a:{}", "x".repeat(5000))]), reply::ERR_TOO_BIG),
        (vec![0; MAX_OPTION_DATA as usize + 1], reply::ERR_TOO_BIG),
    ] {
        assert_eq!(found(LIST, &data), Err(refused), "{data:?}");
        assert_eq!(found(SET, &data), Err(refused), "{data:?}");
    }
    let most = vec!["a:b"; MAX_QUERIES as usize];
    assert!(found(SET, &queries("db/data", &most)).is_ok());
}

#[test]
fn contexts_need_chunks() {
    let data = queries("db/data", &["base:allocation"]);
    for option in [LIST, SET] {
        let told = feed(&[hello(), sent_option(option, &data)].concat());
        assert_eq!(kinds(&told.out), [reply::ERR_INVALID]);
        let extended = sent_option(option::EXTENDED_HEADERS, &[]);
        let told = feed(&[hello(), extended, sent_option(option, &data)].concat());
        assert_eq!(kinds(&told.out), [reply::ACK, reply::META_CONTEXT, reply::ACK]);
    }
}

/// Whether a block status of one byte is served after these options.
fn status_works(options: &[Vec<u8>], enter: &[u8]) -> bool {
    let chunks = sent_option(option::STRUCTURED_REPLY, &[]);
    let status = request(command::BLOCK_STATUS, 1, 0, 1);
    let told = feed(&[&hello()[..], &chunks, &options.concat(), enter, &status].concat());
    assert_eq!(told.error, None);
    matches!(told.steps.last(), Some(Step::Request(r)) if r.command == Command::BlockStatus)
}

#[test]
fn only_the_last_choice_counts_and_only_for_its_export() {
    let set = |export: &str, wanted: &[&str]| sent_option(SET, &queries(export, wanted));
    let chosen = set("db/data", &["base:allocation"]);
    let go_data = sent_option(option::GO, &go("db/data", &[]));
    let old = sent_option(option::EXPORT_NAME, b"db/data");
    assert!(status_works(std::slice::from_ref(&chosen), &go_data));
    assert!(status_works(std::slice::from_ref(&chosen), &old));
    assert!(!status_works(&[], &go_data));
    let listed = sent_option(LIST, &queries("db/data", &[]));
    assert!(status_works(&[chosen.clone(), listed], &go_data), "a list changes nothing");
    for later in [
        set("db/data", &[]),
        set("copy", &["base:allocation"]),
        set("nowhere", &["base:allocation"]),
        set("db/data", &["base:nosuch"]),
        sent_option(SET, b"broken"),
        sent_option(SET, &vec![0; MAX_OPTION_DATA as usize + 1]),
    ] {
        assert!(!status_works(&[chosen.clone(), later.clone()], &go_data));
        assert!(status_works(&[later, chosen.clone()], &go_data));
    }
    let elsewhere = sent_option(option::GO, &go("copy", &[]));
    assert!(!status_works(&[chosen], &elsewhere));
}

#[test]
fn the_name_a_choice_was_made_for_is_all_that_is_held() {
    let name = "x".repeat(MAX_NAME);
    struct Any;
    impl Exports for Any {
        fn list(&self, _: &mut dyn FnMut(&ExportInfo)) {}
        fn open(&self, _: &str) -> Result<ExportInfo, OpenRefusal> {
            Ok(volume("db/data", 7))
        }
    }
    let chunks = sent_option(option::STRUCTURED_REPLY, &[]);
    let choose = sent_option(SET, &queries(&name, &["base:allocation"]));
    let half = &sent_option(99, &[0; MAX_OPTION_DATA as usize])[..8000];
    for pieces in [&[usize::MAX][..], &[7], &[4096]] {
        let stream = [&hello()[..], &chunks, &choose.repeat(3), half].concat();
        let told = feed_to(&Any, &stream, pieces);
        assert_eq!(told.error, None);
        assert!(
            told.held.0 >= MAX_NAME as u64
                && told.held.0 <= u64::from(MAX_OPTION_DATA) + MAX_NAME as u64
        );
    }
}

/// The stretches of one context in an answer, taken apart by hand.
fn status(form: Form, request: &Request, told: &[(Context, &[StatusExtent])]) -> Vec<u8> {
    let (session, _) = served(form, &Context::ALL.map(Context::name));
    let mut out = Vec::new();
    session.reply_block_status(request, told, &mut out);
    out
}

fn run(length: u64, flags: u32) -> StatusExtent {
    StatusExtent { length, flags }
}

fn asked_status(length: u64, contexts: Contexts) -> Request {
    Request { contexts, ..asked(Command::BlockStatus, 4096, length) }
}

#[test]
fn a_structured_status_is_these_bytes() {
    let request = asked_status(8192, Contexts::ALL);
    let allocation = [run(4096, 3), run(4096, 0)];
    let marks = [run(65_536, 1)];
    let told = [(Context::Marks, &marks[..]), (Context::Allocation, &allocation[..])];
    // Nothing is said of the third: it may have changed.
    let wanted: [&[u8]; 10] = [
        b"\x66\x8e\x33\xef\0\0\0\x05\0\0\0\0\0\0\0\x05\0\0\0\x14",
        b"\0\0\0\x01",
        b"\0\0\x10\0\0\0\0\x03",
        b"\0\0\x10\0\0\0\0\0",
        b"\x66\x8e\x33\xef\0\0\0\x05\0\0\0\0\0\0\0\x05\0\0\0\x0c",
        b"\0\0\0\x02",
        b"\0\x01\0\0\0\0\0\x01",
        b"\x66\x8e\x33\xef\0\x01\0\x05\0\0\0\0\0\0\0\x05\0\0\0\x0c",
        b"\0\0\0\x03",
        b"\0\0\x20\0\0\0\0\x01",
    ];
    assert_eq!(status(Form::Structured, &request, &told), wanted.concat());
}

#[test]
fn an_extended_status_is_these_bytes() {
    let request = asked_status(1 << 33, Contexts::NONE.with(Context::Marks));
    let marks = [run(1 << 32, 1), run(1 << 32, 0)];
    let wanted: [&[u8]; 5] = [
        b"\x6e\x8a\x27\x8c\0\x01\0\x06\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\x28",
        b"\0\0\0\x02",
        b"\0\0\0\x02",
        b"\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x01",
        b"\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0",
    ];
    assert_eq!(status(Form::Extended, &request, &[(Context::Marks, &marks)]), wanted.concat());
}

/// What one context's stretches become in a structured answer.
fn sent_runs(request: &Request, said: &[StatusExtent]) -> Vec<(u32, u32)> {
    let out = status(Form::Structured, request, &[(Context::Marks, said)]);
    let number = |bytes: &[u8]| u32::from_be_bytes(*bytes.first_chunk().unwrap());
    assert_eq!(number(&out[16..]) as usize, out.len() - 20);
    out[24..].chunks_exact(8).map(|run| (number(run), number(&run[4..]))).collect()
}

#[test]
fn stretches_are_sent_as_the_protocol_wants_them() {
    let marks = Contexts::NONE.with(Context::Marks);
    let request = asked_status(8192, marks);
    let one = Request { one: true, ..request };
    for (said, plain, single) in [
        // Neighbours of the same flags are one, and empty ones none.
        (
            &[run(512, 1), run(512, 1), run(0, 0), run(512, 0)][..],
            &[(1024, 1), (512, 0)][..],
            (1024, 1),
        ),
        // Behind the one that reaches the end nothing is sent; it may reach beyond.
        (&[run(4096, 1), run(9000, 0), run(512, 1)], &[(4096, 1), (9000, 0)], (4096, 1)),
        (&[run(8192, 0), run(512, 1)], &[(8192, 0)], (8192, 0)),
        (&[run(9000, 0), run(512, 0)], &[(9000, 0)], (8192, 0)),
        // What nobody looked at may differ.
        (&[], &[(8192, 1)], (8192, 1)),
        (&[run(0, 0)], &[(8192, 1)], (8192, 1)),
    ] {
        assert_eq!(sent_runs(&request, said), plain, "{said:?}");
        assert_eq!(sent_runs(&one, said), [single], "{said:?}");
    }
}

#[test]
fn a_length_of_more_than_32_bits_is_cut_and_the_last() {
    let marks = Contexts::NONE.with(Context::Marks);
    let request = asked_status(u32::MAX.into(), marks);
    let said = [run(1 << 33, 1), run(512, 0)];
    assert_eq!(sent_runs(&request, &said), [(0xffff_0000, 1)]);
    assert_eq!(sent_runs(&request, &[run(512, 0), run(u64::MAX, 1)]), [(512, 0), (0xffff_0000, 1)]);
}

#[test]
fn an_answer_has_a_bound() {
    let marks = Contexts::NONE.with(Context::Marks);
    let request = asked_status(1 << 30, marks);
    let said: Vec<_> = (0..2 * MAX_STATUS_EXTENTS as u32).map(|n| run(512, n % 2)).collect();
    assert_eq!(sent_runs(&request, &said).len(), MAX_STATUS_EXTENTS);
}

#[test]
fn what_changed_is_told_for_an_export_that_offers_it() {
    let request = asked_status(1 << 20, Contexts::NONE.with(Context::Changed));
    let changed = [run(65_536, 1), run(131_072, 0)];
    let wanted: [&[u8]; 4] = [
        b"\x66\x8e\x33\xef\0\x01\0\x05\0\0\0\0\0\0\0\x05\0\0\0\x14",
        b"\0\0\0\x03",
        b"\0\x01\0\0\0\0\0\x01",
        b"\0\x02\0\0\0\0\0\0",
    ];
    let told = [(Context::Changed, &changed[..])];
    assert_eq!(status(Form::Structured, &request, &told), wanted.concat());
    // Of what was not looked at it is never said that nothing changed.
    let unknown = status(Form::Structured, &request, &[]);
    assert_eq!(unknown[20..], *b"\0\0\0\x03\0\x10\0\0\0\0\0\x01");
}

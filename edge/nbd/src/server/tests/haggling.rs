// SPDX-License-Identifier: Apache-2.0
//! The handshake, told option by option.

use super::*;

#[test]
fn a_client_looks_around_and_goes() {
    let told = feed(
        &[
            hello(),
            sent_option(option::LIST, &[]),
            sent_option(option::INFO, &go("db/data", &[])),
            sent_option(option::GO, &go("db/data", &[1, 2, 3, 77])),
        ]
        .concat(),
    );
    assert_eq!(told.error, None);
    assert_eq!(told.steps.last(), Some(&Step::Ready { handle: 7, name: "db/data".into() }));
    let listed = [reply::SERVER, reply::SERVER, reply::ACK];
    // The size and the block sizes, also to a client that requested nothing.
    let brief = [reply::INFO, reply::INFO, reply::ACK];
    let full = [reply::INFO, reply::INFO, reply::INFO, reply::INFO, reply::ACK];
    assert_eq!(kinds(&told.out), [&listed[..], &brief, &full].concat());
    let found = answers(&told.out);
    assert_eq!(found[0].2, b"\0\0\0\x07db/dataa test volume");
    let size = (1_u64 << 20).to_be_bytes();
    let flags =
        (1_u16 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11).to_be_bytes();
    assert_eq!(found[3].2, [&[0, 0][..], &size, &flags].concat());
    assert_eq!(found[4].2, [0, 3, 0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0]);
    assert_eq!(found[9].2, [0, 3, 0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0]);
}

#[test]
fn refusals_keep_the_conversation_going() {
    let told = feed(
        &[
            hello(),
            sent_option(option::STARTTLS, &[]),
            sent_option(option::STARTTLS, b"data"),
            sent_option(option::EXTENDED_HEADERS, b"data"),
            sent_option(4, &[]),
            sent_option(4711, &[]),
            sent_option(option::LIST, b"data"),
            sent_option(option::GO, &go("nowhere", &[])),
            sent_option(option::GO, &go("shut", &[])),
            sent_option(option::GO, &go("odd", &[])),
            sent_option(option::GO, b"\0\0\0\x09short"),
            sent_option(option::GO, &go("nul\0", &[])),
            sent_option(option::INFO, &go(&"x".repeat(MAX_NAME + 1), &[])),
            sent_option(option::INFO, &vec![0; MAX_OPTION_DATA as usize + 1]),
            sent_option(option::ABORT, b"ignored"),
        ]
        .concat(),
    );
    assert_eq!(told.steps.last(), Some(&Step::Disconnect));
    assert_eq!(
        kinds(&told.out),
        [
            reply::ERR_POLICY,
            reply::ERR_INVALID,
            reply::ERR_INVALID,
            reply::ERR_UNSUP,
            reply::ERR_UNSUP,
            reply::ERR_INVALID,
            reply::ERR_UNKNOWN,
            reply::ERR_POLICY,
            reply::ERR_POLICY,
            reply::ERR_INVALID,
            reply::ERR_INVALID,
            reply::ERR_TOO_BIG,
            reply::ERR_TOO_BIG,
            reply::ACK,
        ]
    );
    assert_eq!(answers(&told.out)[7].2, b"secondary here; promote it first");
}

#[test]
fn the_old_way_in_works_with_and_without_zeroes() {
    let name = sent_option(option::EXPORT_NAME, b"db/data");
    let spared = feed(&[hello(), name.clone()].concat());
    assert_eq!(spared.out.len(), 10);
    let padded = feed(&[client_flag::FIXED_NEWSTYLE.to_be_bytes().to_vec(), name].concat());
    assert_eq!(padded.out.len(), 134);
    assert!(matches!(padded.steps.last(), Some(Step::Ready { handle: 7, .. })));
    let missing = feed(&[hello(), sent_option(option::EXPORT_NAME, b"nowhere")].concat());
    let Some(SessionError::ExportRefused { reason }) = missing.error else { panic!("was let in") };
    assert!(reason.contains("nowhere"));
}

#[test]
fn strangers_are_named_and_shown_out() {
    assert_eq!(feed(&[0, 0, 0, 0]).error, Some(SessionError::OldHandshake { flags: 0 }));
    assert!(matches!(feed(b"GET / HTTP/1.1").error, Some(SessionError::ClientFlags { .. })));
    let noise = [hello(), b"sixteen bytes...".to_vec()].concat();
    assert!(matches!(feed(&noise).error, Some(SessionError::OptionMagic { .. })));
    let huge = OptionHeader { option: 99, length: u32::MAX }.encode();
    let told = feed(&[&hello()[..], &huge].concat());
    assert_eq!(told.error, Some(SessionError::OptionTooLong { option: 99, length: u32::MAX }));
    let endless = sent_option(option::STRUCTURED_REPLY, &[]).repeat(MAX_OPTIONS as usize + 1);
    assert_eq!(feed(&[hello(), endless].concat()).error, Some(SessionError::TooManyOptions));
    let noise = [serving(false), vec![0; 28]].concat();
    assert_eq!(feed(&noise).error, Some(SessionError::RequestMagic { found: 0 }));
}

#[test]
fn an_error_is_final() {
    let mut session = Session::with(SessionOptions::default());
    let mut out = Vec::new();
    assert!(session.consume(&[0; 4], &Shelf, &mut out).is_err());
    assert_eq!(session.consume(&hello(), &Shelf, &mut out), Err(SessionError::Ended));
}

#[test]
fn a_list_too_long_is_cut_with_a_word() {
    let told =
        feed_to(&Warehouse, &[hello(), sent_option(option::LIST, &[])].concat(), &[usize::MAX]);
    assert!(told.out.len() <= MAX_LIST_REPLY + 100);
    assert_eq!(kinds(&told.out).last(), Some(&reply::ERR_TOO_BIG));
}

#[test]
fn every_combination_of_an_export_has_its_flags() {
    type F = TransmissionFlags;
    let always = F::HAS_FLAGS.with(F::SEND_FLUSH).with(F::SEND_FUA).with(F::SEND_CACHE);
    let bit = |n: u32, bit: u32| n >> bit & 1 == 1;
    for n in 0..32 {
        let (read_only, trim, fast_zero) = (bit(n, 0), bit(n, 1), bit(n, 2));
        let (volatile, contexts) = (read_only && bit(n, 3), bit(n, 4));
        let export = ExportInfo { read_only, trim, fast_zero, volatile, ..volume("db/data", 7) };
        let contexts = if contexts { Contexts::ALL } else { Contexts::NONE };
        for form in [Form::Simple, Form::Structured, Form::Extended] {
            let filters = form == Form::Extended && !contexts.is_empty();
            let wanted = always
                .with_if(read_only, F::READ_ONLY)
                .with_if(!volatile, F::CAN_MULTI_CONN)
                .with_if(!read_only, F::SEND_WRITE_ZEROES.with(F::SEND_FAST_ZERO))
                .with_if(!read_only && trim, F::SEND_TRIM)
                .with_if(form != Form::Simple, F::SEND_DF)
                .with_if(filters, F::BLOCK_STATUS_PAYLOAD);
            assert_eq!(export.flags(exports::Terms { form, contexts }), wanted, "{export:?}");
        }
    }
}

#[test]
fn a_copy_written_elsewhere_says_so_and_one_written_here_too_is_not_served() {
    let told = feed(&[hello(), sent_option(option::INFO, &go("copy", &[2]))].concat());
    let found = answers(&told.out);
    let description = b"\0\x02read-only, changes as the primary writes: a test volume";
    assert_eq!(found[1].2, description);
    let told = feed(&[hello(), sent_option(option::INFO, &go("torn", &[]))].concat());
    assert_eq!(kinds(&told.out), [reply::ERR_POLICY]);
}

#[test]
fn a_context_withdrawn_since_it_was_chosen_is_not_dropped_in_silence() {
    struct Fickle(std::cell::Cell<Contexts>);
    impl Exports for Fickle {
        fn list(&self, _: &mut dyn FnMut(&ExportInfo)) {}
        fn open(&self, name: &str) -> Result<ExportInfo, OpenRefusal> {
            let contexts = self.0.replace(Contexts::NONE);
            Ok(ExportInfo { contexts, ..volume(name, 7) })
        }
    }
    let choose = sent_option(option::SET_META_CONTEXT, &queries("db/data", &["base:allocation"]));
    let chunks = sent_option(option::STRUCTURED_REPLY, &[]);
    let enter = sent_option(option::GO, &go("db/data", &[]));
    let stream = [hello(), chunks, choose, enter].concat();
    let told = feed_to(&Fickle(std::cell::Cell::new(Contexts::ALL)), &stream, &[usize::MAX]);
    assert_eq!(kinds(&told.out).last(), Some(&reply::ERR_POLICY));
}

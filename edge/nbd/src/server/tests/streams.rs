// SPDX-License-Identifier: Apache-2.0
//! Whatever a client may send: good, bad, cut anywhere.

use super::*;
use proptest::prelude::*;

/// The most a session ever holds: a partial option, and the name it chose contexts for.
const HELD_MAX: Bytes = Bytes(MAX_OPTION_DATA as u64 + MAX_NAME as u64);

/// Requests of every sort, good and bad, as a client could send them.
fn any_request(form: Form) -> impl Strategy<Value = Vec<u8>> {
    let place = prop_oneof![0_u64..4096, (1_u64 << 20) - 64..(1 << 20) + 64, any::<u64>()];
    (0_u16..10, 0_u16..80, any::<u64>(), place, 0_u64..300).prop_map(
        move |(command, flags, cookie, offset, length)| {
            let flags = if flags > 63 { 0 } else { flags };
            let header = RequestHeader { flags, ..header(command, cookie, offset, length) };
            if form != Form::Extended {
                let payload = if command == command::WRITE { length as usize } else { 0 };
                return [&header.encode()[..], &vec![0x5a; payload]].concat();
            }
            let follows = flags & command_flag::PAYLOAD_LEN != 0 || command == command::WRITE;
            let mut payload = vec![0; if follows { length as usize } else { 0 }];
            // A filter that may be right: a short length of effect, then numbers of contexts.
            for (n, byte) in payload.iter_mut().enumerate().skip(6) {
                *byte = if n == 7 || n % 4 == 3 { (n / 4) as u8 } else { 0 };
            }
            [&header.encode_extended()[..], &payload].concat()
        },
    )
}

/// Options of every sort short of those that end the handshake or change the form of replies.
fn any_option() -> impl Strategy<Value = Vec<u8>> {
    let names = prop_oneof![Just("db/data"), Just("shut"), Just("nowhere")];
    let query = prop_oneof![
        Just("base:"),
        Just("base:allocation"),
        Just("heliograph:"),
        Just("heliograph:marks"),
        Just("qemu:x"),
        Just("colonless"),
    ];
    prop_oneof![
        (3_u32..5, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(o, data)| sent_option(o, &data)),
        // Only with data, which is refused: without, it matters where the stream is cut behind it.
        prop::collection::vec(any::<u8>(), 1..40)
            .prop_map(|data| sent_option(option::STARTTLS, &data)),
        (names.clone(), prop::collection::vec(0_u16..5, 0..5))
            .prop_map(|(name, infos)| sent_option(option::INFO, &go(name, &infos))),
        (9_u32..11, names, prop::collection::vec(query, 0..5))
            .prop_map(|(o, name, asked)| sent_option(o, &queries(name, &asked))),
        (9_u32..13, prop::collection::vec(any::<u8>(), 1..40))
            .prop_map(|(o, data)| sent_option(o, &data)),
        Just(sent_option(99, &[1; MAX_OPTION_DATA as usize + 9])),
    ]
}

fn agreed(form: Form) -> Vec<u8> {
    match form {
        Form::Simple => Vec::new(),
        Form::Structured => sent_option(option::STRUCTURED_REPLY, &[]),
        Form::Extended => sent_option(option::EXTENDED_HEADERS, &[]),
    }
}

fn any_form() -> impl Strategy<Value = Form> {
    prop_oneof![Just(Form::Simple), Just(Form::Structured), Just(Form::Extended)]
}

fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    any_form().prop_flat_map(|form| {
        let options = prop::collection::vec(any_option(), 0..5);
        let requests = prop::collection::vec(any_request(form), 0..12);
        (options, any::<bool>(), requests).prop_map(move |(options, choose, requests)| {
            let chosen = queries("db/data", &["base:allocation", "heliograph:marks"]);
            let chosen = if choose { sent_option(10, &chosen) } else { Vec::new() };
            let enter = sent_option(option::GO, &go("db/data", &[3]));
            [hello(), agreed(form), options.concat(), chosen, enter, requests.concat()].concat()
        })
    })
}

proptest! {
    #[test]
    fn any_cut_of_a_stream_tells_the_same_story(
        stream in any_stream(),
        pieces in prop::collection::vec(1_usize..100, 1..8),
    ) {
        let whole = feed(&stream);
        let cut = feed_to(&Shelf, &stream, &pieces);
        prop_assert_eq!(&whole.steps, &cut.steps);
        prop_assert_eq!(&whole.payloads, &cut.payloads);
        prop_assert_eq!(&whole.out, &cut.out);
        prop_assert_eq!(&whole.error, &cut.error);
        prop_assert!(cut.held <= HELD_MAX, "held {}", cut.held);
    }

    #[test]
    fn under_tls_too_the_cut_makes_no_difference(
        before in prop::collection::vec(any_option(), 0..3),
        after in any_stream(),
        required: bool,
        pieces in prop::collection::vec(1_usize..100, 1..8),
    ) {
        let start = sent_option(option::STARTTLS, &[]);
        let plain = [hello(), before.concat(), start].concat();
        let tls = if required { TlsPolicy::Required } else { TlsPolicy::Offered };
        // Under TLS the client flags are not said again.
        let secret = &after[4..];
        let whole = feed_in(tls, &Shelf, &[&plain, secret], &[usize::MAX]);
        let cut = feed_in(tls, &Shelf, &[&plain, secret], &pieces);
        prop_assert_eq!(whole.steps, cut.steps);
        prop_assert_eq!(whole.payloads, cut.payloads);
        prop_assert_eq!(whole.out, cut.out);
        prop_assert_eq!(whole.error, cut.error);
        prop_assert!(cut.held <= HELD_MAX);
    }

    #[test]
    fn noise_neither_panics_nor_fills_memory(
        noise in prop::collection::vec(any::<u8>(), 0..2000),
        entered in 0_usize..4,
        pieces in prop::collection::vec(1_usize..300, 1..4),
    ) {
        let extended = served(Form::Extended, &["base:allocation"]).1;
        let before = [Vec::new(), hello(), serving(true), extended];
        let told = feed_to(&Shelf, &[&before[entered][..], &noise].concat(), &pieces);
        prop_assert!(told.held <= HELD_MAX);
        prop_assert!(told.out.len() <= 200 + 4 * noise.len());
    }

    #[test]
    fn flipped_bytes_end_in_an_answer_or_a_named_error(
        stream in any_stream(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..=255), 1..4),
        pieces in prop::collection::vec(1_usize..300, 1..4),
    ) {
        let mut stream = stream;
        for (place, bits) in flips {
            let at = place.index(stream.len());
            stream[at] ^= bits;
        }
        let told = feed_to(&Shelf, &stream, &pieces);
        prop_assert!(told.held <= HELD_MAX);
        if let Some(error) = told.error {
            prop_assert!(error.to_string().starts_with("client "), "{}", error);
        }
    }

    #[test]
    fn what_is_handed_out_is_inside_the_export(stream in any_stream()) {
        for step in feed(&stream).steps {
            if let Step::Request(request) = step {
                prop_assert!(request.extent.end() <= 1 << 20);
                prop_assert!((request.extent.length == 0) == (request.command == Command::Flush));
                let told = request.command == Command::BlockStatus;
                prop_assert!(request.contexts.is_empty() != told);
            }
        }
    }
}

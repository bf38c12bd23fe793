// SPDX-License-Identifier: Apache-2.0
//! Whatever a client may send: good, bad, cut anywhere.

use super::*;
use proptest::prelude::*;

/// Requests of every sort, good and bad, as a client could send them.
fn any_request() -> impl Strategy<Value = Vec<u8>> {
    let place = prop_oneof![0_u64..4096, (1_u64 << 20) - 64..(1 << 20) + 64, any::<u64>()];
    (0_u16..9, 0_u16..32, any::<u64>(), place, 0_u32..300).prop_map(
        |(command, flags, cookie, offset, length)| {
            let flags = if flags > 7 { 0 } else { flags };
            let header = RequestHeader { flags, command, cookie: Cookie(cookie), offset, length };
            let payload = if command == command::WRITE { length as usize } else { 0 };
            [&header.encode()[..], &vec![0x5a; payload]].concat()
        },
    )
}

/// Options of every sort short of those that end the handshake.
fn any_option() -> impl Strategy<Value = Vec<u8>> {
    let names = prop_oneof![Just("db/data"), Just("shut"), Just("nowhere")];
    prop_oneof![
        (3_u32..6, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(o, data)| sent_option(o, &data)),
        (names, prop::collection::vec(0_u16..5, 0..5))
            .prop_map(|(name, infos)| sent_option(option::INFO, &go(name, &infos))),
        (8_u32..12).prop_map(|o| sent_option(o, &[])),
        Just(sent_option(99, &[1; MAX_OPTION_DATA as usize + 9])),
    ]
}

fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    let options = prop::collection::vec(any_option(), 0..5);
    let requests = prop::collection::vec(any_request(), 0..12);
    (options, requests).prop_map(|(options, requests)| {
        let enter = sent_option(option::GO, &go("db/data", &[3]));
        [hello(), options.concat(), enter, requests.concat()].concat()
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
        prop_assert!(cut.held <= MAX_OPTION_DATA as usize, "held {}", cut.held);
    }

    #[test]
    fn noise_neither_panics_nor_fills_memory(
        noise in prop::collection::vec(any::<u8>(), 0..2000),
        entered in 0_usize..3,
        pieces in prop::collection::vec(1_usize..300, 1..4),
    ) {
        let before = [Vec::new(), hello(), serving(true)];
        let told = feed_to(&Shelf, &[&before[entered][..], &noise].concat(), &pieces);
        prop_assert!(told.held <= MAX_OPTION_DATA as usize);
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
        prop_assert!(told.held <= MAX_OPTION_DATA as usize);
        if let Some(error) = told.error {
            prop_assert!(error.to_string().starts_with("client "), "{}", error);
        }
    }

    #[test]
    fn what_is_handed_out_is_inside_the_export(requests in prop::collection::vec(any_request(), 1..20)) {
        let (told, _) = replies(true, &requests.concat());
        for step in told.steps {
            if let Step::Request(request) = step {
                prop_assert!(request.extent.end() <= 1 << 20);
                prop_assert!((request.extent.length == 0) == (request.command == Command::Flush));
            }
        }
    }
}

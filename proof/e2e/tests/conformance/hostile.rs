// SPDX-License-Identifier: Apache-2.0
//! Clients that mean no good, or do not know better, and one beside them that must not notice.

use crate::raw::Raw;
use crate::stage::{memory, serving, socket, wait_clients};
use helio_nbd::Client;
use helio_nbd::codec::command;
use helio_testkit::{Dice, Pair, rounds};
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// What the daemon may need more than before, in KiB: 64 MiB under way for each of the few that read nothing, their
/// buffers' powers of two, and room for the allocator.
const MEMORY_KIB: u64 = 512 << 10;
const MIB: usize = 1 << 20;

/// The median of what reads and writes of 4 KiB take, one at a time.
fn median(pair: &Pair, dice: &mut Dice) -> Duration {
    let mut client = Client::connect_unix(socket(pair, "paris"), "db/thin").expect("connects");
    let mut bytes = vec![0; 4096];
    let mut spans: Vec<Duration> = (0..400 * rounds(1))
        .map(|_| {
            let offset = dice.below(1000) * 4096;
            let begun = Instant::now();
            client.write(offset, &bytes, false).expect("writes");
            client.read(offset, &mut bytes).expect("reads");
            begun.elapsed()
        })
        .collect();
    spans.sort_unstable();
    client.disconnect().expect("leaves");
    spans[spans.len() / 2]
}

/// Beside the unkind the median may be so much longer than before them or after them, on a machine of two cores that tests share.
#[track_caller]
fn assert_undisturbed(alone: [Duration; 2], beside: Duration) {
    let most = alone[0].max(alone[1]) * 20 + Duration::from_millis(20);
    assert!(beside < most, "{alone:?} alone, {beside:?} beside them");
}

/// Asks for reads until the socket takes no more, and reads no answer.
fn flood(socket: &Path) -> UnixStream {
    let mut raw = Raw::unix(socket).greet_well().enter("db/data");
    raw.0.set_write_timeout(Some(Duration::from_millis(300))).expect("takes a limit");
    let asked = helio_nbd::codec::RequestHeader {
        flags: 0,
        command: command::READ,
        cookie: helio_nbd::Cookie(1),
        offset: 0,
        length: MIB as u64,
    };
    let many = asked.encode().repeat(1000);
    for _ in 0..1000 {
        match raw.0.write_all(&many) {
            Ok(()) => {}
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return raw.0;
            }
            Err(why) => panic!("the flood ended otherwise: {why}"),
        }
    }
    panic!("the daemon took a million requests of a client that reads no answer");
}

#[test]
fn floods_without_reading_replies_take_limited_memory_and_delay_no_other_client() {
    let mut dice = Dice::of_test("floods");
    let mut pair = serving();
    let mut fill = Client::connect_unix(socket(&pair, "paris"), "db/data").expect("connects");
    fill.write(0, &vec![7; MIB], false).expect("writes");
    let alone = median(&pair, &mut dice);
    let id = pair.daemon("paris").id();
    let before = memory(id);
    let floods: Vec<UnixStream> = (0..4).map(|_| flood(&socket(&pair, "paris"))).collect();
    let beside = median(&pair, &mut dice);
    let after = memory(id);
    assert!(after < before + MEMORY_KIB, "{before} KiB before, {after} KiB after");
    drop(floods);
    wait_clients(&pair, 1);
    assert_undisturbed([alone, median(&pair, &mut dice)], beside);
}

#[test]
fn incomplete_requests_and_silence_delay_no_other_client() {
    let mut dice = Dice::of_test("halves");
    let pair = serving();
    let alone = median(&pair, &mut dice);
    let path = socket(&pair, "paris");
    let silent: Vec<UnixStream> =
        (0..200).map(|_| UnixStream::connect(&path).expect("connects")).collect();
    let mut halves = Vec::new();
    for n in 0..20_u64 {
        let mut raw = Raw::unix(&path).greet_well().enter("db/data");
        match n % 3 {
            // Half a header, a header without its payload, a header with some of it.
            0 => raw.say(&[0x25, 0x60, 0x95]),
            1 => raw.request(command::WRITE, 0, 0, 32 << 20),
            _ => {
                raw.request(command::WRITE, 0, 0, 32 << 20);
                raw.say(&vec![1; 100_000]);
            }
        }
        halves.push(raw);
    }
    let beside = median(&pair, &mut dice);
    drop((silent, halves));
    assert_undisturbed([alone, median(&pair, &mut dice)], beside);
}

#[test]
fn garbage_ends_its_own_connection_and_no_other() {
    let mut dice = Dice::of_test("garbage");
    let pair = serving();
    let path = socket(&pair, "paris");
    let mut client = Client::connect_unix(&path, "db/data").expect("connects");
    for n in 0..100 * rounds(1) {
        let mut raw = Raw::unix(&path);
        if n % 2 == 1 {
            raw = raw.greet_well();
            if n % 4 == 1 {
                raw = raw.enter("db/data");
            }
        }
        let mut noise = vec![0; 1 + dice.below(5000) as usize];
        dice.fill(&mut noise);
        // It may have closed before it has heard all.
        let _ = raw.0.write_all(&noise);
        let _ = raw.0.shutdown(std::net::Shutdown::Write);
        raw.closed().expect("the server closes");
        client.write(n * 4096 % (1 << 20), &[5; 4096], false).expect("writes");
    }
    client.flush().expect("flushes");
}

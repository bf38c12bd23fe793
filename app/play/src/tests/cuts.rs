// SPDX-License-Identifier: Apache-2.0
//! The link is cut at many moments, whatever the peer does at that moment.

use super::*;

/// The default of `peer-timeout`, and how much later the loss may show.
const PEER_TIMEOUT: Duration = Duration::from_secs(6);
const MARGIN: Duration = Duration::from_secs(2);
const LOOKS_EVERY: Duration = Duration::from_millis(500);
/// Round trip in milliseconds, writes per second, how many times slower than usual the peer's disk is.
const PAIRS: [(f64, f64, u32); 4] =
    [(20.0, 20.0, 300), (100.0, 10.0, 600), (0.0, 20.0, 100), (20.0, 50.0, 1)];
const CUTS_EACH: u32 = 10;

/// Cuts the link; after which time the primary has noticed, if it has in time.
fn notices_within(pair: &mut Pair) -> Option<Duration> {
    pair.button(Button::Cut).expect("cut");
    let cut = pair.world.now();
    while pair.world.now() - cut < PEER_TIMEOUT + MARGIN {
        pair.pass(LOOKS_EVERY, || true);
        if pair.status(PARIS).state != State::Replicating {
            return Some(pair.world.now() - cut);
        }
    }
    None
}

#[test]
fn a_primary_notices_every_cut_within_the_peer_timeout() {
    for (seed, (rtt, rate, slower)) in PAIRS.into_iter().enumerate() {
        let mut pair = pair(20 + seed as u64);
        let load = NewSettings {
            rtt_ms: Some(rtt),
            writes_per_second: Some(rate),
            ..NewSettings::default()
        };
        pair.make(set(load)).expect("set");
        // A slow flush is often under way when the peer answers a ping.
        pair.nodes[LYON].machine.slow_down(slower);
        for cut in 0..CUTS_EACH {
            // Not in step with what the daemons do every second or half second.
            pair.pass(Duration::from_millis(1000 + 137 * u64::from(cut)), || true);
            pair.wait_for_state(PARIS, State::Replicating);
            assert!(
                notices_within(&mut pair).is_some(),
                "{rtt} ms, {rate}/s, disk {slower} times slower, cut {cut}: {:?}",
                pair.status(PARIS).verdict
            );
            pair.button(Button::Restore).expect("restored");
            pair.wait_in_sync(PARIS);
        }
    }
}

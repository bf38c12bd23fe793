// SPDX-License-Identifier: Apache-2.0
//! The whole program over other seeds every day: `cargo xtask sim --daemon --seeds N --from SEED` walks more.
#![cfg(feature = "plant")]

#[test]
fn every_promise_is_kept_over_todays_share_of_seeds() {
    helio_testkit::walk_share(env!("CARGO_BIN_EXE_helio-whole"), 150);
}

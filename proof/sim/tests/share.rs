// SPDX-License-Identifier: Apache-2.0
//! Seeds that the tree decides: `cargo xtask sim --seeds N --from SEED` walks more.
#![cfg(feature = "plant")]

#[test]
fn every_promise_is_kept_over_a_share_of_seeds() {
    helio_testkit::walk_share(env!("CARGO_BIN_EXE_helio-sim"), 500);
}

// SPDX-License-Identifier: Apache-2.0
//! HP's talk on OpenVMS volume shadowing.

use super::Source::OpenVms;
use super::{Claim, Example};
use crate::{SHADOW_GRAIN, blocks, map, shadow_memory};
use helio_units::Bytes;

pub(super) fn examples() -> Vec<Example> {
    let number = |words, figures| Example::number(OpenVms, words, figures);
    let kb = |size: Bytes| size.0 as f64 / 1e3;
    let bits = map(Bytes(1_000_000_000), SHADOW_GRAIN).map_or(0.0, |map| kb(map.bits));
    vec![
        number(
            ("memory for 10 sets of 50 GB, as written", "24 + 10 × 4.5 + 50 × 2.1 KB"),
            (Claim::Figure(1119.0, 1.0), kb(shadow_memory(10, 50)), "KB"),
        )
        .note("1119 KB needs 500 × 2.1: ten sets of 50 GB are 500 GB"),
        number(
            ("memory for 10 sets of 50 GB, all 500 GB", "24 + 10 × 4.5 + 500 × 2.1 KB"),
            (Claim::Figure(1119.0, 1.0), kb(shadow_memory(10, 500)), "KB"),
        ),
        number(
            ("write bitmap for 1 GB", "10^9 B ÷ (127 × 512 B) ÷ 8, at least"),
            (Claim::AtLeast(2.1), bits, "KB"),
        ),
        number(
            ("partition of 200,000 blocks", "200000 × 512 B"),
            (Claim::About(100.0), blocks(200_000).0 as f64 / 1e6, "MB"),
        ),
    ]
}

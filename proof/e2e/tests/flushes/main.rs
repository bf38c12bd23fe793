// SPDX-License-Identifier: Apache-2.0
//! A store that fails one flush and drops what was not durable. Both members lie on such a store. Needs root and FUSE.
//!
//! An ordinary run plays a few rounds, chosen by the seed. The full count:
//! `HELIO_FLUSHES=50 cargo test -p helio-e2e --test flushes`.

mod accept;
mod client;
mod content;
mod opening;
mod primary;
mod secondary;
mod stage;

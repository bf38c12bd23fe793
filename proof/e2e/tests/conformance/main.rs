// SPDX-License-Identifier: Apache-2.0
//! What is promised to NBD clients, checked with programs of others and with a connection on which anything may be
//! said, against real daemons: the protocol, its limits, unkind clients, and as many as may be.

mod catalogue;
mod copies;
mod descriptors;
mod guests;
mod handshake;
mod hostile;
mod load;
mod memory;
mod raw;
mod requests;
mod stage;
mod tls;

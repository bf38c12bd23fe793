// SPDX-License-Identifier: Apache-2.0
//! The ordered stream: positions, overlap gate, queue, a write's life, and when it is acknowledged.

pub(crate) mod ack;
pub(crate) mod gate;
pub(crate) mod line;
pub(crate) mod queue;
pub(crate) mod requests;
pub(crate) mod slots;
pub(crate) mod times;
pub(crate) mod unreplicated;

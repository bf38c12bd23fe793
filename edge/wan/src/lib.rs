// SPDX-License-Identifier: Apache-2.0
//! A TCP relay that carries real connections through the link model of `helio-netmodel`, without any privilege.
//!
//! Put a relay between two daemons and they are as far apart as its two [`Profile`]s say: bytes take their time on
//! the wire, share its rate, and stop when the link is [cut](Cut). One thread serves all connections of a relay;
//! they share one link, each direction of it one [`helio_netmodel::Direction`], as they would share a real one.
//!
//! What a relay that ends TCP on both sides cannot show, and does not pretend to:
//!
//! - **Loss.** TCP repairs loss by resending, and here each side's TCP speaks to the relay, over loopback, where
//!   nothing is lost. The loss of a profile is therefore ignored, and a full queue makes the sender wait instead of
//!   dropping. Only an emulator below TCP shows TCP's own reaction to loss.
//! - **The sender's window.** The sender's TCP gets its acknowledgements from the relay at once, so its throughput
//!   is not bounded by its socket buffer divided by the round trip. The window of the protocol above (what may be
//!   unanswered) does show, since answers travel through the model.
//! - **The handshake.** A client is connected as soon as the relay has accepted it. The target is dialled one
//!   delay later, so whatever the target says first still arrives a full round trip after the client called.
//!
//! The relay's own socket buffers are set to [`SOCKET_BUFFER`], so that they do not grow to hide the link's queue.
//! The outages of a profile count from the start of the relay; they make the link wait like a freeze does, except
//! that what was already on its way arrives.

mod connection;
mod control;
mod flow;
mod lane;
mod relay;
mod serve;
mod socket;

pub use control::{Cut, RelayControl, RelayStats, WayStats};
pub use helio_netmodel::Profile;
pub use relay::{Relay, RelayConfig};
pub use socket::SOCKET_BUFFER;

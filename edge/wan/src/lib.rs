// SPDX-License-Identifier: Apache-2.0
//! Real connections through the link model of `helio-netmodel`, in two ways.
//!
//! The [`Relay`] carries TCP connections, without any privilege. The [`Emulator`] carries packets between two network
//! namespaces, below TCP, and needs root's capabilities for it. One thread serves each; each direction of a link is
//! one [`helio_netmodel::Direction`], shared by all that goes that way, as it would share a real one.
//!
//! # The relay
//!
//! Put it between two daemons and they are as far apart as its two [`Profile`]s say: bytes take their time on the
//! wire, share its rate, and stop when the link is [cut](Cut). What a relay that ends TCP on both sides cannot show,
//! and does not pretend to:
//!
//! - **Loss.** TCP repairs loss by resending, and here each side's TCP speaks to the relay, over loopback, where
//!   nothing is lost. The loss of a profile is therefore ignored, and a full queue makes the sender wait instead of
//!   dropping.
//! - **The sender's window.** The sender's TCP gets its acknowledgements from the relay at once, so its throughput
//!   is not bounded by its socket buffer divided by the round trip. The window of the protocol above (what may be
//!   unanswered) does show, since answers travel through the model.
//! - **The handshake.** A client is connected as soon as the relay has accepted it. The target is dialled one
//!   delay later, so whatever the target says first still arrives a full round trip after the client called.
//!
//! The relay's own socket buffers are set to [`SOCKET_BUFFER`], so that they do not grow to hide the link's queue.
//! The outages of a profile count from the start of the relay; they make the link wait like a freeze does, except
//! that what was already on its way arrives.
//!
//! # The emulator
//!
//! A TUN device in each namespace, and between them the model, packet by packet: drop-tail queue, rate, delay,
//! jitter, loss, outages. Both ends' TCP is the kernel's, talking to the other end's: windows, slow start,
//! retransmission, congestion control and keep-alives are its own. What it cannot show:
//!
//! - **Reordering and duplication**: what arrives does so once and in order.
//! - **Framing**: sizes are those of IP packets, to which a real line adds its headers.
//! - **Offloads**: packets are at most an MTU; segmentation happens before the device, as without a clever card.

mod belt;
mod connection;
mod control;
mod desk;
mod emulator;
mod flow;
mod forward;
mod lane;
mod lead;
mod line;
mod netns;
mod probe;
mod relay;
mod serve;
mod socket;
mod steer;
mod tun;

pub use control::{Cut, RelayControl, RelayStats, WayStats};
pub use emulator::{Congestion, Emulator, EmulatorConfig, EmulatorError, End};
pub use helio_netmodel::{Ppm, Profile, Tally};
pub use probe::Probe;
pub use relay::{Relay, RelayConfig};
pub use socket::SOCKET_BUFFER;
pub use steer::{EmulatorControl, EmulatorStats, WayTally, Ways};

// SPDX-License-Identifier: Apache-2.0
//! TLS without sockets: who may talk to this node, and the bytes of one conversation sealed and opened.
//!
//! - Peers and operators know each other by key: an Ed25519 public key in the configuration, shown in the handshake
//!   as it is (RFC 7250), with no certificate around it and nothing that expires. [`PeerTls`] makes their sessions.
//! - NBD clients know servers by X.509 certificates, as their tools expect. [`NbdTls`] makes those.
//! - A [`Session`] turns bytes into bytes. Whoever owns the socket feeds it.
//!
//! Absent on purpose: sockets, clocks but the machine's calendar that certificates are checked by, resumption and early data (a
//! connection here lives for days), and any version before 1.3. Only NBD clients may speak 1.2, since the tools of
//! Debian 12 offer nothing newer.

mod error;
mod files;
mod key;
mod nbd;
mod peer;
mod session;

pub use error::TlsError;
pub use files::FileError;
pub use key::{KeyTextError, NodeKey, PublicKey};
pub use nbd::{NbdClientTls, NbdTls};
pub use peer::{PeerTls, Purpose};
pub use session::{Opened, Session};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use std::sync::{Arc, LazyLock};

/// The algorithms, all from one library.
static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(aws_lc_rs::default_provider()));

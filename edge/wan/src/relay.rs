// SPDX-License-Identifier: Apache-2.0
//! The relay as its owner sees it.

use crate::control::RelayControl;
use crate::serve::Server;
use crate::socket;
use helio_netmodel::Profile;
use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;

/// What a relay is to do.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// Where clients call; port 0 lets the kernel choose, see [`Relay::local_addr`].
    pub listen: SocketAddr,
    /// Whom each client is connected to.
    pub target: SocketAddr,
    /// The link from the client to the target.
    pub there: Profile,
    /// The link from the target to the client.
    pub back: Profile,
    /// Decides the jitter.
    pub seed: u64,
}

/// A running relay. Dropping it closes the listener and every connection, gives up what is on its way, and returns
/// when its thread has ended.
#[derive(Debug)]
pub struct Relay {
    local: SocketAddr,
    control: RelayControl,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Listens, and starts the thread that relays. The target is not called before the first client.
    ///
    /// # Errors
    /// Where the address cannot be listened on, or the kernel has no descriptor or thread left.
    pub fn start(config: RelayConfig) -> io::Result<Self> {
        let listener = socket::listen(config.listen)?;
        let local = listener.local_addr()?;
        let (control, duty) = RelayControl::new()?;
        let server = Server::new(listener, config, duty);
        let thread =
            std::thread::Builder::new().name("helio-relay".into()).spawn(move || server.run())?;
        Ok(Self { local, control, thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// A handle to change and watch it with.
    #[must_use]
    pub fn control(&self) -> RelayControl {
        self.control.clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was printed there; passing it on from a drop would abort the process.
            let _ = thread.join();
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! A daemon that is assembled and whose threads have not begun: [`crate::run`] gives it threads and a runtime, and
//! [`crate::stepped`] steps it.

use crate::attach::Attaches;
use crate::backend::{Daemon, Freezes, ShardHandle};
use crate::config::{Config, NodeConfig};
use crate::errands::{self, Errands};
use crate::events::Hub;
use crate::failed::{self, Failures};
use crate::open::{self, StateDir};
use crate::shard::{Clock, Listeners, Shard};
use crate::trace::Traces;
use crate::trust::{self, Trusted};
use crate::{Options, Platform, adopt, memory};
use anyhow::{Context, Result};
use helio_driver::{Address, Driver, Host};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, RwLock, mpsc};
use tokio::sync::watch;

/// Questions the control plane may have waiting at the shard.
const ASKS_MAX: usize = 64;

/// A daemon whose threads have not begun.
pub(crate) struct Assembly<D: Driver> {
    pub(crate) shard: Shard<D>,
    pub(crate) backend: Arc<Daemon>,
    pub(crate) errands: Vec<Errands>,
}

/// Opens everything that a node needs besides its state directory, on a machine and a driver of that machine.
pub(crate) fn assemble<D: Driver>(
    options: &Options,
    config: Config,
    (platform, state): (&Platform, &StateDir),
    driver: impl FnOnce(&NodeConfig) -> Result<(D, &'static str)>,
) -> Result<Assembly<D>> {
    let (name, host) = (&options.node, &platform.host);
    let view = config.for_node(name)?;
    let own = trust::own_key(host, &view, &state.path)?;
    let clock = Clock::new(host);
    let failures = Arc::new(Failures::new(clock.clone()));
    let plans = open::plans(&view, name, (state, &failures), own.as_ref())?;
    adopt::tell_spread(host, &config, name);
    let errands: Vec<_> = plans.iter().map(Errands::of).collect();
    let clients = client_addresses(state, view.node.nbd)?;
    let listeners = listeners(host, view.node, clients)?;
    let (driver, driver_name) = driver(view.node)?;
    let (asks, asked) = mpsc::sync_channel(ASKS_MAX);
    let handle = ShardHandle { asks, waker: driver.waker() };
    let hub = hub_with(&failures, &clock);
    let means = (Arc::clone(&hub), Arc::clone(&failures));
    let shard = Shard::new(driver, plans, listeners, asked, means)?;
    let (trusted, _) = watch::channel(Trusted::of(&config, name, own));
    let attaches = Attaches::new(platform, (&state.path, &view.node.devices), handle.clone())?;
    let backend = Arc::new_cyclic(|me| Daemon {
        host: Host::clone(host),
        attaches: Arc::new(attaches),
        traces: Traces::new(Host::clone(host), clock.clone()),
        node: name.clone(),
        config_path: options.config.clone(),
        config: RwLock::new(config),
        state: state.path.clone(),
        trusted,
        shard: handle,
        hub,
        failures,
        adding: tokio::sync::Mutex::default(),
        drilling: tokio::sync::Mutex::default(),
        freezes: Freezes::default(),
        started: clock.now(),
        clock,
        driver: driver_name,
        errands: Mutex::default(),
        me: me.clone(),
    });
    Ok(Assembly { shard, backend, errands })
}

/// The shard has ended: what it leaves is written and cleared away. The control server stops at `stop`, behind the last event.
pub(crate) async fn close(backend: &Arc<Daemon>, stop: impl FnOnce()) {
    backend.attaches.abandon().await;
    backend.traces.end().await;
    backend.hub.end(backend.clock.wall_now());
    stop();
    errands::end(Arc::clone(backend)).await;
}

/// Removes the sockets of a daemon that ended.
pub(crate) fn remove_sockets(state: &StateDir) {
    for socket in [state.control_socket(), &state.nbd_socket()] {
        if let Err(error) = state.host.remove(socket) {
            tracing::debug!(%error, socket = %socket.display(), "was already removed");
        }
    }
}

/// The events of a node that begins: the groups that failed while they were opened.
fn hub_with(failures: &Failures, clock: &Clock) -> Arc<Hub> {
    let hub = Arc::new(Hub::new(clock.clone()));
    for failed in failures.list(clock.wall_now()) {
        let (key, fields) = failed::event(&failed);
        hub.tell(failed.since_ms, key, fields, Some(failed.reason));
    }
    hub
}

/// Where the shard of a node listens, and its limits.
fn listeners(host: &Host, node: &NodeConfig, clients: Vec<Address>) -> Result<Listeners> {
    Ok(Listeners {
        clients,
        peers: Some(Address::Inet(node.listen)),
        protection: open::protection(host, node)?,
        most_clients: node.clients,
        most_copies: node.copies_at_once,
        buffer_memory: memory::of_buffers(host, node),
    })
}

/// The NBD addresses: always the socket in the state directory, and TCP where the file says so.
fn client_addresses(state: &StateDir, tcp: Option<SocketAddr>) -> Result<Vec<Address>> {
    let socket = state.nbd_socket();
    // The state directory is locked, so a socket that is there is a dead daemon's.
    if state.host.exists(&socket) {
        state.host.remove(&socket).with_context(|| socket.display().to_string())?;
    }
    Ok([Address::Unix(socket)].into_iter().chain(tcp.map(Address::Inet)).collect())
}

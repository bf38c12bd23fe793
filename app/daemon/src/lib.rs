// SPDX-License-Identifier: Apache-2.0
//! The daemon: reads the configuration, opens what it names, runs the shard and the control server, stops cleanly.

pub mod adopt;
mod attach;
mod backend;
pub mod check;
pub mod config;
pub mod control;
mod descriptors;
mod digest;
mod durable;
mod epochs;
mod errands;
mod events;
mod failed;
mod hooks;
mod latency;
mod names;
pub mod offline;
mod open;
mod patience;
mod released;
mod returns;
mod saved;
pub mod sealed;
mod shard;
mod trace;
mod trust;
mod verified;

pub use open::{Created, Creation, create};
pub use trust::KEY_FILE;

use anyhow::{Context, Result, anyhow};
use attach::Attaches;
use backend::{Daemon, ShardHandle};
use config::{Config, NodeConfig};
use control::Remote;
use errands::Errands;
use events::Hub;
use failed::Failures;
use helio_driver::{Address, AnyDriver, Driver, Host, Linux};
use helio_units::Bytes;
use open::StateDir;
use shard::{Ask, Clock, Listeners, NodeAsk, Shard};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock, mpsc};
use std::thread;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use trace::Traces;
use trust::Trusted;

/// How long a shard looks for work before it sleeps where the file names no time: see docs/design/driver.md.
const SPIN: Duration = Duration::from_micros(150);
/// Questions the control plane may have waiting at the shard.
const ASKS_MAX: usize = 64;

/// How often a daemon that is to stop looks whether its devices are still used: the kernel tells nobody.
const LOOK_AT_USERS_EVERY: Duration = Duration::from_millis(200);
/// Answers under way when the daemon stops must be taken by then.
const LAST_ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// How logs are written to standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What `helio daemon` is told on its command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which node of the file this is.
    pub node: String,
    /// The file.
    pub config: PathBuf,
    /// The state directory; nothing outside it is touched but the members and the listening port.
    pub state: PathBuf,
    /// How logs are written.
    pub log_format: LogFormat,
}

/// Runs until SIGTERM or SIGINT, then stops cleanly.
///
/// # Errors
/// Something the node needs cannot be opened, or the kernel refuses to wait; the message names culprit and hint.
pub fn run(options: &Options) -> Result<()> {
    start_logging(options.log_format);
    if let Err(error) = helio_attach::be_flusher() {
        tracing::debug!(%error, "PR_SET_IO_FLUSHER failed: under memory pressure, the daemon may wait for writes to \
                                 its own volumes");
    }
    let host = Linux::host();
    let config = released::load(&host, &options.config, &options.state)?;
    let view = config.for_node(&options.node)?;
    descriptors::provide(descriptors::Need::of(&view))?;
    lock_memory(&view)?;
    failed::note_panics();
    let control = view.node.control;
    let Assembly { state, shard, backend, errands } = assemble(options, config, &host, |node| {
        let (driver, why) = AnyDriver::open(node.driver, node.spin.unwrap_or(SPIN))
            .context("the reactor cannot start")?;
        if let Some(why) = why {
            tracing::warn!(%why, "io_uring cannot be used; threads are used instead");
        }
        let name = driver.name();
        Ok((driver, name))
    })?;
    let (ended, running) = oneshot::channel();
    // A kernel that does not end an operation keeps the thread: its end is told before, and it is not joined.
    thread::Builder::new().name("shard-0".into()).spawn(move || {
        let _nobody_waits = ended.send(catch_unwind(AssertUnwindSafe(|| shard.run())));
    })?;
    serve(&state, backend, errands, control, running)
}

/// A daemon whose threads have not begun.
struct Assembly<D: Driver> {
    state: StateDir,
    shard: Shard<D>,
    backend: Arc<Daemon>,
    errands: Vec<Errands>,
}

/// Opens everything that a node needs, on a machine and a driver of that machine.
fn assemble<D: Driver>(
    options: &Options,
    config: Config,
    host: &Host,
    driver: impl FnOnce(&NodeConfig) -> Result<(D, &'static str)>,
) -> Result<Assembly<D>> {
    let name = &options.node;
    let view = config.for_node(name)?;
    let state = StateDir::open(host, &options.state)?;
    let own = trust::own_key(host, &view, &state.path)?;
    let clock = Clock::new(host);
    let failures = Arc::new(Failures::new(clock.clone()));
    let plans = open::plans(&view, name, (&state, &failures), own.as_ref())?;
    adopt::tell_spread(host, &config, name);
    let errands: Vec<_> = plans.iter().map(Errands::of).collect();
    let clients = client_addresses(&state, view.node.nbd)?;
    let listeners = listeners(host, view.node, clients)?;
    let (driver, driver_name) = driver(view.node)?;
    let (asks, asked) = mpsc::sync_channel(ASKS_MAX);
    let handle = ShardHandle { asks, waker: driver.waker() };
    let hub = hub_with(&failures, &clock);
    let means = (Arc::clone(&hub), Arc::clone(&failures));
    let shard = Shard::new(driver, plans, listeners, asked, means)?;
    let (trusted, _) = watch::channel(Trusted::of(&config, name, own));
    let attaches = Attaches::new(host, &state.path, &view.node.devices, handle.clone())?;
    let backend = Arc::new_cyclic(|me| Daemon {
        attaches: Arc::new(attaches),
        traces: Traces::new(clock.clone()),
        node: name.clone(),
        config_path: options.config.clone(),
        config: RwLock::new(config),
        state: state.path.clone(),
        trusted,
        shard: handle,
        hub,
        failures,
        adding: tokio::sync::Mutex::default(),
        started: clock.now(),
        clock,
        driver: driver_name,
        errands: Mutex::default(),
        me: me.clone(),
    });
    Ok(Assembly { state, shard, backend, errands })
}

/// Where the shard of a node listens, and its limits.
fn listeners(host: &Host, node: &NodeConfig, clients: Vec<Address>) -> Result<Listeners> {
    Ok(Listeners {
        clients,
        peers: Some(Address::Inet(node.listen)),
        protection: open::protection(host, node)?,
        most_clients: node.clients,
        most_copies: node.copies_at_once,
        buffer_memory: node.buffer_memory.unwrap_or_else(|| automatic_buffer_memory(host)),
    })
}

/// A quarter of the host's memory.
fn automatic_buffer_memory(host: &Host) -> Bytes {
    Bytes(host.memory().0 / 4).max(config::BUFFER_MEMORY_LEAST)
}

/// Keeps the daemon's memory from being paged out, if the file asks for it.
fn lock_memory(view: &config::NodeView<'_>) -> Result<()> {
    if view.node.lock_memory {
        helio_attach::lock_memory().map_err(|error| {
            anyhow!(
                "lock-memory: memory cannot be locked: {error}\n  hint: raise RLIMIT_MEMLOCK (LimitMEMLOCK=infinity), or \
                 leave it out"
            )
        })?;
    }
    Ok(())
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

/// Runs the control server beside the shard until one of them ends.
fn serve(
    state: &StateDir,
    backend: Arc<Daemon>,
    errands: Vec<Errands>,
    remote: Option<SocketAddr>,
    mut running: oneshot::Receiver<thread::Result<Result<()>>>,
) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let socket = state.control_socket();
    let (node, clock, handle) =
        (backend.node.clone(), backend.clock.clone(), backend.shard.clone());
    let ended = runtime.block_on(async {
        let server = control::bind(socket)?;
        let remote = match remote {
            Some(address) => Some(Remote::bind(address, backend.trusted.subscribe()).await?),
            None => None,
        };
        tracing::info!(node, state = %state.path.display(), "helio {} is running", env!("CARGO_PKG_VERSION"));
        sd_notify::notify(&[sd_notify::NotifyState::Ready]).unwrap_or_else(|error| tracing::debug!(%error, "no service manager"));
        let (stop, stopping) = watch::channel(false);
        let (attaches, traces) = (Arc::clone(&backend.attaches), Arc::clone(&backend));
        let (limits, hub) = (control::Limits::default(), Arc::clone(&backend.hub));
        let mut serving = JoinSet::new();
        let daemon = errands::begin(errands, &backend);
        if let Some(remote) = remote {
            let backend = Arc::clone(&backend);
            serving.spawn(control::serve(remote, backend, limits, stopping.clone()));
        }
        serving.spawn(control::serve(server, backend, limits, stopping));
        let early = tokio::select! {
            ended = &mut running => Some(ended),
            signal = terminated() => { signal?; None }
        };
        let ended = match early {
            Some(ended) => ended,
            None => {
                tracing::info!(node, "stopping cleanly");
                stop_cleanly(&attaches, &handle).await?;
                running.await
            }
        };
        attaches.abandon().await;
        traces.traces.end().await;
        hub.end(clock.wall_now());
        drop(stop);
        errands::end(daemon).await;
        if tokio::time::timeout(LAST_ANSWERS_WITHIN, serving.join_all()).await.is_err() {
            tracing::debug!("a control client did not read its last response in time");
        }
        anyhow::Ok(ended?)
    })?;
    // A name server may keep a lookup waiting.
    runtime.shutdown_timeout(LAST_ANSWERS_WITHIN);
    for socket in [socket, &state.nbd_socket()] {
        if let Err(error) = state.host.remove(socket) {
            tracing::debug!(%error, socket = %socket.display(), "was already removed");
        }
    }
    match ended {
        Ok(result) => result,
        Err(panic) => {
            Err(anyhow!("the shard ended because of an internal error: {}", failed::words(&*panic)))
        }
    }
}

/// Does something to a device, where a daemon started this process for that and nothing else.
#[must_use]
pub fn did_apart() -> Option<std::process::ExitCode> {
    helio_attach::apart::asked()
}

/// Waits for SIGTERM or SIGINT.
async fn terminated() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

async fn stop_cleanly(attaches: &Arc<Attaches>, handle: &ShardHandle) -> Result<()> {
    sd_notify::notify(&[sd_notify::NotifyState::Stopping])
        .unwrap_or_else(|error| tracing::debug!(%error, "no service manager"));
    leave(attaches).await?;
    if handle.ask(Ask::Node(NodeAsk::Stop)).is_err() {
        tracing::warn!("the shard ended unexpectedly");
    }
    Ok(())
}

/// Gives the devices free that nobody uses, and waits for those that are used until their users go, or somebody
/// insists.
async fn leave(attaches: &Arc<Attaches>) -> Result<()> {
    let insisted = terminated();
    tokio::pin!(insisted);
    let mut told = String::new();
    loop {
        let looking = Arc::clone(attaches);
        // Whoever insists does not wait for a flush that waits for the peer.
        let looking = tokio::spawn(async move { looking.leave().await });
        let used = tokio::select! {
            used = looking => used?,
            insisted = &mut insisted => return insisted,
        };
        if used.is_empty() {
            return Ok(());
        }
        let used = used.join("; ");
        if told != used {
            tracing::warn!(
                "waiting for devices in use: {used}\n  hint: unmount them; a second signal stops the daemon at once, \
                 and processes that use the devices get I/O errors"
            );
            told = used;
        }
        if let Ok(insisted) = tokio::time::timeout(LOOK_AT_USERS_EVERY, &mut insisted).await {
            return insisted;
        }
    }
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

fn start_logging(format: LogFormat) {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("HELIO_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    // A second start in one process (tests) keeps the first subscriber.
    let _already_set = match format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}

// SPDX-License-Identifier: Apache-2.0
//! The daemon: reads the configuration, opens what it names, runs the shard and the control server, stops cleanly.

pub mod adopt;
mod alerts;
mod assembly;
mod attach;
mod backend;
mod blocking;
pub mod check;
pub mod config;
pub mod control;
mod descriptors;
mod digest;
mod drills;
mod durable;
mod epochs;
mod errands;
mod events;
mod failed;
mod hooks;
mod latency;
mod leave;
mod memory;
mod names;
pub mod offline;
mod open;
mod patience;
mod platform;
mod released;
mod retain;
mod returns;
mod saved;
pub mod sealed;
mod shard;
pub mod stepped;
mod trace;
mod trust;
mod verified;

pub use open::{Created, Creation, Name, Renaming, create, rename, with_restore};
pub use platform::Platform;
pub use trust::KEY_FILE;

use anyhow::{Result, anyhow};
use assembly::{Assembly, assemble, close, remove_sockets};
use backend::{Daemon, thaw_without_daemon};
use control::Remote;
use errands::Errands;
use helio_driver::{AnyDriver, DriverChoice};
use leave::{leave, stop_shard};
use open::StateDir;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

/// How long a shard looks for work before it sleeps where the file names no time: see docs/design/driver.md.
const SPIN: Duration = Duration::from_micros(150);
/// What can be done where this process may not use io_uring.
const NO_RING: &str = "allow io_uring (Linux 6.1 or later, sysctl kernel.io_uring_disabled=0; in a container, its seccomp profile), or set \
                       `driver = \"poll\"` for the node";
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
    let platform = Platform::this();
    let config = released::load(&platform.host, &options.config, &options.state)?;
    let view = config.for_node(&options.node)?;
    descriptors::provide(&platform.host, descriptors::Need::of(&view))?;
    memory::provide(&platform.host, view.node)?;
    lock_memory(&view)?;
    failed::note_panics();
    let control = view.node.control;
    let state = StateDir::open(&platform.host, &options.state)?;
    let configured = config.clone();
    let assembled = assemble(options, config, (&platform, &state), |node| {
        let (driver, why) = open_driver(node)?;
        if let Some(why) = why {
            tracing::warn!(%why, "io_uring cannot be used; threads are used instead");
        }
        let name = driver.name();
        Ok((driver, name))
    });
    let place = (&platform.host, state.path.as_path());
    let Assembly { shard, backend, errands } = assembled
        .inspect_err(|why| thaw_without_daemon(place, (&configured, &options.node), why))?;
    let (ended, running) = oneshot::channel();
    // A kernel that does not end an operation keeps the thread: its end is told before, and it is not joined.
    thread::Builder::new().name("shard-0".into()).spawn(move || {
        let _nobody_waits = ended.send(catch_unwind(AssertUnwindSafe(|| shard.run())));
    })?;
    serve(&state, backend, errands, control, running)
}

/// The driver that the file asks for; with the reason where there is no io_uring and none is asked for.
fn open_driver(node: &config::NodeConfig) -> Result<(AnyDriver, Option<io::Error>)> {
    AnyDriver::open(node.driver, node.spin.unwrap_or(SPIN)).map_err(|error| match node.driver {
        DriverChoice::Ring => {
            anyhow!("`driver = \"ring\"`: io_uring cannot be used: {error}\n  hint: {NO_RING}")
        }
        DriverChoice::Auto | DriverChoice::Poll => {
            anyhow!("the I/O driver cannot start: {error}")
        }
    })
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
    let (node, handle) = (backend.node.clone(), backend.shard.clone());
    let ended = runtime.block_on(async {
        let server = control::bind(socket)?;
        let remote = match remote {
            Some(address) => Some(Remote::bind(address, backend.trusted.subscribe()).await?),
            None => None,
        };
        tracing::info!(node, state = %state.path.display(), "helio {} is running", env!("CARGO_PKG_VERSION"));
        sd_notify::notify(&[sd_notify::NotifyState::Ready]).unwrap_or_else(|error| tracing::debug!(%error, "no service manager"));
        let (stop, stopping) = watch::channel(false);
        let (mut serving, limits) = (JoinSet::new(), control::Limits::default());
        errands::begin(errands, &backend);
        let answers = || control::router(Arc::<Daemon>::clone(&backend));
        if let Some(remote) = remote {
            serving.spawn(control::serve(remote, answers(), limits, stopping.clone()));
        }
        serving.spawn(control::serve(server, answers(), limits, stopping));
        let early = tokio::select! {
            ended = &mut running => Some(ended),
            signal = terminated() => { signal?; None }
        };
        let ended = match early {
            Some(ended) => {
                backend.freezes.end().await;
                ended
            }
            None => {
                tracing::info!(node, "stopping cleanly");
                sd_notify::notify(&[sd_notify::NotifyState::Stopping])
                    .unwrap_or_else(|error| tracing::debug!(%error, "no service manager"));
                let insisted = terminated();
                leave(&backend, insisted).await?;
                stop_shard(&handle);
                running.await
            }
        };
        close(&backend, || drop(stop)).await;
        if tokio::time::timeout(LAST_ANSWERS_WITHIN, serving.join_all()).await.is_err() {
            tracing::debug!("a control client did not read its last response in time");
        }
        anyhow::Ok(ended?)
    })?;
    // A name server may keep a lookup waiting.
    runtime.shutdown_timeout(LAST_ANSWERS_WITHIN);
    remove_sockets(state);
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

// SPDX-License-Identifier: Apache-2.0
//! What runs beside the control server for the groups: hooks, names of peers, the latency of members, automatic
//! snapshots, what is known of verifies, a service manager's watchdog.

use crate::backend::{Daemon, ShardHandle};
use crate::config::PeerAddress;
use crate::latency::{self, Permits, Unmeasured};
use crate::shard::{Ask, GroupPlan, NodeAsk};
use crate::{attach, hooks, names, retain, returns, verified};
use helio_driver::Host;
use helio_engine::HookQuestion;
use std::sync::{Arc, PoisonError};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What a group hands over without waiting.
pub(crate) struct Errands {
    group: String,
    verified: watch::Receiver<verified::Record>,
    asks: watch::Receiver<HookQuestion>,
    /// The peer's name, if it has one, and the requests to resolve it.
    lookups: Option<((String, u16), watch::Receiver<u64>)>,
    unmeasured: watch::Receiver<Vec<Unmeasured>>,
}

impl Errands {
    pub(crate) fn of(plan: &GroupPlan) -> Self {
        Self {
            group: plan.engine.group.clone(),
            verified: plan.outbox.verified.subscribe(),
            asks: plan.outbox.asks.subscribe(),
            unmeasured: plan.outbox.unmeasured.subscribe(),
            lookups: match &plan.peer_address {
                None | Some(PeerAddress::Fixed(_)) => None,
                Some(PeerAddress::Name { host, port }) => {
                    Some(((host.clone(), *port), plan.outbox.lookups.subscribe()))
                }
            },
        }
    }
}

/// All that runs.
#[derive(Debug, Default)]
pub(crate) struct RunningErrands {
    /// These end with the shard.
    keepers: JoinSet<()>,
    hooks: JoinSet<()>,
    permits: Permits,
}

/// Begins with the groups there are.
pub(crate) fn begin(errands: Vec<Errands>, daemon: &Arc<Daemon>) {
    {
        let mut running = daemon.errands.lock().unwrap_or_else(PoisonError::into_inner);
        running.hooks.spawn(attach::keep_up(Arc::clone(&daemon.attaches)));
        running.hooks.spawn(tell_alive(daemon.shard.clone()));
        running.hooks.spawn(hooks::follow(Arc::clone(daemon), Arc::clone(&daemon.hub)));
        running.hooks.spawn(returns::follow(Arc::clone(daemon)));
        running.hooks.spawn(retain::follow(Arc::clone(daemon)));
    }
    daemon.thaw_left();
    errands.into_iter().for_each(|errands| add(errands, daemon));
}

/// A group comes.
pub(crate) fn add(errands: Errands, daemon: &Arc<Daemon>) {
    let Errands { group, verified, asks, lookups, unmeasured } = errands;
    let mut running = daemon.errands.lock().unwrap_or_else(PoisonError::into_inner);
    let file = verified::path(&daemon.state, &group);
    if let Some((name, lookups)) = lookups {
        running.hooks.spawn(names::answer(daemon.shard.clone(), group.clone(), name, lookups));
    }
    let permits = running.permits.clone();
    let host = &daemon.host;
    let means = (Host::clone(host), daemon.shard.clone());
    running.hooks.spawn(latency::answer(means, group.clone(), permits, unmeasured));
    running.hooks.spawn(hooks::answer(Arc::clone(daemon), group, asks));
    running.keepers.spawn(verified::keep_up(Host::clone(host), file, verified));
}

/// The shard is gone, and what it wanted kept is written in full; nobody asks a hook any more.
pub(crate) async fn end(daemon: Arc<Daemon>) {
    let running =
        std::mem::take(&mut *daemon.errands.lock().unwrap_or_else(PoisonError::into_inner));
    running.keepers.join_all().await;
    drop(running.hooks);
}

/// Tells a service manager that wants to know that the shard answers, for as long as it does.
async fn tell_alive(shard: ShardHandle) {
    let Some(within) = sd_notify::watchdog_enabled() else { return };
    let mut looks = tokio::time::interval(within / 3);
    loop {
        looks.tick().await;
        match shard.answer(|reply| Ask::Node(NodeAsk::Running { reply })).await {
            Ok(_) => sd_notify::notify(&[sd_notify::NotifyState::Watchdog])
                .unwrap_or_else(|error| tracing::debug!(%error, "no service manager")),
            Err(error) => tracing::debug!(%error, "the shard was not asked"),
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The statuses of the daemons, requested at an interval while a page is open, and their events.

use crate::daemon::{Ask, Daemon, Guide, Simulation};
use crate::view::{Act, GroupView, NodeView, Offer, SnapshotView, View};
use futures_util::future::join_all;
use helio_api::event::{Event, What};
use helio_api::{ApiError, Attachment, Attachments, SnapshotList, Status, code, paths};
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, broadcast, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// A view does not wait longer for a daemon that is slow: it shows the last status.
const PATIENCE: Duration = Duration::from_millis(800);
/// A daemon whose last status is this old does not respond: neither its actions nor its advice are offered.
const STALE: Duration = Duration::from_secs(10);
/// Statuses of a node that are kept, for rates.
const LOOKS: usize = 5;
/// Snapshots and attached volumes are asked for with every so manyth status.
const LISTS_EVERY: u64 = 5;
/// Events that are kept for pages that are opened later, and that wait for a page that reads slowly.
const HAPPENINGS_MOST: usize = 200;
/// After the end of a stream of events.
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);

/// What a node has beside its status.
#[derive(Default)]
struct Lists {
    /// By group.
    snapshots: BTreeMap<String, Vec<SnapshotView>>,
    /// None if they cannot be listed.
    attachments: Option<Vec<Attachment>>,
}

/// What one request of the status brought, and when.
struct Looked {
    status: Result<Status, ApiError>,
    at: Instant,
}

/// The last known state of a node.
#[derive(Default)]
struct Seen {
    /// The newest last.
    looks: Vec<Status>,
    at: Option<Instant>,
    error: Option<ApiError>,
    lists: Lists,
    /// The requests in progress.
    asking: Option<JoinHandle<Looked>>,
    listing: Option<JoinHandle<Lists>>,
    asked: u64,
}

/// The events of all nodes, as JSON.
struct Happenings {
    kept: Mutex<VecDeque<Arc<str>>>,
    fresh: broadcast::Sender<Arc<str>>,
}

/// The daemons, and what they report.
pub struct Live {
    daemons: Vec<Arc<dyn Daemon>>,
    guide: Box<dyn Guide>,
    simulation: Option<Arc<dyn Simulation>>,
    interval: Duration,
    views: watch::Sender<Arc<str>>,
    /// A page was opened, or an action was carried out: the next view is made at once.
    refresh: Notify,
    happenings: Happenings,
}

impl Live {
    /// Nothing is asked before [`Self::run`].
    #[must_use]
    pub fn new(
        daemons: Vec<Arc<dyn Daemon>>,
        guide: Box<dyn Guide>,
        simulation: Option<Arc<dyn Simulation>>,
        interval: Duration,
    ) -> Arc<Self> {
        let (fresh, _) = broadcast::channel(HAPPENINGS_MOST);
        let happenings = Happenings { kept: Mutex::default(), fresh };
        let (views, _) = watch::channel(Arc::from(""));
        let refresh = Notify::new();
        Arc::new(Self { daemons, guide, simulation, interval, views, refresh, happenings })
    }

    /// Asks and follows, without end.
    pub async fn run(self: Arc<Self>) {
        let follows = (0..self.daemons.len()).map(|node| self.follow(node));
        tokio::join!(self.poll_all(), join_all(follows));
    }

    /// The views from now on; the first one comes at once.
    pub(crate) fn views(&self) -> watch::Receiver<Arc<str>> {
        let views = self.views.subscribe();
        self.refresh.notify_one();
        views
    }

    /// The events that are kept, and those that follow.
    pub(crate) fn happenings(&self) -> (Vec<Arc<str>>, broadcast::Receiver<Arc<str>>) {
        // An event is kept and sent under this lock: none is missed, and none comes twice.
        let kept = lock(&self.happenings.kept);
        (kept.iter().cloned().collect(), self.happenings.fresh.subscribe())
    }

    /// The controls of the simulated pair, if it is one.
    pub(crate) fn simulation(&self) -> Option<&dyn Simulation> {
        self.simulation.as_deref()
    }

    /// The next view does not wait.
    pub(crate) fn refresh(&self) {
        self.refresh.notify_one();
    }

    /// Carries an action out: HTTP status and body for the page.
    pub(crate) async fn act(&self, act: &Act) -> (u16, Vec<u8>) {
        let asked = match (self.daemons.get(act.node), self.guide.request(act)) {
            (Some(daemon), Ok(ask)) => daemon.ask(ask).await,
            (Some(_), Err(error)) => return (400, self.refusal(error, act).await),
            (None, _) => {
                let error = ApiError::new(
                    code::BAD_REQUEST,
                    "the page names a node that does not exist",
                    "reload the page",
                );
                return (400, self.refusal(error, act).await);
            }
        };
        self.refresh();
        match asked {
            Ok((status, body)) if (200..300).contains(&status) => (status, body),
            Ok((status, body)) => {
                (status, self.refusal(ApiError::of_response(status, &body), act).await)
            }
            Err(error) => (502, self.refusal(error, act).await),
        }
    }

    /// An error, with the actions that its hint recommends.
    async fn refusal(&self, error: ApiError, act: &Act) -> Vec<u8> {
        let hint = error.hint.clone().unwrap_or_default();
        let mut offers: Vec<Offer> = Vec::new();
        if let Some(daemon) = self.daemons.get(act.node).filter(|_| hint.contains('`'))
            && let Ok(status) = ask::<Status>(&**daemon, paths::STATUS.to_owned()).await
            && let Some(group) = status.groups.iter().find(|group| group.name == act.group)
        {
            offers = self.guide.advised(&hint, &status, group);
            offers.iter_mut().for_each(|offer| offer.command = daemon.command(&offer.command));
        }
        let mut body = json!(error);
        body["offers"] = json!(offers);
        body.to_string().into_bytes()
    }

    async fn poll_all(&self) {
        let mut nodes: Vec<Seen> = self.daemons.iter().map(|_| Seen::default()).collect();
        let mut time = None;
        loop {
            if self.views.receiver_count() == 0 {
                self.watched(false);
                self.refresh.notified().await;
                self.watched(true);
                // Rates over the time without a page would be those of another time.
                nodes = self.daemons.iter().map(|_| Seen::default()).collect();
            }
            let began = Instant::now();
            let looking =
                self.daemons.iter().zip(&mut nodes).map(|(daemon, seen)| seen.poll(daemon));
            join_all(looking).await;
            let simulation = match &self.simulation {
                Some(simulation) => simulation.show().await,
                None => None,
            };
            self.begins_again(&mut time, simulation.as_ref());
            let view = self.view(&nodes, simulation);
            self.views.send_replace(Arc::from(json!(view).to_string()));
            let left = self.interval.saturating_sub(began.elapsed());
            // Earlier if something was done.
            let _passed = timeout(left, self.refresh.notified()).await;
        }
    }

    /// Forgets what happened to the pair before this one, if virtual time went back.
    fn begins_again(&self, time: &mut Option<u64>, simulation: Option<&serde_json::Value>) {
        let now = simulation.and_then(|shown| shown["time_ms"].as_u64());
        if now < *time {
            lock(&self.happenings.kept).clear();
        }
        *time = now;
    }

    fn watched(&self, watched: bool) {
        if let Some(simulation) = &self.simulation {
            simulation.watched(watched);
        }
    }

    fn view(&self, nodes: &[Seen], simulation: Option<serde_json::Value>) -> View {
        // What a node recommended before it stopped responding may not hold any more.
        let fresh = |seen: &&Seen| seen.is_fresh();
        let statuses: Vec<Option<&Status>> =
            nodes.iter().map(|seen| Some(seen).filter(fresh)?.looks.last()).collect();
        let nodes = nodes.iter().enumerate().map(|(at, seen)| {
            let others: Vec<&Status> = statuses
                .iter()
                .enumerate()
                .filter_map(|(other, status)| status.filter(|_| other != at))
                .collect();
            NodeView {
                label: self.daemons[at].label(),
                status: seen.looks.last().cloned(),
                error: seen.error.clone(),
                age_ms: seen.age().as_millis() as u64,
                groups: self.groups(&*self.daemons[at], seen, &others),
            }
        });
        View { interval_ms: self.interval.as_millis() as u64, nodes: nodes.collect(), simulation }
    }

    fn groups(
        &self,
        daemon: &dyn Daemon,
        seen: &Seen,
        others: &[&Status],
    ) -> BTreeMap<String, GroupView> {
        let Some(status) = seen.looks.last() else { return BTreeMap::new() };
        let groups = status.groups.iter().map(|group| {
            // Nothing can be asked of a daemon that does not respond.
            let mut offers = match seen.is_fresh() {
                true => self.guide.offers(status, group, others),
                false => Vec::new(),
            };
            offers.iter_mut().for_each(|offer| offer.command = daemon.command(&offer.command));
            let view = GroupView {
                offers,
                choices: self.guide.choices(group, others),
                forecast: self.guide.forecast(&seen.looks, group),
                snapshots: seen.lists.snapshots.get(&group.name).cloned().unwrap_or_default(),
                attachments: seen.attachments(&group.name),
            };
            (group.name.clone(), view)
        });
        groups.collect()
    }

    /// Follows the events of a node, again after each end.
    async fn follow(&self, node: usize) {
        let mut last = None;
        loop {
            let (sender, mut events) = mpsc::channel::<Event>(HAPPENINGS_MOST);
            let since = last;
            let taking = async {
                while let Some(event) = events.recv().await {
                    last = last.max(Some(event.sequence));
                    if !matches!(event.event, What::Exists | What::Alive) {
                        self.happened(&json!({ "node": node, "event": event }));
                    }
                }
            };
            tokio::join!(self.daemons[node].follow(since, sender), taking);
            let _passed = timeout(FOLLOW_PAUSE, pending::<()>()).await;
        }
    }

    fn happened(&self, happening: &serde_json::Value) {
        let text: Arc<str> = Arc::from(happening.to_string());
        let mut kept = lock(&self.happenings.kept);
        kept.push_back(Arc::clone(&text));
        if kept.len() > HAPPENINGS_MOST {
            kept.pop_front();
        }
        // Without an open page there is no receiver.
        let _ = self.happenings.fresh.send(text);
    }
}

impl Seen {
    /// Age of the last status.
    fn age(&self) -> Duration {
        self.at.map_or(Duration::ZERO, |at| at.elapsed())
    }

    /// Whether the daemon responds.
    fn is_fresh(&self) -> bool {
        self.error.is_none() && self.age() < STALE
    }

    /// Asks for the status, and takes it if it arrives soon. One that takes longer is taken at a later look.
    async fn poll(&mut self, daemon: &Arc<dyn Daemon>) {
        let asking = self.asking.get_or_insert_with(|| {
            let daemon = Arc::clone(daemon);
            tokio::spawn(async move {
                let status = ask(&*daemon, paths::STATUS.to_owned()).await;
                Looked { status, at: Instant::now() }
            })
        });
        if let Ok(looked) = timeout(PATIENCE, asking).await {
            self.asking = None;
            match looked {
                Ok(Looked { status: Ok(status), at }) => {
                    (self.error, self.at) = (None, Some(at));
                    self.list(daemon, &status).await;
                    self.keep(status);
                }
                Ok(Looked { status: Err(error), .. }) => self.error = Some(error),
                Err(panicked) => {
                    let text = format!("the request of the status failed: {panicked}");
                    let hint = "start `helio dashboard` again, and report this as a defect";
                    self.error = Some(ApiError::new(code::INTERNAL, text, hint));
                }
            }
        }
    }

    /// Takes the lists that have arrived, and asks for them again once in a while.
    async fn list(&mut self, daemon: &Arc<dyn Daemon>, status: &Status) {
        if self.listing.as_ref().is_some_and(JoinHandle::is_finished)
            && let Some(listing) = self.listing.take()
            && let Ok(listed) = listing.await
        {
            let Lists { snapshots, attachments } = &mut self.lists;
            snapshots.extend(listed.snapshots);
            snapshots.retain(|name, _| status.groups.iter().any(|group| group.name == *name));
            *attachments = listed.attachments.or(attachments.take());
        }
        if self.listing.is_none() && self.asked.is_multiple_of(LISTS_EVERY) {
            let daemon = Arc::clone(daemon);
            let groups = status.groups.iter().map(|group| group.name.clone()).collect();
            self.listing = Some(tokio::spawn(async move { list(&*daemon, groups).await }));
        }
        self.asked += 1;
    }

    fn attachments(&self, group: &str) -> Vec<Attachment> {
        let all = self.lists.attachments.iter().flatten();
        all.filter(|attachment| attachment.group == group).cloned().collect()
    }

    fn keep(&mut self, status: Status) {
        // Rates are those of one run of the daemon.
        let uptime = status.daemon_uptime_seconds;
        if self.looks.last().is_some_and(|last| last.daemon_uptime_seconds > uptime) {
            self.looks.clear();
        }
        self.looks.push(status);
        if self.looks.len() > LOOKS {
            self.looks.remove(0);
        }
    }
}

/// The lists of a node; without those that it does not send, of which the last ones stay.
async fn list(daemon: &dyn Daemon, groups: Vec<String>) -> Lists {
    let mut lists = Lists::default();
    let attached = ask::<Attachments>(daemon, paths::ATTACHMENTS.to_owned()).await;
    lists.attachments = attached.ok().map(|all| all.attachments);
    for group in groups {
        let path = paths::of_group(paths::SNAPSHOTS, &group);
        if let Ok(list) = ask::<SnapshotList>(daemon, path).await {
            lists.snapshots.insert(group, snapshots(list));
        }
    }
    lists
}

fn snapshots(list: SnapshotList) -> Vec<SnapshotView> {
    let held = list.snapshots.into_iter().map(|snapshot| SnapshotView {
        name: if snapshot.safe_copy { "safe copy".to_owned() } else { snapshot.name },
        at_ms: snapshot.at_ms.0,
        preserved_bytes: snapshot.preserved_bytes.0,
        consistent: snapshot.consistent,
        missing: None,
    });
    let missing = list.missing.into_iter().map(|snapshot| SnapshotView {
        name: snapshot.name,
        at_ms: snapshot.since_ms.0,
        preserved_bytes: 0,
        consistent: false,
        missing: Some(snapshot.reason),
    });
    held.chain(missing).collect()
}

async fn ask<T: serde::de::DeserializeOwned>(
    daemon: &dyn Daemon,
    path: String,
) -> Result<T, ApiError> {
    let (status, body) = daemon.ask(Ask::get(path)).await?;
    if !(200..300).contains(&status) {
        return Err(ApiError::of_response(status, &body));
    }
    serde_json::from_slice(&body).map_err(|error| {
        ApiError::new(
            code::INTERNAL,
            format!("the response of {} is invalid: {error}", daemon.label()),
            "use the same version of helio as the daemon",
        )
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept is whole after every step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

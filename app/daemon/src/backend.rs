// SPDX-License-Identifier: Apache-2.0
//! Answers the control server by asking the shard.

mod apply;
mod clients;
mod come;
mod drill;
mod freeze;
mod member;
mod queue;
mod release;
mod roles;
mod saved;
mod set;
mod snapshots;
mod trace;
mod verify;

use crate::attach::{Attaches, Devices};
use crate::blocking::blocking;
use crate::config::Config;
use crate::control::{Answering, Backend, Command, EventStream, Reply};
use crate::errands::RunningErrands;
use crate::events::Hub;
use crate::failed::{self, Failures};
use crate::shard::{ATTACHED, Ask, Clock, LookAsk, NodeAsk, Shown, ShownGroups};
use crate::trace::Traces;
use crate::trust::Trusted;
pub(crate) use freeze::{Freezes, thaw_without_daemon};
use helio_api::{Accepted, ApiError, EventsRequest, RecorderDump, Status, code};
use helio_driver::{Host, Waker};
use helio_engine::Done;
use helio_units::Moment;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// How often, and how many times, a peer that may be on its way is looked for: a second in all.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOKS: u32 = 20;

/// How the control plane reaches the shard: a bounded queue and the driver's waker.
#[derive(Clone)]
pub(crate) struct ShardHandle {
    pub(crate) asks: SyncSender<Ask>,
    pub(crate) waker: Waker,
}

impl ShardHandle {
    /// Asks; refuses at once where the queue is full or the shard has ended.
    pub(crate) fn ask(&self, ask: Ask) -> Result<(), ApiError> {
        let sent = self.asks.try_send(ask);
        self.waker.wake();
        sent.map_err(|error| match error {
            TrySendError::Full(_) => ApiError {
                retry: true,
                ..ApiError::new(
                    "busy",
                    "the daemon has too many requests in progress",
                    "repeat the command",
                )
            },
            TrySendError::Disconnected(_) => stopping(),
        })
    }

    /// Asks, and again while the queue is full.
    pub(crate) async fn ask_patiently(&self, mut ask: Ask) -> Result<(), Ask> {
        let mut tries = tokio::time::interval(LOOK_EVERY);
        loop {
            tries.tick().await;
            match self.asks.try_send(ask) {
                Ok(()) => {
                    self.waker.wake();
                    return Ok(());
                }
                Err(TrySendError::Full(back)) => ask = back,
                Err(TrySendError::Disconnected(back)) => return Err(back),
            }
        }
    }

    pub(crate) async fn answer<T>(
        &self,
        make: impl FnOnce(oneshot::Sender<T>) -> Ask,
    ) -> Result<T, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.ask(make(reply))?;
        answer.await.map_err(|_| {
            let text = "the daemon stopped, or stopped serving the group, before it responded";
            ApiError::new("stopping", text, "`helio status` shows the groups and their errors")
        })
    }

    /// Looks at a group.
    pub(crate) async fn look<T>(
        &self,
        group: &str,
        make: impl FnOnce(oneshot::Sender<T>) -> LookAsk,
    ) -> Result<T, ApiError> {
        let group = group.to_owned();
        self.answer(|reply| Ask::Look { group, look: make(reply) }).await
    }
}

/// The backend of one daemon.
pub(crate) struct Daemon {
    pub(crate) host: Host,
    pub(crate) clock: Clock,
    pub(crate) node: String,
    pub(crate) config_path: PathBuf,
    /// As the file was when the daemon started, but for groups that came or were released since, and members that were replaced.
    pub(crate) config: RwLock<Config>,
    /// The state directory, where this node's key is.
    pub(crate) state: PathBuf,
    /// Who is trusted now; the control listener looks here.
    pub(crate) trusted: watch::Sender<Trusted>,
    pub(crate) shard: ShardHandle,
    pub(crate) hub: Arc<Hub>,
    /// Groups of this node that are not served.
    pub(crate) failures: Arc<Failures>,
    /// Held while a member that is open is added: metadata files get room for one at a time.
    pub(crate) adding: tokio::sync::Mutex<()>,
    /// Held while the end of a drill is recorded.
    pub(crate) drilling: tokio::sync::Mutex<()>,
    /// Whose applications are frozen for a snapshot.
    pub(crate) freezes: Freezes,
    pub(crate) attaches: Arc<Attaches>,
    pub(crate) traces: Traces,
    pub(crate) started: Moment,
    /// What the shard runs on.
    pub(crate) driver: &'static str,
    /// What runs beside the control server for the groups.
    pub(crate) errands: Mutex<RunningErrands>,
    /// Itself, for errands of groups that come.
    pub(crate) me: Weak<Self>,
}

impl Backend for Daemon {
    fn call(&self, command: Command) -> Answering<'_> {
        Box::pin(async move { self.done(command).await.map_err(|error| error.by(&self.node)) })
    }

    fn events(&self, wish: EventsRequest) -> Result<EventStream, ApiError> {
        if let Some(group) = &wish.group {
            self.known(group).map_err(|error| error.by(&self.node))?;
        }
        let reader = self.hub.listen(wish.group, wish.since, wish.now);
        Ok(Box::pin(futures_util::stream::unfold(reader, async |mut reader| {
            Some((reader.next().await?, reader))
        })))
    }
}

fn stopping() -> ApiError {
    ApiError::new("stopping", "the daemon is stopping", "start it again")
}

impl Daemon {
    async fn done(&self, command: Command) -> Result<Reply, ApiError> {
        match command {
            Command::Status { group } => self.status(group).await.map(Reply::Status),
            Command::Pause { group } => self.carry_out(group, helio_engine::Command::Pause).await,
            Command::Resume { group } => self.carry_out(group, helio_engine::Command::Resume).await,
            Command::Resync { group, wish } => self.resync(group, wish).await,
            Command::Mode { group, mode } => {
                self.carry_out(group, helio_engine::Command::Mode(mode)).await
            }
            Command::Demote { group } => self.demote(group).await,
            Command::Switch { group, force } => self.switch(group, force).await,
            Command::Explain { group } => self.explanation(group).await.map(Reply::Explained),
            Command::Resolve { group, wish } => self.resolve(group, wish).await,
            Command::Reverse { group, wish } => self.reverse(group, wish).await,
            Command::MemberReplace { group, wish } => self.replace_member(group, wish).await,
            Command::MemberAccept { group, wish } => self.accept_member(group, wish).await,
            Command::MemberAdd { group, wish } => self.add_member(group, wish).await,
            Command::MemberRemove { group, wish } => self.remove_member(group, wish).await,
            Command::MemberMerge { group, wish } => self.merge_members(group, wish).await,
            Command::MemberSet { group, wish } => self.set_member(group, wish).await,
            Command::Promote { group, fence: true, .. } => self.promote_fenced(group).await,
            Command::Promote { group, force, confirmed, restore, .. } => {
                self.promote(group, (force, confirmed), restore).await
            }
            Command::Queue { group } => self.queue(group).await.map(Reply::Queue),
            Command::QueueSet { group, wish } => self.set_queue(group, wish).await,
            Command::QueueReset { group } => {
                self.carry_out(group, helio_engine::Command::ResetQueueMarks).await
            }
            Command::Verify { group, wish } => self.verify(group, wish).await,
            Command::VerifyStop { group } => {
                self.carry_out(group, helio_engine::Command::StopVerify).await
            }
            Command::SeedBegin { group } => self.begin_seed(group).await,
            Command::SeedEnd { group } => {
                self.carry_out(group, helio_engine::Command::SeedEnd).await
            }
            Command::Apply { dry_run } => {
                let me = self.myself()?;
                to_the_end(async move { me.apply(dry_run).await }).await.map(Reply::Applied)
            }
            Command::Snapshots { .. }
            | Command::SnapshotCreate { .. }
            | Command::SnapshotDelete { .. }
            | Command::SnapshotRestore { .. } => self.on_snapshots(command).await,
            Command::Drill { group, report } => self.drilled(group, report).await,
            Command::Attach { group, wish } => {
                self.known(&group)?;
                let attaches = Arc::clone(&self.attaches);
                let done = to_the_end(async move { attaches.attach(group, wish).await });
                done.await.map(Reply::Attached)
            }
            Command::Detach { group, wish } => {
                let attaches = Arc::clone(&self.attaches);
                let done = to_the_end(async move { attaches.detach(&group, &wish).await });
                done.await.map(accepted)
            }
            Command::Release { group, wish } => {
                let me = self.myself()?;
                to_the_end(async move { me.release(group, wish).await }).await
            }
            Command::TraceStart { group, wish } => self.start_trace(group, wish).await,
            Command::TraceStop { group } => self.stop_trace(group).await,
            Command::Attachments => Ok(Reply::Attachments(self.attaches.list().await)),
            Command::Clients | Command::ClientClose { .. } => self.on_clients(command).await,
            Command::Saved => self.list_saved().await.map(Reply::Saved),
            Command::SavedDelete { wish } => self.delete_saved(wish).await,
            Command::Recorder { group } => self.recorded(group).await.map(Reply::Recorder),
        }
    }

    async fn recorded(&self, group: String) -> Result<RecorderDump, ApiError> {
        self.known(&group)?;
        let events = self.shard.look(&group, |reply| LookAsk::Recorder { reply }).await?;
        Ok(RecorderDump { events })
    }

    /// This daemon, for work that outlives who asked for it.
    fn myself(&self) -> Result<Arc<Self>, ApiError> {
        self.me.upgrade().ok_or_else(stopping)
    }

    async fn begin_seed(&self, group: String) -> Result<Reply, ApiError> {
        let at = self.clock.wall_now().0;
        self.carry_out(group, helio_engine::Command::SeedBegin { at }).await
    }

    /// `force`: who uses an attached volume of the group has errors from then on.
    async fn switch(&self, group: String, force: bool) -> Result<Reply, ApiError> {
        self.known(&group)?;
        if force {
            self.attaches.end_of_group(&group).await;
        }
        let command = helio_engine::Command::Switch;
        let done = self.command_unless_used(group, command).await?;
        Ok(accepted(done.text))
    }

    /// A command that is refused while volumes are attached to be written.
    async fn command_unless_used(
        &self,
        group: String,
        command: helio_engine::Command,
    ) -> Result<Done, ApiError> {
        self.known(&group)?;
        let ask = |reply| Ask::Command { group: group.clone(), command, reply };
        match self.shard.answer(ask).await? {
            Ok(done) => Ok(done),
            Err(refusal) => Err(self.naming_users(&group, refusal, Devices::Writable).await),
        }
    }

    /// What the shard did, unless a volume is attached in whatever manner.
    async fn unless_used<T>(
        &self,
        group: &str,
        done: Result<T, helio_engine::Refusal>,
    ) -> Result<T, ApiError> {
        match done {
            Ok(done) => Ok(done),
            Err(refusal) => Err(self.naming_users(group, refusal, Devices::All).await),
        }
    }

    /// A refusal because volumes are in use names the devices and where they are mounted: the shard cannot look that up.
    /// It keeps the other reasons, such as NBD clients.
    async fn naming_users(
        &self,
        group: &str,
        refusal: helio_engine::Refusal,
        which: Devices,
    ) -> ApiError {
        let only_devices = refusal.code == ATTACHED;
        let error = of_refusal(refusal);
        if error.code != "in-use" {
            return error;
        }
        match self.attaches.in_use(group, which).await {
            Some(devices) if only_devices => devices,
            Some(devices) => both(error, devices),
            None => error,
        }
    }

    pub(crate) fn config(&self) -> RwLockReadGuard<'_, Config> {
        self.config.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn config_mut(&self) -> RwLockWriteGuard<'_, Config> {
        self.config.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn groups(&self) -> Vec<String> {
        let config = self.config();
        let mine = config.groups.iter().filter(|(_, group)| group.nodes.contains(&self.node));
        mine.map(|(name, _)| name.clone()).collect()
    }

    /// Whether the group is one of this node, and served.
    fn known(&self, group: &str) -> Result<(), ApiError> {
        self.configured(group)?;
        self.failures.get(group).map_or(Ok(()), |failed| Err(failed::error(failed)))
    }

    /// Whether the group is served, and has a peer.
    fn with_peer(&self, group: &str) -> Result<(), ApiError> {
        self.known(group)?;
        let nodes = self.config().groups.get(group).map_or(0, |group| group.nodes.len());
        if nodes > 1 { Ok(()) } else { Err(of_refusal(helio_engine::Refusal::no_peer(group))) }
    }

    fn configured(&self, group: &str) -> Result<(), ApiError> {
        if self.groups().iter().any(|g| g == group) { Ok(()) } else { Err(self.unknown(group)) }
    }

    fn unknown(&self, group: &str) -> ApiError {
        let text = format!("group {group} is not configured on node {}", self.node);
        ApiError::name_one_of(code::UNKNOWN_GROUP, text, &self.groups())
    }

    async fn status(&self, group: Option<String>) -> Result<Status, ApiError> {
        if let Some(group) = &group {
            self.configured(group)?;
        }
        let (mut groups, mut of) = (Vec::new(), group.clone().map_or(Shown::From(0), Shown::Group));
        // The time of the last ones: nothing that is shown is later.
        let at_ms = loop {
            let ask = |reply| Ask::Node(NodeAsk::Status { of, reply });
            let ShownGroups { at, groups: some, next } = self.shard.answer(ask).await?;
            groups.extend(some);
            match next {
                Some(next) => of = Shown::From(next),
                None => break at,
            }
        };
        let mut failed = self.failures.list(at_ms);
        let asked = |name: &String| group.as_ref().is_none_or(|wanted| wanted == name);
        failed.retain(|g| asked(&g.name));
        groups.iter_mut().for_each(|g| g.trace = self.traces.status(&g.name, at_ms));
        Ok(Status {
            node: self.node.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            at_ms,
            daemon_uptime_seconds: self.clock.now() - self.started,
            driver: self.driver.into(),
            groups,
            failed,
        })
    }

    async fn carry_out(
        &self,
        group: String,
        command: helio_engine::Command,
    ) -> Result<Reply, ApiError> {
        self.command(group, command).await.map(|done| accepted(done.text))
    }

    async fn command(
        &self,
        group: String,
        command: helio_engine::Command,
    ) -> Result<Done, ApiError> {
        self.known(&group)?;
        let ask = |reply| Ask::Command { group, command, reply };
        self.shard.answer(ask).await?.map_err(of_refusal)
    }

    /// Says what is at stake before anything that needs force is done, and does it only when that was accepted.
    async fn promote(
        &self,
        group: String,
        (force, confirmed): (bool, bool),
        restore: bool,
    ) -> Result<Reply, ApiError> {
        self.known(&group)?;
        // Without a peer, nothing that is promoted can diverge.
        let force = force && self.with_peer(&group).is_ok();
        let command = if restore {
            helio_engine::Command::Restore { force }
        } else {
            helio_engine::Command::Promote { force }
        };
        let at_stake = || self.shard.look(&group, |reply| LookAsk::AtStake { reply });
        if force && !confirmed && !self.is_primary(&group).await? {
            // What is refused all the same needs no confirmation.
            let look = |reply| LookAsk::MayPromote { restore, reply };
            self.shard.look(&group, look).await?.map_err(of_refusal)?;
            let stake = at_stake().await?;
            let mut error = ApiError::new(
                code::NEEDS_CONFIRMATION,
                format!("a forced promotion of {group} may lose writes"),
                "repeat with --yes if these writes may be lost",
            );
            error.at_stake = Some(stake);
            return Err(error);
        }
        let warning = if force { Some(at_stake().await?.text) } else { None };
        match self.carry_out(group.clone(), command).await {
            Ok(Reply::Accepted(mut accepted)) => {
                accepted.warnings.extend(warning);
                Ok(Reply::Accepted(accepted))
            }
            Err(error) if error.code == code::NEEDS_FORCE && self.peer_comes(&group).await? => {
                tracing::debug!(%error, "the peer was on its way");
                self.carry_out(group, command).await
            }
            Err(mut error) if error.code == code::NEEDS_FORCE => {
                error.at_stake = Some(at_stake().await?);
                Err(error)
            }
            other => other,
        }
    }

    /// Does what may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        blocking(&self.host, work).await.map_err(|panic| {
            let text = format!("an internal error: {}", failed::words(&*panic));
            ApiError::new(code::INTERNAL, text, "report this as a bug")
        })
    }

    /// Whether the peer connects within moments. One that changed its role hangs up and connects again: that is
    /// worth waiting for before force is spoken of.
    async fn peer_comes(&self, group: &str) -> Result<bool, ApiError> {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        for _ in 0..LOOKS {
            looks.tick().await;
            let status = self.status(Some(group.to_owned())).await?;
            if status.groups.iter().any(helio_api::GroupStatus::is_connected) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether there is nothing left to promote.
    async fn is_primary(&self, group: &str) -> Result<bool, ApiError> {
        let status = self.status(Some(group.to_owned())).await?;
        Ok(status.groups.iter().any(|g| g.role == helio_units::Role::Primary))
    }
}

/// Does what must not end halfway, whether or not who asked still listens.
async fn to_the_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn accepted(message: String) -> Reply {
    Reply::Accepted(Accepted { message, warnings: Vec::new() })
}

/// One error for two reasons that both have to be ended.
fn both(first: ApiError, second: ApiError) -> ApiError {
    let hints: Vec<String> = first.hint.into_iter().chain(second.hint).collect();
    let error = format!("{}; {}", first.error, second.error);
    ApiError { error, hint: Some(hints.join("; ")), ..second }
}

/// An engine's refusal in the words of the API.
pub(crate) fn of_refusal(refusal: helio_engine::Refusal) -> ApiError {
    // Programs get one code, whatever uses the volumes.
    let code = if refusal.code == ATTACHED { "in-use" } else { refusal.code };
    ApiError { retry: refusal.retry, ..ApiError::new(code, refusal.text, refusal.hint) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_devices_are_both_reported() {
        let clients = ApiError::new("in-use", "1 NBD connection(s) use db", "disconnect them");
        let devices = ApiError::new("in-use", "db/data is attached as /dev/x", "detach it");
        let both = both(clients, devices);
        assert_eq!(both.error, "1 NBD connection(s) use db; db/data is attached as /dev/x");
        assert_eq!(
            (both.code.as_str(), both.hint.as_deref()),
            ("in-use", Some("disconnect them; detach it"))
        );
    }
}

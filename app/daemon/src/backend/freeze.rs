// SPDX-License-Identifier: Apache-2.0
//! Snapshots of a frozen application.
//!
//! ```text
//!   GROUP.frozen ──> freeze ──0──> the snapshot ──it is held, refused or late──> thaw ──> no GROUP.frozen
//!                      └── fails ────────────────────────────────────────────────^
//! ```
//! Whether or not who asked still waits, `thaw` runs once for each `freeze` that was started. A daemon that stops waits for it. One
//! that was killed leaves the file, and the next one runs `thaw`, also if it can serve no group.

use super::{Daemon, both, of_refusal, stopping};
use crate::blocking::blocking;
use crate::config::Config;
use crate::hooks::{Call, Ended, Occasion};
use crate::shard::LookAsk;
use crate::{durable, failed};
use helio_api::{Accepted, ApiError, code};
use helio_driver::Host;
use helio_engine::Command;
use helio_format::snapshot::SnapshotAct;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a start that fails waits for the hook `thaw`.
const THAWED_WITHIN: Duration = Duration::from_secs(60);

/// The groups whose applications are frozen, or are about to be.
#[derive(Debug, Default)]
pub(crate) struct Freezes(watch::Sender<State>);

#[derive(Debug, Default)]
struct State {
    frozen: BTreeSet<String>,
    stopping: bool,
}

/// The application of a group is frozen until this is dropped.
#[derive(Debug)]
struct Frozen {
    group: String,
    of: watch::Sender<State>,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.of.send_modify(|state| _ = state.frozen.remove(&self.group));
    }
}

impl Freezes {
    /// Refuses a second freeze of the same group, and any once the daemon stops.
    fn begin(&self, group: &str) -> Result<Frozen, ApiError> {
        let mut refused = Some(stopping());
        self.0.send_if_modified(|state| {
            if !state.stopping {
                refused = (!state.frozen.insert(group.to_owned())).then(|| busy(group));
            }
            refused.is_none()
        });
        let frozen = || Frozen { group: group.to_owned(), of: self.0.clone() };
        refused.map_or_else(|| Ok(frozen()), Err)
    }

    /// The daemon stops: freezes no application any more, and waits until all are thawed.
    pub(crate) async fn end(&self) {
        self.0.send_modify(|state| state.stopping = true);
        let mut state = self.0.subscribe();
        // The sender is here.
        let _thawed = state.wait_for(|state| state.frozen.is_empty()).await;
    }
}

impl Daemon {
    /// The hooks to run around such an act, if there are any.
    pub(super) async fn freezing(
        &self,
        group: &str,
        act: SnapshotAct,
    ) -> Result<Option<[Call; 2]>, ApiError> {
        let hooks = [Occasion::Freeze, Occasion::Thaw].map(|it| Call::new(self, group, it, ""));
        let ([Some(freeze), Some(thaw)], false) = (hooks, matches!(act, SnapshotAct::Delete(_)))
        else {
            return Ok(None);
        };
        let status = self.status(Some(group.to_owned())).await?;
        let state = status.groups.first().map(|group| group.state.to_string());
        let state = state.unwrap_or_default();
        Ok(Some([freeze, thaw].map(|hook| hook.with_snapshot(act.name().as_str(), &state))))
    }

    /// Creates or refreshes a snapshot while the application is frozen.
    pub(super) async fn snapshot_frozen(
        &self,
        group: &str,
        act: SnapshotAct,
        [freeze, thaw]: [Call; 2],
    ) -> Result<Accepted, ApiError> {
        let frozen = self.freezes.begin(group)?;
        // What is refused all the same freezes no application.
        let look = |reply| LookAsk::MaySnapshot { act, reply };
        self.shard.look(group, look).await?.map_err(of_refusal)?;
        let record = self.freeze_record(group);
        record.keep(act).await?;
        let (began, limit) = (self.clock.now(), freeze.timeout());
        let mut cut = pin!(self.command(group.to_owned(), Command::Snapshot(act)));
        let in_time = match freeze.run().await {
            Ended::Code(0) => tokio::time::timeout(limit, cut.as_mut()).await.ok(),
            ended => Some(Err(not_frozen(group, act, &ended))),
        };
        let thawed = record.thaw(thaw, Trial::Last).await;
        let span = (self.clock.now() - began).as_secs_f64();
        let name = act.name();
        tracing::info!(group, snapshot = %name, "the application was frozen for {span:.3} s");
        drop(frozen);
        let mut warnings = Vec::new();
        let done = match in_time {
            Some(done) => done,
            None => {
                warnings.push(late(group, act, limit));
                cut.await
            }
        };
        match (done, thawed) {
            (Ok(done), thawed) => {
                warnings.extend(thawed.err().map(|error| as_warning(&error)));
                let message = format!("{}; the application was frozen for {span:.3} s", done.text);
                Ok(Accepted { message, warnings })
            }
            (Err(error), Ok(())) => Err(error),
            (Err(error), Err(frozen)) => Err(both(frozen, error)),
        }
    }

    /// Thaws what a daemon that was killed left frozen.
    pub(crate) fn thaw_left(self: &Arc<Self>) {
        let records = self.groups().into_iter().map(|group| self.freeze_record(&group));
        for record in records.filter(|record| self.host.exists(&record.path)) {
            if let Ok(frozen) = self.freezes.begin(&record.group) {
                let call = Call::new(self, &record.group, Occasion::Thaw, "");
                tokio::spawn(async move {
                    record.thaw_left(call, Trial::Last).await;
                    drop(frozen);
                });
            }
        }
    }

    fn freeze_record(&self, group: &str) -> FreezeRecord {
        FreezeRecord::of((&self.host, &self.state), group)
    }
}

/// Runs the hook `thaw` where a daemon that was killed left applications frozen, and this one cannot start. What fails then is tried again
/// at the next start: a device may be missing. The caller holds the lock of the state directory.
pub(crate) fn thaw_without_daemon(
    place: (&Host, &Path),
    (config, node): (&Config, &str),
    why: &anyhow::Error,
) {
    let record = |group: &String| FreezeRecord::of(place, group);
    let left = |record: &FreezeRecord| record.host.exists(&record.path);
    let records: Vec<FreezeRecord> = config.groups.keys().map(record).filter(left).collect();
    if records.is_empty() {
        return;
    }
    tracing::error!("the daemon cannot start, and applications were left frozen: {why:#}");
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::warn!(%error, "the hook thaw cannot be run"),
    };
    let mut thaws = JoinSet::new();
    for record in records {
        let group = config.groups.get(&record.group);
        let of = |it| Call::of(it, (node, &record.group), Occasion::Thaw, "");
        let call = group.and_then(of);
        thaws
            .spawn_on(async move { record.thaw_left(call, Trial::OfMany).await }, runtime.handle());
    }
    let all = async { tokio::time::timeout(THAWED_WITHIN, thaws.join_all()).await };
    if runtime.block_on(all).is_err() {
        tracing::warn!("the hook thaw did not end within {THAWED_WITHIN:?}");
    }
    runtime.shutdown_background();
}

/// What becomes of the record if the hook fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// It is removed.
    Last,
    /// It stays, and the next start runs the hook again.
    OfMany,
}

/// The file that says that the application of a group is frozen. It contains the name of the snapshot.
struct FreezeRecord {
    host: Host,
    path: PathBuf,
    group: String,
}

impl FreezeRecord {
    fn of((host, state): (&Host, &Path), group: &str) -> Self {
        let path = state.join("groups").join(format!("{group}.frozen"));
        Self { host: Host::clone(host), path, group: group.to_owned() }
    }

    /// A daemon that is killed from now on is followed by one that runs `thaw`.
    async fn keep(&self, act: SnapshotAct) -> Result<(), ApiError> {
        let (host, path) = (Host::clone(&self.host), self.path.clone());
        let name = act.name().to_string();
        let recorded = blocking(&self.host, move || durable::keep(&host, &path, &name)).await;
        let why = match recorded {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => failed::words(&*panic).to_owned(),
        };
        let text =
            format!("{}: the state directory cannot be written: {why}", not_done(&self.group, act));
        Err(ApiError::new(code::INTERNAL, text, "check the file system of the state directory"))
    }

    async fn remove(&self) {
        let (host, path) = (Host::clone(&self.host), self.path.clone());
        if let Ok(Err(error)) = blocking(&self.host, move || host.remove(&path)).await {
            let (group, file) = (&self.group, self.path.display());
            tracing::warn!(group, %file, %error, "the file cannot be removed: thaw runs again at the next start");
        }
    }

    async fn thaw(&self, thaw: Call, trial: Trial) -> Result<(), ApiError> {
        let ended = thaw.run().await;
        if trial == Trial::Last || matches!(ended, Ended::Code(0)) {
            self.remove().await;
        }
        let Ended::Code(0) = ended else {
            let group = &self.group;
            let text = format!(
                "the application of {group} may still be frozen: the hook thaw failed: {ended}"
            );
            let hint = "thaw the application, then read the output of the hook in the daemon's log";
            return Err(ApiError::new("hook-refused", text, hint));
        };
        Ok(())
    }

    /// Thaws what a daemon that was killed left frozen.
    async fn thaw_left(&self, thaw: Option<Call>, trial: Trial) {
        let group = &self.group;
        tracing::warn!(group, "the daemon ended while the application was frozen");
        let (host, path) = (Host::clone(&self.host), self.path.clone());
        let load = move || durable::load(&host, &path, "the name of a snapshot");
        let name: String = blocking(&self.host, load).await.ok().flatten().unwrap_or_default();
        let Some(thaw) = thaw else {
            tracing::warn!(
                group,
                "the application may still be frozen: there is no hook thaw any more"
            );
            return self.remove().await;
        };
        if let Err(ApiError { error, hint, .. }) =
            self.thaw(thaw.with_snapshot(&name, ""), trial).await
        {
            tracing::warn!(group, hint, "{error}");
        }
    }
}

/// What is not done, as the beginning of an error.
fn not_done(group: &str, act: SnapshotAct) -> String {
    let name = act.name();
    match act {
        SnapshotAct::Refresh(_) => format!("snapshot {name} of {group} was not refreshed"),
        _ => format!("snapshot {name} of {group} was not created"),
    }
}

fn busy(group: &str) -> ApiError {
    let text =
        format!("the application of {group} is frozen for another snapshot, or is being thawed");
    ApiError { retry: true, ..ApiError::new("busy", text, "repeat the command in a moment") }
}

fn not_frozen(group: &str, act: SnapshotAct, ended: &Ended) -> ApiError {
    let text = format!("{}: the hook freeze failed: {ended}", not_done(group, act));
    let name = act.name();
    let command = match act {
        SnapshotAct::Refresh(_) => format!("`helio snapshot refresh {group}@{name}`"),
        _ => format!("`helio snapshot create {group}@{name}`"),
    };
    let hint = format!("read the output of the hook in the daemon's log, then {command}");
    ApiError::new("hook-refused", text, hint)
}

/// What is to be said of a snapshot that was not complete in time.
fn late(group: &str, act: SnapshotAct, limit: Duration) -> String {
    let name = act.name();
    let text = format!(
        "snapshot {name} of {group} may not be application-consistent: it was not complete {limit:?} after the \
         application was frozen, so thaw ran before"
    );
    tracing::warn!(group, "{text}");
    format!("{text}\n  hint: `helio snapshot refresh {group}@{name}` replaces it")
}

fn as_warning(error: &ApiError) -> String {
    format!("{}\n  hint: {}", error.error, error.hint.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn an_application_is_frozen_once_at_a_time_and_the_end_waits_until_all_are_thawed() {
        let freezes = Freezes::default();
        let begin = |group| freezes.begin(group).map_err(|error| (error.code, error.retry));
        let frozen = begin("db").expect("nothing is frozen");
        assert_eq!(begin("db").map(drop), Err(("busy".into(), true)));
        let other = begin("mail").expect("another group does not wait");
        drop(frozen);
        let frozen = begin("db").expect("it is thawed");
        for last in [other, frozen] {
            assert_eq!(freezes.end().now_or_never(), None, "one is frozen");
            assert_eq!(begin("web").map(drop), Err(("stopping".into(), false)));
            drop(last);
        }
        assert_eq!(freezes.end().now_or_never(), Some(()));
    }

    #[test]
    fn what_is_said_of_an_application_that_was_not_frozen_or_not_long_enough_has_a_command() {
        let name = helio_units::CopyName::new("one").expect("a name");
        let error = not_frozen("db", SnapshotAct::Refresh(name), &Ended::Code(1));
        assert_eq!(helio_api::form::faults(&error), Vec::<String>::new());
        assert!(error.hint.is_some_and(|hint| hint.contains("`helio snapshot refresh db@one`")));
        let late = late("db", SnapshotAct::Create(name), Duration::from_secs(10));
        assert!(
            late.contains("it was not complete 10s after the application was frozen"),
            "{late}"
        );
    }
}

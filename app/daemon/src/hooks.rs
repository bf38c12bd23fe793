// SPDX-License-Identifier: Apache-2.0
//! Runs the operator's programs: before and after a resync, on split brain, on a lost peer, to fence the other node, around a
//! snapshot, when an alert begins or ends.
//!
//! They run on the control plane, never on a shard. Each gets its facts in its environment, has a bounded time, and is
//! killed with everything it started when that is over. What it writes goes into the log.

use crate::backend::Daemon;
use crate::config::{Alert, GroupConfig, HooksConfig};
use crate::events::{HOOK_FAILED, Hub};
use crate::failed;
use crate::shard::Ask;
use helio_api::event::{Event, Object, Value};
use helio_engine::HookQuestion;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// Most a hook may say into the log.
const SAID_BYTES_MAX: u64 = 64 << 10;
/// What a hook said before it ended is in the log within this, even where something it started still holds its output.
const SAID_WITHIN: Duration = Duration::from_millis(200);
/// Rows of the table by which two nodes refuse each other for good: each has, or may have, writes that the other lacks.
const SPLIT_BRAIN: [&str; 5] =
    ["diverged", "two-primaries", "split-brain", "both-crashed", "source-rolled-back"];

/// What a hook is run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    BeforeResync,
    AfterResync,
    SplitBrain,
    LostPeer,
    Fence,
    Freeze,
    Thaw,
    Alert(Alert),
}

impl Occasion {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::BeforeResync => "before-resync",
            Self::AfterResync => "after-resync",
            Self::SplitBrain => "split-brain",
            Self::LostPeer => "lost-peer",
            Self::Fence => "fence",
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
            Self::Alert(alert) => alert.word(),
        }
    }

    fn program(self, hooks: &HooksConfig) -> Option<&PathBuf> {
        match self {
            Self::BeforeResync => hooks.before_resync.as_ref(),
            Self::AfterResync => hooks.after_resync.as_ref(),
            Self::SplitBrain => hooks.split_brain.as_ref(),
            Self::LostPeer => hooks.lost_peer.as_ref(),
            Self::Fence => hooks.fence.as_ref(),
            Self::Freeze => hooks.freeze.as_ref(),
            Self::Thaw => hooks.thaw.as_ref(),
            Self::Alert(alert) => hooks.alerts.get(&alert),
        }
    }
}

/// A program and what it is told.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    program: PathBuf,
    timeout: Duration,
    occasion: Occasion,
    group: String,
    node: String,
    /// Empty if the group has one node.
    peer: String,
    state: String,
    snapshot: Option<String>,
    /// Of an alert: `begin` or `end`, and why.
    change: Option<(&'static str, String)>,
}

/// How a hook ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With that code.
    Code(i32),
    /// By a signal.
    Signalled,
    /// It was killed since its time was over.
    TooLate(Duration),
    /// It could not be run.
    NotRun(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signalled => f.write_str("ended by a signal"),
            Self::TooLate(time) => write!(f, "killed after {time:?}"),
            Self::NotRun(why) => write!(f, "could not be run: {why}"),
        }
    }
}

impl Call {
    /// None where the operator has no hook for it.
    pub(crate) fn new(
        daemon: &Daemon,
        group: &str,
        occasion: Occasion,
        state: &str,
    ) -> Option<Self> {
        Self::of(daemon.config().groups.get(group)?, (&daemon.node, group), occasion, state)
    }

    /// The same on a node and of a group with that configuration.
    pub(crate) fn of(
        config: &GroupConfig,
        (node, group): (&str, &str),
        occasion: Occasion,
        state: &str,
    ) -> Option<Self> {
        let program = occasion.program(&config.hooks)?.clone();
        let peer = config.nodes.iter().find(|other| *other != node);
        Some(Self {
            program,
            timeout: config.hooks.timeout,
            occasion,
            group: group.to_owned(),
            node: node.to_owned(),
            peer: peer.cloned().unwrap_or_default(),
            state: state.to_owned(),
            snapshot: None,
            change: None,
        })
    }

    /// It is run for that snapshot, in that state.
    pub(crate) fn with_snapshot(self, snapshot: &str, state: &str) -> Self {
        Self { snapshot: Some(snapshot.to_owned()), state: state.to_owned(), ..self }
    }

    /// It is run for an event: an alert's tells whether it begins, and why.
    fn with_event(self, event: &Event) -> Self {
        let change = match self.occasion {
            Occasion::Alert(alert) => begins(event, alert).map(|begins| {
                // The peer wrote some of it, and a program with a zero byte in its environment does not start.
                let why = event.why.as_deref().unwrap_or_default().replace(char::is_control, " ");
                (if begins { "begin" } else { "end" }, why)
            }),
            _ => None,
        };
        Self { change, ..self }
    }

    /// How long it may run.
    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The other node.
    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    /// Runs it to its end, or to the end of its time.
    pub(crate) async fn run(self) -> Ended {
        let ended = self.run_in_time().await;
        let (group, hook, program) = (&self.group, self.occasion.word(), self.program.display());
        match ended {
            Ended::Code(0) => tracing::info!(group, hook, %program, "the hook succeeded"),
            _ => {
                tracing::warn!(group, hook, %program, %ended, "the hook failed")
            }
        }
        ended
    }

    /// Runs it. A failure is an event of its group, until this hook succeeds.
    async fn run_for(self, hub: &Hub) {
        let (group, hook) = (self.group.clone(), self.occasion.word());
        let ended = self.run().await;
        let why = match &ended {
            Ended::Code(0) => format!("the hook {hook} succeeded"),
            ended => format!("the hook {hook} failed: {ended}"),
        };
        let key = (group.clone(), Object::Group, group);
        hub.amend(&key, HOOK_FAILED, |before| hook_failed(before, hook, &ended), why);
    }

    async fn run_in_time(&self) -> Ended {
        let mut command = Command::new(&self.program);
        command
            .env("HELIO_GROUP", &self.group)
            .env("HELIO_NODE", &self.node)
            .env("HELIO_PEER", &self.peer)
            .env("HELIO_EVENT", self.occasion.word())
            .env("HELIO_STATE", &self.state)
            .envs(self.snapshot.iter().map(|name| ("HELIO_SNAPSHOT", name)))
            .envs(self.change.iter().map(|(change, _)| ("HELIO_CHANGE", change)))
            .envs(self.change.iter().map(|(_, why)| ("HELIO_WHY", why)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ended::NotRun(error.to_string()),
        };
        let out = child.stdout.take().map(|out| tokio::spawn(tell(out, self.clone())));
        let err = child.stderr.take().map(|err| tokio::spawn(tell(err, self.clone())));
        let group = group_of(&child);
        let ended = match tokio::time::timeout(self.timeout, child.wait()).await {
            Ok(Ok(status)) => status.code().map_or(Ended::Signalled, Ended::Code),
            Ok(Err(error)) => Ended::NotRun(error.to_string()),
            Err(_) => {
                kill(group);
                if let Err(error) = child.wait().await {
                    tracing::debug!(%error, "a killed hook cannot be waited for");
                }
                Ended::TooLate(self.timeout)
            }
        };
        for said in [out, err].into_iter().flatten() {
            if tokio::time::timeout(SAID_WITHIN, said).await.is_err() {
                tracing::debug!("a process that a hook started still holds its output");
            }
        }
        ended
    }
}

fn group_of(child: &Child) -> Option<rustix::process::Pid> {
    child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()))
}

/// Ends a hook with everything it started: it leads a process group of its own.
fn kill(group: Option<rustix::process::Pid>) {
    let Some(group) = group else { return };
    if let Err(error) = rustix::process::kill_process_group(group, rustix::process::Signal::KILL) {
        tracing::debug!(%error, "a hook that exceeded its time had already ended");
    }
}

/// What a hook writes goes into the log, line by line.
async fn tell(said: impl AsyncRead + Unpin, call: Call) {
    let mut lines = BufReader::new(said.take(SAID_BYTES_MAX)).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        tracing::info!(group = %call.group, hook = call.occasion.word(), "{line}");
    }
}

/// Answers the shard whenever it asks whether an update may begin.
pub(crate) async fn answer(
    daemon: Arc<Daemon>,
    group: String,
    mut asks: watch::Receiver<HookQuestion>,
) {
    while asks.changed().await.is_ok() {
        let question = *asks.borrow_and_update();
        let refused = match Call::new(&daemon, &group, Occasion::BeforeResync, "logging") {
            None => None,
            Some(call) => match call.run().await {
                Ended::Code(0) => None,
                ended => Some(ended.to_string()),
            },
        };
        let group = group.clone();
        if daemon.shard.ask_patiently(Ask::HookAnswered { group, question, refused }).await.is_err()
        {
            return;
        }
    }
}

/// Runs hooks for what the hub tells, until it tells no more.
pub(crate) async fn follow(daemon: Arc<Daemon>, hub: Arc<Hub>) {
    let mut events = hub.listen(None, None, false);
    let mut states: HashMap<String, String> = HashMap::new();
    while let Some(event) = events.next().await {
        let Some(group) = event.group.clone() else { continue };
        if let Some(state) = state_of(&event) {
            states.insert(group.clone(), state);
        }
        let Some(occasion) = occasion_of(&event) else { continue };
        let state = states.get(&group).map_or("", String::as_str);
        if let Some(call) = Call::new(&daemon, &group, occasion, state) {
            let (call, hub) = (call.with_event(&event), Arc::clone(&hub));
            tokio::spawn(async move { call.run_for(&hub).await });
        }
    }
}

fn state_of(event: &Event) -> Option<String> {
    let of_group = event.object == Some(Object::Group);
    let changed = event.changed.get("state").map(|change| &change.new);
    let value = changed.or_else(|| event.fields.get("state")).filter(|_| of_group)?;
    Some(value.to_string())
}

/// Which hook an event is an occasion for.
fn occasion_of(event: &Event) -> Option<Occasion> {
    let is = |value: &Value, word: &str| value.to_string() == word;
    match event.object? {
        Object::Group => {
            let alert = Alert::ALL.into_iter().find(|alert| begins(event, *alert).is_some());
            if alert.is_some() {
                return alert.map(Occasion::Alert);
            }
            let state = event.changed.get("state")?;
            // A group that fails during a resync is not served any more: the resync did not end.
            let ended = is(&state.old, "syncing") && !is(&state.new, failed::STATE);
            ended.then_some(Occasion::AfterResync)
        }
        Object::Peer => {
            let connection = event.changed.get("connection")?;
            let why = event.why.as_deref().unwrap_or_default();
            let split = why.split(": ").any(|part| SPLIT_BRAIN.contains(&part));
            if is(&connection.new, "refused") && split {
                return Some(Occasion::SplitBrain);
            }
            is(&connection.old, "connected").then_some(Occasion::LostPeer)
        }
        _ => None,
    }
}

/// The hook that failed last and did not succeed since, after this one ended.
fn hook_failed(before: &Value, hook: &str, ended: &Ended) -> Value {
    match (ended, before) {
        (Ended::Code(0), Value::Word(word)) if word == hook => Value::None,
        (Ended::Code(0), before) => before.clone(),
        _ => Value::Word(hook.to_owned()),
    }
}

/// Whether an alert begins with this event; none: neither begins nor ends.
fn begins(event: &Event, alert: Alert) -> Option<bool> {
    let change = event.changed.get(alert.field())?;
    Some(change.new == Value::Flag(true))
}

/// What the exit code of a fence hook says: whether the other node is out, and in which words.
pub(crate) fn judge_fence(ended: &Ended) -> Result<&'static str, String> {
    match ended {
        Ended::Code(0) => Ok("fenced"),
        Ended::Code(4) => Ok("marked as outdated, so it will not become primary (code 4)"),
        Ended::Code(7) => Ok("fenced (code 7)"),
        Ended::Code(3) => {
            Err("its copy is inconsistent; it is unknown whether the node runs (code 3)".into())
        }
        Ended::Code(5) => Err("it cannot be reached, so its state is unknown (code 5)".into()),
        Ended::Code(6) => Err("it refuses, because it is primary (code 6)".into()),
        other => Err(format!("the hook did not confirm that the other node is fenced: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_api::event::{FieldChange, What};
    use helio_units::WallTime;

    fn call(script: &str, timeout: Duration) -> (tempfile::TempDir, Call) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("hook");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("it is written");
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&program, mode).expect("it may be run");
        let name = |text: &str| text.to_owned();
        let call = Call {
            program,
            timeout,
            occasion: Occasion::Fence,
            group: name("db"),
            node: name("paris"),
            peer: name("lyon"),
            state: name("logging"),
            snapshot: Some(name("nightly")),
            change: Some(("begin", name("lag"))),
        };
        (folder, call)
    }

    fn run(script: &str, timeout: Duration) -> Ended {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (_folder, call) = call(script, timeout);
        runtime.expect("a runtime").block_on(call.run())
    }

    #[test]
    fn a_hook_is_told_its_facts_and_its_exit_code_is_heard() {
        let facts = "test \"$HELIO_GROUP $HELIO_NODE $HELIO_PEER $HELIO_EVENT $HELIO_STATE $HELIO_SNAPSHOT $HELIO_CHANGE $HELIO_WHY\" = \
                     'db paris lyon fence logging nightly begin lag' && exit 7; exit 1";
        assert_eq!(run(facts, Duration::from_secs(600)), Ended::Code(7));
    }

    #[test]
    fn a_hook_that_takes_too_long_is_killed_with_what_it_started() {
        let short = Duration::from_millis(100);
        assert_eq!(run("sleep 1000 & sleep 1000", short), Ended::TooLate(short));
    }

    #[test]
    fn only_a_proof_that_the_other_node_is_out_passes() {
        let passes = |code| judge_fence(&Ended::Code(code)).is_ok();
        let passed: Vec<i32> = (0..=255).filter(|code| passes(*code)).collect();
        assert_eq!(passed, [0, 4, 7]);
        assert!(judge_fence(&Ended::TooLate(Duration::from_secs(1))).is_err());
    }

    #[test]
    fn a_hook_that_failed_is_named_until_it_succeeds() {
        let after = |before: &Value, hook, code| hook_failed(before, hook, &Ended::Code(code));
        let fence = Value::Word("fence".to_owned());
        assert_eq!(after(&Value::None, "fence", 0), Value::None);
        assert_eq!(after(&Value::None, "fence", 1), fence);
        assert_eq!(after(&fence, "lost-peer", 0), fence);
        assert_eq!(after(&fence, "fence", 0), Value::None);
    }

    fn changed(object: Object, field: &str, old: &str, new: &str, why: &str) -> Event {
        let [old, new] = [old, new].map(|word| Value::Word(word.to_owned()));
        let mut event = Event::bare(1, WallTime(1), What::Change);
        event.object = Some(object);
        event.changed.insert(field.to_owned(), FieldChange { old, new });
        event.why = Some(why.to_owned());
        event
    }

    #[test]
    fn every_split_is_a_row_of_the_recovery_table() {
        for label in SPLIT_BRAIN {
            assert!(helio_recovery::labels().any(|row| row == label), "{label}");
        }
    }

    #[test]
    fn an_event_is_an_occasion_for_one_hook_at_most() {
        let of = |object, field, old, new, why| occasion_of(&changed(object, field, old, new, why));
        let peer = |old, new, why| of(Object::Peer, "connection", old, new, why);
        assert_eq!(peer("connected", "connecting", "the link was cut"), Some(Occasion::LostPeer));
        assert_eq!(
            peer("connecting", "refused", "diverged: both wrote"),
            Some(Occasion::SplitBrain)
        );
        let told = "lyon refused: two-primaries: both serve";
        assert_eq!(peer("connected", "refused", told), Some(Occasion::SplitBrain));
        let split = ["both-crashed: look", "source-rolled-back: look"]
            .map(|why| peer("connecting", "refused", why));
        assert_eq!(split, [Some(Occasion::SplitBrain); 2]);
        assert_eq!(peer("connecting", "connected", "connected"), None);
        let state = |old, new| of(Object::Group, "state", old, new, "");
        assert_eq!(state("syncing", "replicating"), Some(Occasion::AfterResync));
        assert_eq!(state("logging", "syncing"), None);
        assert_eq!(state("syncing", failed::STATE), None, "the resync did not end");
        for alert in Alert::ALL {
            let mut event = changed(Object::Group, "", "", "", "");
            let change = FieldChange { old: Value::Flag(false), new: Value::Flag(true) };
            event.changed.insert(alert.field().to_owned(), change);
            assert_eq!(occasion_of(&event), Some(Occasion::Alert(alert)));
        }
    }
}

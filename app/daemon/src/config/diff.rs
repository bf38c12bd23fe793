// SPDX-License-Identifier: Apache-2.0
//! What lies between the configuration that runs and the one in the file now.

use super::{
    Alert, AlertsConfig, Config, GroupConfig, HooksConfig, QueueSource, Retain, Sets, Timeouts,
    VolumeConfig,
};
use helio_engine::{QueueConfig, ResyncConfig, SafeCopy, WhenFull};
use helio_tls::PublicKey;
use helio_units::Mode;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What `helio apply` has to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Settings that change while the daemon runs.
    pub online: Vec<Change>,
    /// Members of this node that come and go: those that come first, so that one that goes is not the last.
    pub members: Vec<MemberChange>,
    /// What changes of nodes while the daemon runs, a line each: keys of nodes and operators that come and go, and the limit of
    /// copies of this node. All of that changes at once.
    pub nodes: Vec<String>,
    /// Groups whose automatic snapshots change while the daemon runs, a line each.
    pub retain: Vec<String>,
    /// Hooks of alerts that change while the daemon runs, a line each.
    pub hooks: Vec<String>,
    /// Differences that wait for the daemon's next start, a line each.
    pub restart: Vec<String>,
}

/// One setting that changes while the daemon runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whose.
    pub group: String,
    /// Which, and its new value.
    pub setting: Setting,
    /// From what to what, in a line for people.
    pub text: String,
}

/// A member of a volume on this node that comes or goes while the daemon runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberChange {
    /// The group of the volume.
    pub group: String,
    /// The volume.
    pub volume: String,
    /// The member.
    pub path: PathBuf,
    /// What becomes of it.
    pub step: MemberStep,
}

/// What becomes of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberStep {
    /// The file names it now.
    Add,
    /// The file names it no more.
    Remove,
}

impl fmt::Display for MemberChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, volume, path, step } = self;
        let step = match step {
            MemberStep::Add => "added",
            MemberStep::Remove => "removed",
        };
        write!(f, "group {group}: volume {volume}: member {} {step}", path.display())
    }
}

/// A setting that can change while the daemon runs, with its new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// When writes are acknowledged.
    Mode(Mode),
    /// The time from one cut to the next.
    Period(Duration),
    /// The queue's bounds and policies.
    Queue(QueueConfig, QueueSource),
    /// How long the group waits for its peer and for its disks.
    Timeouts(Timeouts),
    /// Copying without being asked.
    Autosync(bool),
    /// How the copier treats the application and the link.
    Resync(ResyncConfig),
    /// Keeping a secondary's last consistent image.
    SafeCopy(SafeCopy),
    /// How long a secondary's hold lease lasts.
    Hold(Duration),
    /// Bounds of figures.
    Alerts(AlertsConfig),
    /// Settings of the members of the volumes that the file names.
    Sets(Sets),
    /// What a read of one member costs; none: it is measured.
    ReadCost {
        /// The name of its volume.
        volume: String,
        /// Its node and path.
        member: (String, PathBuf),
        /// 1 or more.
        cost: Option<u16>,
    },
}

/// What of a group runs now, of all that can change while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// When writes are acknowledged.
    pub mode: Mode,
    /// The time from one cut to the next.
    pub period: Duration,
    /// The queue's bounds and policies.
    pub queue: QueueConfig,
    /// Where the bound comes from.
    pub queue_source: QueueSource,
    /// How long the group waits for its peer and for its disks.
    pub timeouts: Timeouts,
    /// Copying without being asked.
    pub autosync: bool,
    /// How the copier treats the application and the link.
    pub resync: ResyncConfig,
    /// Keeping a secondary's last consistent image.
    pub safe_copy: SafeCopy,
    /// How long a secondary's hold lease lasts.
    pub hold: Duration,
    /// Bounds of figures.
    pub alerts: AlertsConfig,
    /// Settings of the members of volumes.
    pub sets: Sets,
}

impl GroupConfig {
    /// What runs takes the place of what the file said.
    pub fn set_running(&mut self, running: Running) {
        let Running { mode, queue, queue_source, timeouts, autosync, .. } = running;
        let Running { resync, safe_copy, hold, alerts, sets, period, .. } = running;
        self.alerts = alerts;
        (self.mode, self.timeouts, self.autosync) = (mode, timeouts, autosync);
        self.period = period;
        (self.safe_copy, self.hold, self.sets) = (safe_copy, hold, sets);
        (self.queue, self.queue_source, self.resync) = (queue, queue_source, resync);
    }
}

impl Config {
    /// Takes over when automatic snapshots are created and which are kept, and the hooks of alerts.
    pub fn retain_as(&mut self, new: &Self) {
        for (name, group) in &mut self.groups {
            if let Some(next) = new.groups.get(name) {
                group.retain.clone_from(&next.retain);
                group.hooks.alerts.clone_from(&next.hooks.alerts);
            }
        }
    }

    /// Takes over what of nodes changes while daemons run: how much is copied at once; and who is trusted, but not where a
    /// node gets its first key, or loses its last.
    pub fn nodes_as(&mut self, new: &Self) {
        for (name, node) in &mut self.nodes {
            let Some(next) = new.nodes.get(name) else { continue };
            node.copies_at_once = next.copies_at_once;
            if !next.keys.is_empty() && !node.keys.is_empty() {
                node.keys.clone_from(&next.keys);
                node.operators.clone_from(&next.operators);
            }
        }
    }
}

/// What changes on `node` from `old` to `new`. Groups, volumes, nodes and connections that come, go or move need a
/// restart: their threads and files are set up at the start.
#[must_use]
pub fn diff(old: &Config, new: &Config, node: &str) -> Changes {
    let mut changes = Changes::default();
    nodes(old, new, node, &mut changes);
    compare_keys("group", "", &old.groups, &new.groups, &mut changes.restart);
    for (name, group) in &new.groups {
        if let Some(before) = old.groups.get(name) {
            online(name, (before, group), node, &mut changes.online);
            changes.retain.extend(retain(name, before, group));
            changes.hooks.extend(hooks(name, before, group));
            restart(name, before, group, &mut changes.restart);
            volumes(name, (&before.volumes, &group.volumes), node, &mut changes);
        }
    }
    changes.members.sort_by_key(|change| change.step == MemberStep::Remove);
    changes
}

/// A node's keys, its operators and its limit of copies change while it runs; everything else of it waits.
fn nodes(old: &Config, new: &Config, node: &str, changes: &mut Changes) {
    let mut trusting = old.clone();
    trusting.nodes_as(new);
    compare("node", "", &trusting.nodes, &new.nodes, &mut changes.restart);
    for (name, before) in &old.nodes {
        if let Some(after) = trusting.nodes.get(name) {
            let (had, has) = (before.copies_at_once, after.copies_at_once);
            if name == node && had != has {
                changes.nodes.push(format!("node {name}: copies-at-once {had} -> {has}"));
            }
            keys(&format!("node {name}: key"), &before.keys, &after.keys, &mut changes.nodes);
            let what = format!("node {name}: operator");
            keys(&what, &before.operators, &after.operators, &mut changes.nodes);
        }
    }
}

/// Keys that came and went.
fn keys(what: &str, old: &[PublicKey], new: &[PublicKey], lines: &mut Vec<String>) {
    let gone = old.iter().filter(|key| !new.contains(key));
    lines.extend(gone.map(|key| format!("{what} {key} removed")));
    let come = new.iter().filter(|key| !old.contains(key));
    lines.extend(come.map(|key| format!("{what} {key} added")));
}

fn online(
    name: &str,
    (old, new): (&GroupConfig, &GroupConfig),
    node: &str,
    changes: &mut Vec<Change>,
) {
    let mut note = |setting: Setting, what: &str, from: String, to: String| {
        let text = format!("group {name}: {what} {from} -> {to}");
        changes.push(Change { group: name.to_owned(), setting, text });
    };
    if old.mode != new.mode {
        note(Setting::Mode(new.mode), "mode", old.mode.to_string(), new.mode.to_string());
    }
    if old.period != new.period {
        let (from, to) = (format!("{:?}", old.period), format!("{:?}", new.period));
        note(Setting::Period(new.period), "period", from, to);
    }
    // Where the operator's queue is also the file's, there is nothing to change.
    let other_source =
        old.queue_source != new.queue_source && old.queue_source != QueueSource::Operator;
    if old.queue != new.queue || other_source {
        let setting = Setting::Queue(new.queue, new.queue_source);
        note(setting, "queue", queue_text(&old.queue), queue_text(&new.queue));
    }
    let of = |Timeouts { peer, flush_limit, member, member_return }| {
        let text = |time: Duration| format!("{time:?}");
        [
            ("peer-timeout", text(peer)),
            ("flush-limit", text(flush_limit)),
            ("member-timeout", text(member)),
            ("member-return", member_return.map_or_else(|| String::from("off"), text)),
        ]
    };
    for ((what, from), (_, to)) in of(old.timeouts).into_iter().zip(of(new.timeouts)) {
        if from != to {
            note(Setting::Timeouts(new.timeouts), what, from, to);
        }
    }
    if old.autosync != new.autosync {
        let (from, to) = (old.autosync.to_string(), new.autosync.to_string());
        note(Setting::Autosync(new.autosync), "autosync", from, to);
    }
    if old.resync != new.resync {
        let setting = Setting::Resync(new.resync);
        note(setting, "resync", resync_text(&old.resync), resync_text(&new.resync));
    }
    if old.safe_copy != new.safe_copy {
        let (from, to) = (safe_copy_text(old.safe_copy), safe_copy_text(new.safe_copy));
        note(Setting::SafeCopy(new.safe_copy), "safe-copy", from, to);
    }
    if old.hold != new.hold {
        let (from, to) = (format!("{:?}", old.hold), format!("{:?}", new.hold));
        note(Setting::Hold(new.hold), "hold", from, to);
    }
    for ((what, from), (_, to)) in old.alerts.texts().into_iter().zip(new.alerts.texts()) {
        if from != to {
            note(Setting::Alerts(new.alerts), what, from, to);
        }
    }
    for [what, from, to] in old.sets.changes(&new.sets, node) {
        note(Setting::Sets(new.sets.clone()), &what, from, to);
    }
}

fn retain(name: &str, old: &GroupConfig, new: &GroupConfig) -> Option<String> {
    let text = |group: &GroupConfig| {
        group.retain.as_ref().map_or_else(|| "none".to_owned(), Retain::to_string)
    };
    (old.retain != new.retain)
        .then(|| format!("group {name}: retain {} -> {}", text(old), text(new)))
}

/// The hooks of alerts that change, a line each.
fn hooks(name: &str, old: &GroupConfig, new: &GroupConfig) -> Vec<String> {
    let text = |group: &GroupConfig, alert| {
        let program = group.hooks.alerts.get(&alert);
        program.map_or_else(|| "none".to_owned(), |path| path.display().to_string())
    };
    let texts = Alert::ALL.map(|alert| (alert.word(), text(old, alert), text(new, alert)));
    let changed = texts.into_iter().filter(|(_, from, to)| from != to);
    changed.map(|(what, from, to)| format!("group {name}: hook {what} {from} -> {to}")).collect()
}

fn safe_copy_text(safe_copy: SafeCopy) -> String {
    match safe_copy {
        SafeCopy::Off => "off".to_owned(),
        SafeCopy::On { bound: None } => "on".to_owned(),
        SafeCopy::On { bound: Some(bound) } => bound.to_string(),
    }
}

fn queue_text(queue: &QueueConfig) -> String {
    let memory = queue.memory.map_or_else(|| "auto".to_owned(), |bytes| bytes.to_string());
    let word = |policy: WhenFull| match policy {
        WhenFull::Block => "block",
        WhenFull::Log => "log",
        WhenFull::Fail => "fail",
    };
    let (connected, disconnected) = (word(queue.connected), word(queue.disconnected));
    format!("{memory} and {} items, {connected}/{disconnected} when full", queue.items)
}

fn resync_text(resync: &ResyncConfig) -> String {
    let most = resync.max_rate.map_or_else(|| "any rate".to_owned(), |rate| rate.to_string());
    let yields = if resync.yields { "yields" } else { "does not yield" };
    format!("{} to {most}, {yields}", resync.min_rate)
}

fn restart(name: &str, old: &GroupConfig, new: &GroupConfig, lines: &mut Vec<String>) {
    let mut changed = |differs: bool, what: &str| {
        if differs {
            lines.push(format!("group {name}: {what} changed"));
        }
    };
    // Named one by one, so that a setting that is added cannot be passed over in silence.
    let GroupConfig {
        nodes,
        mode: _,
        period: _,
        hold: _,
        queue: _,
        queue_source: _,
        timeouts: _,
        copy_transfer,
        autosync: _,
        granularity,
        hot_extents,
        resync: _,
        safe_copy: _,
        safe_copy_dir,
        retain: _,
        link,
        alerts: _,
        hooks,
        on_error,
        sets: _,
        volumes: _,
    } = new;
    changed(old.nodes != *nodes, "nodes");
    changed(old.copy_transfer != *copy_transfer, "copy-transfer");
    changed(old.granularity != *granularity, "granularity");
    changed(old.hot_extents != *hot_extents, "hot-extents");
    changed(old.safe_copy_dir != *safe_copy_dir, "safe-copy-dir");
    changed(old.on_error != *on_error, "on-error");
    changed(old.link != *link, "link");
    let before = HooksConfig { alerts: hooks.alerts.clone(), ..old.hooks.clone() };
    changed(before != *hooks, "hooks");
}

/// Members of this node come and go while it runs, if one of them stays and nothing else of their volume changes. The members of
/// the other node are its own affair.
fn volumes(
    group: &str,
    (old, new): (&BTreeMap<String, VolumeConfig>, &BTreeMap<String, VolumeConfig>),
    node: &str,
    changes: &mut Changes,
) {
    let prefix = format!("group {group}: ");
    compare_keys("volume", &prefix, old, new, &mut changes.restart);
    for (name, after) in new {
        let Some(before) = old.get(name) else { continue };
        // `blank` concerns new volumes only.
        let VolumeConfig { size, io, sparse, blank: _, members: _ } = after;
        let (had, has) = (before.members_on(node), after.members_on(node));
        let [come, gone] = [(has, had), (had, has)]
            .map(|(these, others)| these.iter().filter(|path| !others.contains(path)));
        let steps = come.map(|path| (path, MemberStep::Add));
        let steps = steps.chain(gone.map(|path| (path, MemberStep::Remove)));
        let steps: Vec<(&PathBuf, MemberStep)> = steps.collect();
        let stays = had.iter().any(|path| has.contains(path));
        let is_same = (before.size, before.io, before.sparse) == (*size, *io, *sparse);
        if !is_same || (!stays && !steps.is_empty()) {
            changes.restart.push(format!("{prefix}volume {name} changed"));
            continue;
        }
        changes.members.extend(steps.into_iter().map(|(path, step)| MemberChange {
            group: group.to_owned(),
            volume: name.clone(),
            path: path.clone(),
            step,
        }));
    }
}

/// Names that came, went, or kept their name and changed.
fn compare<T: PartialEq>(
    kind: &str,
    prefix: &str,
    old: &BTreeMap<String, T>,
    new: &BTreeMap<String, T>,
    lines: &mut Vec<String>,
) {
    compare_keys(kind, prefix, old, new, lines);
    for (name, thing) in new {
        if old.get(name).is_some_and(|before| before != thing) {
            lines.push(format!("{prefix}{kind} {name} changed"));
        }
    }
}

fn compare_keys<T>(
    kind: &str,
    prefix: &str,
    old: &BTreeMap<String, T>,
    new: &BTreeMap<String, T>,
    lines: &mut Vec<String>,
) {
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    lines.extend(gone.map(|name| format!("{prefix}{kind} {name} removed")));
    let come = new.keys().filter(|name| !old.contains_key(*name));
    lines.extend(come.map(|name| format!("{prefix}{kind} {name} added")));
}

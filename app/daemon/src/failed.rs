// SPDX-License-Identifier: Apache-2.0
//! Groups of this node that are not served, each with its reason: one whose members or metadata cannot be opened, and one
//! whose engine panicked. The other groups of the daemon go on.
//!
//! A group that could not be opened holds nothing, so `helio apply` tries it again. One that panicked keeps its members
//! locked until the daemon ends: operations may still be under way on them, and its engine is never used again.

use crate::shard::Clock;
use helio_api::event::Object;
use helio_api::{ApiError, FailedGroup, code};
use helio_units::{Moment, WallTime};
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The state of such a group.
pub(crate) const STATE: &str = "failed";

/// Source files whose panics leave the driver or its buffers in doubt: these end the daemon.
const SHARED_BY_ALL: &str = "edge/driver/";

thread_local! {
    /// Where this thread panicked last.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// All groups that are not served. Shared by the shard and the control plane.
#[derive(Debug)]
pub(crate) struct Failures {
    clock: Clock,
    groups: Mutex<BTreeMap<String, Failed>>,
    /// Per group, bit n where a flush of volume n failed at an opening and no record of that could be made.
    unrecorded: Mutex<BTreeMap<String, u64>>,
}

/// Why a group is not served, and since when.
#[derive(Clone, Debug)]
struct Failed {
    since: Moment,
    reason: String,
    hint: String,
    needs_restart: bool,
}

impl Failed {
    /// As it is shown at a moment, which is `at_ms` on the calendar: that may have been set since.
    fn shown(&self, name: &str, now: Moment, at_ms: WallTime) -> FailedGroup {
        let Self { since, reason, hint, needs_restart } = self.clone();
        let since_ms = at_ms.before(now - since);
        FailedGroup { name: name.to_owned(), since_ms, reason, hint, needs_restart }
    }
}

impl Failures {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, groups: Mutex::default(), unrecorded: Mutex::default() }
    }

    /// A group is not served from now on.
    pub(crate) fn add(&self, group: &str, (reason, hint): (String, String), restart: bool) {
        tracing::error!(group, hint, "this group is not served: {reason}");
        let since = self.clock.now();
        let failed = Failed { since, reason, hint, needs_restart: restart };
        self.all().insert(group.to_owned(), failed);
    }

    /// It is served again.
    pub(crate) fn remove(&self, group: &str) {
        self.all().remove(group);
    }

    pub(crate) fn get(&self, group: &str) -> Option<FailedGroup> {
        let (now, at_ms) = (self.clock.now(), self.clock.wall_now());
        self.all().get(group).map(|failed| failed.shown(group, now, at_ms))
    }

    /// All of them, if it is `at_ms` now.
    pub(crate) fn list(&self, at_ms: WallTime) -> Vec<FailedGroup> {
        let now = self.clock.now();
        self.all().iter().map(|(name, failed)| failed.shown(name, now, at_ms)).collect()
    }

    /// The groups that may be opened again without a restart.
    pub(crate) fn to_retry(&self) -> Vec<String> {
        let all = self.all();
        let retry = all.iter().filter(|(_, failed)| !failed.needs_restart);
        retry.map(|(name, _)| name.clone()).collect()
    }

    /// The volumes of which a flush failed at an earlier opening that could not record it.
    pub(crate) fn unrecorded(&self, group: &str) -> u64 {
        held(&self.unrecorded).get(group).copied().unwrap_or_default()
    }

    /// What of that is not recorded now.
    pub(crate) fn keep_unrecorded(&self, group: &str, volumes: u64) {
        let mut all = held(&self.unrecorded);
        match volumes {
            0 => all.remove(group),
            _ => all.insert(group.to_owned(), volumes),
        };
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Failed>> {
        held(&self.groups)
    }
}

/// Each change under these locks is one call, so a poisoned one is still right.
fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error of every command on such a group.
pub(crate) fn error(failed: FailedGroup) -> ApiError {
    let text = format!("group {} is not served on this node: {}", failed.name, failed.reason);
    ApiError::new(code::GROUP_FAILED, text, failed.hint)
}

/// What the event stream shows of such a group.
pub(crate) fn event(failed: &FailedGroup) -> ((String, Object, String), helio_api::event::Fields) {
    let fields = [
        ("state", Some(STATE).into()),
        ("verdict", Some("not-served").into()),
        ("fault", Some(&failed.reason).into()),
    ];
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    ((failed.name.clone(), Object::Group, failed.name.clone()), fields)
}

/// Why a group cannot be opened, and what to do, of an error that may name a hint on a line of its own.
pub(crate) fn of_opening(group: &str, error: &anyhow::Error) -> (String, String) {
    let text = format!("{error:#}");
    let (reason, hint) = in_parts(&text);
    (reason.to_owned(), format!("{hint}; then `helio apply` serves {group} without a restart"))
}

/// The reason and the hint of a text that may name a hint on a line of its own.
pub(crate) fn in_parts(text: &str) -> (&str, &str) {
    text.split_once("\n  hint: ").unwrap_or((text, "repair the cause named in the reason"))
}

/// Remembers where threads panic, beside what is done about a panic otherwise.
pub(crate) fn note_panics() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if let Some(at) = info.location() {
            let place = format!("{}:{}", at.file(), at.line());
            PLACE.with(|last| *last.borrow_mut() = place);
        }
        before(info);
    }));
}

/// What a panic of this thread said, and where. Goes on with a panic after which no group is safe.
pub(crate) fn of_panic(panicked: Box<dyn Any + Send>) -> String {
    let place = PLACE.with(|last| last.borrow().clone());
    if place.contains(SHARED_BY_ALL) {
        panic::resume_unwind(panicked);
    }
    format!("an internal error at {place}: {}", words(&*panicked))
}

/// The words of a panic.
pub(crate) fn words(panicked: &(dyn Any + Send)) -> String {
    let text = panicked.downcast_ref::<String>().cloned();
    text.or_else(|| panicked.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
}

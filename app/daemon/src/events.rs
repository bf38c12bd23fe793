// SPDX-License-Identifier: Apache-2.0
//! What happened, for those who want to hear it: the shard tells, readers listen, and no reader ever holds up the shard.
//!
//! Everything is bounded: what is remembered for readers who come back, and how far a reader may fall behind. One
//! that falls further is told how much it missed, and then what is there. What is worth an event is
//! the shard's to decide.

use crate::shard::Clock;
use helio_api::event::{Event, FieldChange, Fields, Object, Value, What};
use helio_units::WallTime;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

/// Events remembered for readers who come back.
const REMEMBERED: usize = 1024;
/// The field of a group that names the hook that failed last: hooks report it, not a look at the group.
pub(crate) const HOOK_FAILED: &str = "hook_failed";
/// Events a reader may be behind.
const BEHIND_MOST: usize = 256;
/// A reader hears something at least so often, so that both sides notice a dead connection.
const ALIVE_EVERY: Duration = Duration::from_secs(10);

/// An object: its group, what it is, its name.
pub(crate) type Key = (String, Object, String);

/// Where events come together.
pub(crate) struct Hub {
    clock: Clock,
    inner: Mutex<Inner>,
}

struct Inner {
    /// The number of what happened last.
    last: u64,
    objects: BTreeMap<Key, Fields>,
    history: VecDeque<Arc<Event>>,
    live: broadcast::Sender<Arc<Event>>,
    ended: bool,
}

impl Hub {
    /// A hub whose numbers begin where no earlier one of this node can have come to: at the calendar's microseconds.
    pub(crate) fn new(clock: Clock) -> Self {
        let inner = Inner {
            last: clock.wall_now().0 * 1000,
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            live: broadcast::Sender::new(BEHIND_MOST),
            ended: false,
        };
        Self { clock, inner: Mutex::new(inner) }
    }

    /// An object is so now; where that is news, it is told.
    pub(crate) fn tell(&self, at: WallTime, key: Key, mut fields: Fields, why: Option<String>) {
        let mut inner = self.lock();
        let event = match inner.objects.get(&key) {
            None => Event { fields: fields.clone(), ..inner.about(at, What::Create, &key) },
            Some(before) => {
                let changed = differences(before, &fields);
                if changed.is_empty() {
                    return;
                }
                Event { changed, why, ..inner.about(at, What::Change, &key) }
            }
        };
        let kept = inner.objects.get(&key).and_then(|before| before.get(HOOK_FAILED)).cloned();
        if let Some(kept) = kept {
            fields.insert(HOOK_FAILED.to_owned(), kept);
        }
        inner.objects.insert(key, fields);
        inner.publish(event);
    }

    /// A field of an object that exists, which no one else tells, becomes `value` of what it was.
    pub(crate) fn amend(
        &self,
        key: &Key,
        name: &str,
        value: impl FnOnce(&Value) -> Value,
        why: String,
    ) {
        let at = self.clock.wall_now();
        let mut inner = self.lock();
        let Some(before) = inner.objects.get(key) else { return };
        let new = value(before.get(name).unwrap_or(&Value::None));
        let fields = [(name.to_owned(), new)].into();
        let changed = differences(before, &fields);
        if changed.is_empty() {
            return;
        }
        let event = Event { changed, why: Some(why), ..inner.about(at, What::Change, key) };
        inner.objects.entry(key.clone()).or_default().extend(fields);
        inner.publish(event);
    }

    /// The daemon stopped: every object goes, and the streams end.
    pub(crate) fn end(&self, at: WallTime) {
        let mut inner = self.lock();
        if inner.ended {
            return;
        }
        // Volumes and peers before their groups.
        for key in std::mem::take(&mut inner.objects).into_keys().rev() {
            let event = inner.about(at, What::Destroy, &key);
            inner.publish(event);
        }
        inner.ended = true;
        let event = Event::bare(inner.last + 1, at, What::Destroy);
        inner.publish(event);
    }

    /// The events of one group or of all, from behind number `since`, or from what is there.
    pub(crate) fn listen(
        self: &Arc<Self>,
        group: Option<String>,
        since: Option<u64>,
        now: bool,
    ) -> Reader {
        let (pending, live) = self.lock().join(since, self.clock.wall_now());
        Reader { hub: Arc::clone(self), group, now, pending, live, over: false }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing under this lock panics halfway through a change, so a poisoned one is still right.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The next event, about an object.
    fn about(&self, at: WallTime, what: What, key: &Key) -> Event {
        about(self.last + 1, at, what, key)
    }

    fn publish(&mut self, event: Event) {
        self.last = event.sequence;
        let event = Arc::new(event);
        if self.history.len() == REMEMBERED {
            self.history.pop_front();
        }
        self.history.push_back(Arc::clone(&event));
        // Without a reader there is nobody to tell.
        let _nobody_listens = self.live.send(event);
    }

    /// What a reader is told first, and what it will hear from then on; nothing falls between the two.
    fn join(
        &self,
        since: Option<u64>,
        at: WallTime,
    ) -> (VecDeque<Arc<Event>>, broadcast::Receiver<Arc<Event>>) {
        let live = self.live.subscribe();
        let first = self.history.front().map_or(self.last + 1, |event| event.sequence);
        let next = |since: &u64| since.saturating_add(1);
        match since.filter(|since| (first..=self.last + 1).contains(&next(since))) {
            Some(since) => {
                let missed = self.history.iter().filter(|event| event.sequence > since);
                (missed.cloned().collect(), live)
            }
            None => (self.dump(at), live),
        }
    }

    fn dump(&self, at: WallTime) -> VecDeque<Arc<Event>> {
        let exists = self.objects.iter().map(|(key, fields)| Event {
            fields: fields.clone(),
            ..about(self.last, at, What::Exists, key)
        });
        let end = self.history.back().filter(|_| self.ended).cloned();
        let whole = Arc::new(Event::bare(self.last, at, What::Exists));
        exists.map(Arc::new).chain([whole]).chain(end).collect()
    }
}

fn about(sequence: u64, at: WallTime, what: What, (group, object, name): &Key) -> Event {
    Event {
        object: Some(*object),
        group: Some(group.clone()),
        name: Some(name.clone()),
        ..Event::bare(sequence, at, what)
    }
}

fn differences(before: &Fields, after: &Fields) -> BTreeMap<String, FieldChange> {
    let changed = after.iter().filter_map(|(name, new)| {
        let old = before.get(name).cloned().unwrap_or(Value::None);
        let change = FieldChange { old, new: new.clone() };
        (change.old != change.new).then(|| (name.clone(), change))
    });
    changed.collect()
}

/// One reader of the stream. What it has not taken waits in the hub's bounded ring, not here.
pub(crate) struct Reader {
    hub: Arc<Hub>,
    group: Option<String>,
    now: bool,
    pending: VecDeque<Arc<Event>>,
    live: broadcast::Receiver<Arc<Event>>,
    over: bool,
}

impl Reader {
    /// The next event this reader wants; none when the stream is over.
    pub(crate) async fn next(&mut self) -> Option<Arc<Event>> {
        while !self.over {
            let event = match self.pending.pop_front() {
                Some(event) => event,
                None => self.wait().await?,
            };
            self.over = event.ends(What::Destroy) || self.now && event.ends(What::Exists);
            if self.wants(&event) {
                return Some(event);
            }
        }
        None
    }

    /// Waits for something to happen, and for word of it in time.
    async fn wait(&mut self) -> Option<Arc<Event>> {
        match timeout(ALIVE_EVERY, self.live.recv()).await {
            Ok(Ok(event)) => Some(event),
            Ok(Err(RecvError::Closed)) => None,
            Err(_) => Some(self.word(What::Alive, None)),
            Ok(Err(RecvError::Lagged(missed))) => {
                let lagged = self.word(What::Lagged, Some(missed));
                (self.pending, self.live) = self.hub.lock().join(None, self.hub.clock.wall_now());
                Some(lagged)
            }
        }
    }

    fn word(&self, what: What, missed: Option<u64>) -> Arc<Event> {
        let last = self.hub.lock().last;
        Arc::new(Event { missed, ..Event::bare(last, self.hub.clock.wall_now(), what) })
    }

    fn wants(&self, event: &Event) -> bool {
        self.group.is_none() || event.object.is_none() || event.group == self.group
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::{Builder, Runtime};

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
    }

    fn hub() -> Arc<Hub> {
        Arc::new(Hub::new(Clock::new(&helio_driver::Linux::host())))
    }

    /// Group `name` comes to a state.
    fn tell(hub: &Hub, name: &str, state: &str) {
        let key = (name.to_owned(), Object::Group, name.to_owned());
        let fields = [("state".to_owned(), Value::Word(state.to_owned()))].into();
        hub.tell(WallTime(2), key, fields, Some("because".to_owned()));
    }

    /// The next so many events: what, and the state or its change.
    async fn hear(reader: &mut Reader, count: usize) -> Vec<String> {
        let mut heard = Vec::new();
        for _ in 0..count {
            let event = reader.next().await.expect("the stream goes on");
            let field = event.fields.values().map(ToString::to_string);
            let change = event.changed.values().map(|c| format!("{}->{}", c.old, c.new));
            let said: Vec<String> = field.chain(change).collect();
            heard.push(format!("{} {}", event.event, said.join(" ")).trim().to_owned());
        }
        heard
    }

    #[test]
    fn a_reader_is_told_what_is_there_and_then_what_changes() {
        let hub = hub();
        runtime().block_on(async {
            tell(&hub, "db", "logging");
            let mut reader = hub.listen(None, None, false);
            tell(&hub, "db", "syncing");
            tell(&hub, "db", "syncing");
            tell(&hub, "web", "logging");
            hub.end(WallTime(3));
            let told = hear(&mut reader, 7).await;
            assert_eq!(
                told,
                [
                    "exists logging",
                    "exists",
                    "change logging->syncing",
                    "create logging",
                    "destroy",
                    "destroy",
                    "destroy"
                ]
            );
            assert_eq!(reader.next().await, None, "the stream is over");
        });
    }

    #[test]
    fn a_field_that_is_amended_stays_beside_those_that_are_told() {
        let hub = hub();
        let key = ("db".to_owned(), Object::Group, "db".to_owned());
        let amend = |word: &str| {
            let word = Value::Word(word.to_owned());
            hub.amend(&key, HOOK_FAILED, |_| word, "because".to_owned());
        };
        runtime().block_on(async {
            amend("too early");
            tell(&hub, "db", "logging");
            let mut reader = hub.listen(None, None, false);
            amend("fence");
            amend("fence");
            tell(&hub, "db", "syncing");
            let told = hear(&mut reader, 4).await;
            assert_eq!(
                told,
                ["exists logging", "exists", "change none->fence", "change logging->syncing"]
            );
            let mut reader = hub.listen(None, None, false);
            assert_eq!(hear(&mut reader, 1).await, ["exists fence syncing"]);
            // A group that is no longer served has other fields, and none of before.
            let other = [("verdict".to_owned(), Value::Word("not-served".to_owned()))].into();
            hub.tell(WallTime(1), key.clone(), other, None);
            let mut reader = hub.listen(None, None, false);
            assert_eq!(hear(&mut reader, 1).await, ["exists fence not-served"]);
        });
    }

    #[test]
    fn a_reader_who_comes_back_gets_what_it_missed_and_else_what_is_there() {
        let hub = hub();
        runtime().block_on(async {
            tell(&hub, "db", "logging");
            let mut reader = hub.listen(None, None, false);
            let seen = reader.next().await.expect("what is there").sequence;
            drop(reader);
            tell(&hub, "db", "syncing");
            let mut reader = hub.listen(None, Some(seen), false);
            assert_eq!(hear(&mut reader, 1).await, ["change logging->syncing"]);
            for strange in [seen - 1000, seen + 1000, u64::MAX] {
                let mut reader = hub.listen(None, Some(strange), false);
                assert_eq!(hear(&mut reader, 2).await, ["exists syncing", "exists"]);
            }
            for n in 0..REMEMBERED as u64 {
                tell(&hub, "db", &n.to_string());
            }
            let mut reader = hub.listen(None, Some(seen + 1), false);
            assert_eq!(hear(&mut reader, 1).await, ["change syncing->0"], "just remembered");
            let mut reader = hub.listen(None, Some(seen), false);
            assert_eq!(hear(&mut reader, 2).await, ["exists 1023", "exists"], "just forgotten");
        });
    }

    #[test]
    fn a_reader_who_is_too_slow_is_told_how_much_it_missed() {
        let hub = hub();
        runtime().block_on(async {
            tell(&hub, "db", "logging");
            let mut reader = hub.listen(None, None, false);
            hear(&mut reader, 2).await;
            for n in 0..BEHIND_MOST as u64 + 7 {
                tell(&hub, "db", &n.to_string());
            }
            let lagged = reader.next().await.expect("a word");
            assert_eq!((lagged.event, lagged.missed), (What::Lagged, Some(7)));
            assert_eq!(hear(&mut reader, 2).await, ["exists 262", "exists"]);
            tell(&hub, "db", "syncing");
            assert_eq!(hear(&mut reader, 1).await, ["change 262->syncing"]);
        });
    }

    #[test]
    fn a_quiet_stream_shows_that_it_lives_and_one_group_is_heard_alone() {
        let hub = hub();
        runtime().block_on(async {
            tell(&hub, "db", "logging");
            tell(&hub, "web", "logging");
            let mut reader = hub.listen(Some("web".to_owned()), None, false);
            assert_eq!(hear(&mut reader, 2).await, ["exists logging", "exists"]);
            tell(&hub, "db", "syncing");
            assert_eq!(hear(&mut reader, 1).await, ["alive"], "virtual time passed");
            let mut reader = hub.listen(None, None, true);
            assert_eq!(hear(&mut reader, 3).await.len(), 3);
            assert_eq!(reader.next().await, None, "only what is there was wanted");
        });
    }
}

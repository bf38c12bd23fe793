// SPDX-License-Identifier: Apache-2.0
//! Recording what applications ask of a group's volumes: a tap in the shard, a thread that writes, and what is known
//! of both.

mod tap;
mod writer;

use crate::blocking::on_own_thread;
use crate::shard::Clock;
use helio_api::TraceStatus;
use helio_driver::{File, Host, Mode, OFlags};
use helio_format::trace::{Header, Volume};
use helio_units::{Bytes, Items, Moment, WallTime};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tap::{Counts, Sink};
pub(crate) use tap::{Tap, Why};
use tokio::sync::watch;
use writer::Writer;

/// How long writers have for what is left when the daemon stops.
const LAST_WRITES_WITHIN: Duration = Duration::from_secs(10);

/// What the shard tells of a group whose recording begins.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) at: WallTime,
    pub(crate) volumes: Vec<Volume>,
}

/// One that runs, or ended.
struct Trace {
    id: u64,
    file: PathBuf,
    since: Moment,
    limit: Bytes,
    lasting: Option<Duration>,
    counts: Arc<Counts>,
    ended: watch::Receiver<Option<String>>,
}

/// The last recording of every group that had one.
pub(crate) struct Traces {
    host: Host,
    clock: Clock,
    last: Mutex<BTreeMap<String, Trace>>,
    ids: AtomicU64,
    /// Held while one begins: a group has one at most.
    pub(crate) beginning: tokio::sync::Mutex<()>,
}

/// One that is about to begin.
pub(crate) struct Coming {
    pub(crate) id: u64,
    pub(crate) group: String,
    pub(crate) file: PathBuf,
    pub(crate) limit: Bytes,
    pub(crate) lasting: Option<Duration>,
    opened: File,
    sink: Sink,
}

impl Traces {
    pub(crate) fn new(host: Host, clock: Clock) -> Self {
        Self {
            host,
            clock,
            last: Mutex::default(),
            ids: AtomicU64::new(0),
            beginning: tokio::sync::Mutex::default(),
        }
    }

    fn last(&self) -> MutexGuard<'_, BTreeMap<String, Trace>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recording of a group, with times as of `at_ms` now.
    pub(crate) fn status(&self, group: &str, at_ms: WallTime) -> Option<TraceStatus> {
        self.last().get(group).map(|trace| trace.status(self.clock.now(), at_ms))
    }

    /// A recording's name, and how its end is heard of, where one runs.
    pub(crate) fn running(&self, group: &str) -> Option<(u64, watch::Receiver<Option<String>>)> {
        let last = self.last();
        let trace = last.get(group)?;
        let runs = trace.ended.borrow().is_none() && trace.ended.has_changed().is_ok();
        runs.then(|| (trace.id, trace.ended.clone()))
    }

    /// Makes the file, which must not be there, and both ends.
    pub(crate) fn prepare(
        &self,
        group: String,
        file: PathBuf,
        limit: Bytes,
        lasting: Option<Duration>,
    ) -> io::Result<(Tap, Coming)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let opened = self.host.open(&file, flags, Mode::RUSR | Mode::WUSR)?;
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (tap, sink) = tap::tap(id);
        Ok((tap, Coming { id, group, file, limit, lasting, opened, sink }))
    }

    /// Writes from now on. `over` asks the shard to end it when its time is over; false where it has to be asked again.
    pub(crate) fn begin(
        &self,
        coming: Coming,
        begun: Begun,
        over: impl Fn() -> bool + Send + 'static,
    ) -> io::Result<()> {
        let Coming { id, group, file, limit, lasting, opened, sink } = coming;
        let until = lasting.map(|span| (self.clock.now() + span, Box::new(over) as _));
        let (tell, ended) = watch::channel(None);
        let counts = Arc::clone(&sink.counts);
        let (clock, path) = (self.clock.clone(), file.clone());
        let writer = Writer { file: opened, path, limit, clock, until, sink, ended: tell };
        let header = Header { began: begun.at, group: group.clone(), volumes: begun.volumes };
        on_own_thread(&self.host, "trace", Box::new(move || writer.run(&header)))?;
        let since = self.clock.now();
        self.last().insert(group, Trace { id, file, since, limit, lasting, counts, ended });
        Ok(())
    }

    /// Waits until everything recorded is in its file; the shard is gone.
    pub(crate) async fn end(&self) {
        let running: Vec<_> = self.last().values().map(|trace| trace.ended.clone()).collect();
        let all = async {
            for mut ended in running {
                // A writer that is gone without a word has nothing left to write.
                let _gone = ended.wait_for(Option::is_some).await;
            }
        };
        if tokio::time::timeout(LAST_WRITES_WITHIN, all).await.is_err() {
            tracing::warn!("a trace was not completely written in time");
        }
    }
}

impl Trace {
    fn status(&self, now: Moment, at_ms: WallTime) -> TraceStatus {
        let since_ms = at_ms.before(now - self.since);
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let until = |span| WallTime(since_ms.0.saturating_add(millis(span)));
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let ended = self.ended.borrow().clone();
        let requests = if ended.is_some() { &self.counts.written } else { &self.counts.taken };
        TraceStatus {
            file: self.file.display().to_string(),
            since_ms,
            requests: Items(count(requests)),
            dropped: Items(count(&self.counts.dropped)),
            bytes: Bytes(count(&self.counts.bytes)),
            limit_bytes: self.limit,
            until_ms: self.lasting.map(until),
            ended,
        }
    }
}

/// A new name below the state directory, in a folder that is made where it is missing.
pub(crate) fn own_file(
    host: &Host,
    state: &Path,
    group: &str,
    now: WallTime,
) -> io::Result<PathBuf> {
    let folder = state.join("traces");
    host.make_folders(&folder, Mode::RWXU | Mode::RWXG | Mode::RWXO)?;
    let time: String = now.to_string().replace(' ', "T").replace([':', '-'], "");
    Ok(folder.join(format!("{group}-{time}.trace")))
}

// SPDX-License-Identifier: Apache-2.0
//! The verbs that begin and end a recording of what applications ask.

use super::{Daemon, to_the_end};
use crate::control::Reply;
use crate::shard::{Ask, TraceAsk};
use crate::trace::{self, Why};
use helio_api::{Accepted, ApiError, TraceRequest, code};
use helio_attach::{Ground, beneath};
use helio_units::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What a file may have where nothing else is said.
const LIMIT: Bytes = Bytes::gib(1);
/// A smaller one would end before it began to say something.
const LEAST_LIMIT: Bytes = Bytes::kib(64);
/// The longest time; what is longer has its unit wrong.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

impl Daemon {
    pub(super) async fn start_trace(
        &self,
        group: String,
        wish: TraceRequest,
    ) -> Result<Reply, ApiError> {
        self.known(&group)?;
        let limit = wish.limit_bytes.unwrap_or(LIMIT);
        if limit < LEAST_LIMIT {
            let text = format!("a trace of at most {limit} is too small");
            return Err(bad(text, "allow at least 64 KiB"));
        }
        if wish.for_seconds.is_some_and(|span| span.is_zero() || span > LONGEST) {
            return Err(bad("a trace cannot last so long", "give a time of at most a year"));
        }
        let me = self.myself()?;
        to_the_end(async move { me.begin_trace(group, wish, limit).await }).await
    }

    async fn begin_trace(
        self: Arc<Self>,
        group: String,
        wish: TraceRequest,
        limit: Bytes,
    ) -> Result<Reply, ApiError> {
        let _one_at_a_time = self.traces.beginning.lock().await;
        if self.traces.running(&group).is_some() {
            let text = format!("a trace of {group} is already being recorded");
            let hint =
                format!("`helio status {group}` shows it, `helio trace stop {group}` ends it");
            return Err(ApiError::new("tracing", text, hint));
        }
        // The disk it lies on may hang, and the control plane must not hang with it.
        let (me, of, wished, lasting) =
            (Arc::clone(&self), group.clone(), wish.file, wish.for_seconds);
        let grounds = self.attaches.grounds().await;
        let made = self.blocking(move || {
            let file = me.trace_file(&of, wished)?;
            lies_elsewhere(&file, &grounds)?;
            let prepared = me.traces.prepare(of, file.clone(), limit, lasting);
            let (tap, coming) = prepared.map_err(|error| {
                bad(format!("{}: {error}", file.display()), "name a file that does not exist yet")
            })?;
            Ok::<_, ApiError>((file, tap, coming))
        });
        let (file, tap, coming) = made.await??;
        let id = coming.id;
        let begin = |reply| Ask::Trace {
            group: group.clone(),
            ask: TraceAsk::Begin { tap: Box::new(tap), reply },
        };
        let begun = self.shard.answer(begin).await.inspect_err(|_| {
            // Nothing is in it.
            let _ = self.host.remove(&file);
        })?;
        let (shard, name) = (self.shard.clone(), group.clone());
        let over = move || shard.ask(end_of(&name, id, Why::TimeOver)).is_ok();
        let begun = self.traces.begin(coming, begun, over);
        begun.map_err(|error| {
            let _ = self.host.remove(&file);
            let _gone = self.shard.ask(end_of(&group, id, Why::Stopped));
            let text = format!("no thread could be started: {error}");
            ApiError::new(code::INTERNAL, text, "raise the limit of threads")
        })?;
        let lasting = wish.for_seconds.map(|span| format!(" for {} s", span.as_secs_f64()));
        let message = format!(
            "the requests to {group} are recorded in {}, at most {limit}{}",
            file.display(),
            lasting.unwrap_or_default()
        );
        let primary = self.is_primary(&group).await?;
        let warning = "this node is secondary: it gets no requests until it is primary";
        let warnings = if primary { Vec::new() } else { vec![warning.to_owned()] };
        Ok(Reply::Accepted(Accepted { message, warnings }))
    }

    fn trace_file(&self, group: &str, wished: Option<String>) -> Result<PathBuf, ApiError> {
        let Some(file) = wished.map(PathBuf::from) else {
            let (host, now) = (&self.host, self.clock.wall_now());
            return trace::own_file(host, &self.state, group, now).map_err(|error| {
                let text = format!("{}: {error}", self.state.join("traces").display());
                bad(text, "free space in the state directory, or give --file")
            });
        };
        if file.is_absolute() {
            Ok(file)
        } else {
            let text = format!("{} is not an absolute path", file.display());
            Err(bad(text, "start it with `/`"))
        }
    }

    pub(super) async fn stop_trace(&self, group: String) -> Result<Reply, ApiError> {
        self.known(&group)?;
        let Some((id, mut ended)) = self.traces.running(&group) else {
            let last =
                self.traces.status(&group, self.clock.wall_now()).and_then(|trace| trace.ended);
            let last =
                last.map_or(String::new(), |why| format!("; the last trace ended because {why}"));
            let text = format!("no trace of {group} is being recorded{last}");
            return Err(ApiError::new(
                "not-tracing",
                text,
                format!("start with `helio trace start {group}`"),
            ));
        };
        self.shard.ask(end_of(&group, id, Why::Stopped))?;
        // A writer that is gone without a word is told by what it left.
        let _gone = ended.wait_for(Option::is_some).await;
        let Some(trace) = self.traces.status(&group, self.clock.wall_now()) else {
            return Err(self.unknown(&group));
        };
        let message =
            format!("{} requests are recorded in {}, {}", trace.requests, trace.file, trace.bytes);
        let dropped = (trace.dropped.0 > 0).then(|| {
            format!(
                "{} more requests were not recorded, because the disk was too slow; use a file on another disk",
                trace.dropped
            )
        });
        Ok(Reply::Accepted(Accepted { message, warnings: dropped.into_iter().collect() }))
    }
}

/// A file on a device that this daemon serves would record itself, and its writer could wait for the daemon that waits
/// for it.
fn lies_elsewhere(file: &Path, grounds: &[Ground]) -> Result<(), ApiError> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let on = beneath(folder, grounds).map_err(|error| {
        bad(format!("{}: {error}", folder.display()), "name a file in a directory that exists")
    })?;
    match on {
        None => Ok(()),
        Some(Ground { name, .. }) => {
            let text = format!(
                "{} is on {name}, which is attached by this daemon: the trace would be written through this daemon",
                file.display()
            );
            Err(bad(text, "name a file on a disk that is not a volume of this node"))
        }
    }
}

fn bad(text: impl Into<String>, hint: &str) -> ApiError {
    ApiError::new("bad-trace", text, hint)
}

fn end_of(group: &str, id: u64, why: Why) -> Ask {
    Ask::Trace { group: group.to_owned(), ask: TraceAsk::End { id, why } }
}

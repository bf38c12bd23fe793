// SPDX-License-Identifier: Apache-2.0
//! A daemon that runs, as the dashboard asks it.

use crate::args::At;
use crate::client::Caller;
use crate::typed::runnable;
use anyhow::Result;
use helio_api::event::Event;
use helio_api::paths;
use helio_web::{Answer, Ask, Daemon, Following};
use hyper::Method;
use tokio::sync::mpsc;

/// One daemon.
pub(super) struct Node {
    caller: Caller,
    /// The global options that name it; none for those of this command line.
    options: Option<String>,
}

impl Node {
    pub(super) fn new(at: &At, options: Option<String>) -> Result<Self> {
        Ok(Self { caller: Caller::new(at)?, options })
    }
}

impl Daemon for Node {
    fn label(&self) -> String {
        self.caller.place()
    }

    fn command(&self, line: &str) -> String {
        match &self.options {
            Some(options) => format!("{line}{options}"),
            None => runnable(&format!("`{line}`")).trim_matches('`').to_owned(),
        }
    }

    fn ask(&self, Ask { path, body }: Ask) -> Answer<'_> {
        Box::pin(async move {
            let method = if body.is_some() { Method::POST } else { Method::GET };
            let asked = self.caller.call(method, &path, body.unwrap_or_default().into()).await;
            let (status, body) = asked.map_err(|error| error.report())?;
            Ok((status, body.to_vec()))
        })
    }

    fn follow(&self, since: Option<u64>, into: mpsc::Sender<Event>) -> Following<'_> {
        Box::pin(async move {
            let since = since.map_or_else(String::new, |since| format!("?since={since}"));
            let path = format!("{}{since}", paths::EVENTS);
            // Why it ended is in the next status, or in its error.
            let _ended =
                self.caller.lines(&path, |event: Event| into.try_send(event).is_ok()).await;
        })
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `helio events`: the daemon's stream of events, a line each.

use crate::args::At;
use crate::client::{Client, ClientError};
use crate::signals;
use crate::verbs::print;
use anyhow::Result;
use helio_api::event::{Event, What};
use helio_api::{EventsRequest, paths};
use std::process::ExitCode;

/// Follows the stream until it ends: with what is there where only that was wanted, with the daemon's clean stop, or
/// with the reader of our output. A stream that breaks off is a failure, and the last number tells where to go on.
pub(crate) fn follow(at: &At, wish: EventsRequest, json: bool) -> Result<ExitCode> {
    let client = Client::new(at)?;
    signals::end_with_reader()?;
    let (mut last, mut whole, mut printed) = (None, false, Ok(()));
    let heard = client.lines(&path(&wish), |event: Event| {
        last = Some(event.sequence);
        whole = event.ends(if wish.now { What::Exists } else { What::Destroy });
        // A sign of life is for programs; people see that nothing happened.
        if json {
            printed = serde_json::to_string(&event).map_err(Into::into).and_then(line);
        } else if event.event != What::Alive {
            printed = line(event.to_string());
        }
        printed.is_ok()
    });
    printed?;
    let mut broken = match heard {
        Ok(()) if whole => return Ok(ExitCode::SUCCESS),
        Ok(()) => ClientError::Lost {
            daemon: at.state.display().to_string(),
            asked: "helio events".to_owned(),
            why: "the daemon ended the stream unexpectedly".to_owned(),
            hint: "read the log of the daemon for the reason".to_owned(),
        },
        Err(error) => error,
    };
    if let (Some(last), ClientError::Lost { hint, .. }) = (last, &mut broken) {
        *hint = format!("`helio events --since {last}` continues after the last event");
    }
    Err(broken.into())
}

fn line(text: String) -> Result<()> {
    print(&(text + "\n"))
}

/// The stream's URL.
fn path(wish: &EventsRequest) -> String {
    let mut path = format!("{}?now={}", paths::EVENTS, wish.now);
    if let Some(group) = &wish.group {
        path += &paths::of_group("&group={group}", group);
    }
    if let Some(since) = wish.since {
        path += &format!("&since={since}");
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_travels_in_the_query_with_its_group_as_it_was_typed() {
        let wish = EventsRequest { group: Some("db&now=1".into()), since: Some(7), now: false };
        assert_eq!(path(&wish), "/v2/events?now=false&group=db%26now%3D1&since=7");
    }
}

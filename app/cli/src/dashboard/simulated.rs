// SPDX-License-Identifier: Apache-2.0
//! A simulated pair, as the dashboard asks it.

use helio_api::ApiError;
use helio_api::event::Event;
use helio_play::{Change, NODES, Play};
use helio_web::{Answer, Ask, Changed, Daemon, Following, Shown, Simulation};
use std::sync::Arc;
use tokio::sync::mpsc;

/// One of its nodes.
struct Node {
    play: Play,
    number: usize,
}

/// Its controls.
struct Controls(Play);

/// The nodes of a pair, and its controls.
pub(super) fn parts(play: &Play) -> (Vec<Arc<dyn Daemon>>, Arc<dyn Simulation>) {
    let node = |number| Arc::new(Node { play: play.clone(), number }) as Arc<dyn Daemon>;
    ((0..NODES.len()).map(node).collect(), Arc::new(Controls(play.clone())))
}

impl Daemon for Node {
    fn label(&self) -> String {
        NODES[self.number].to_owned()
    }

    fn command(&self, _line: &str) -> String {
        // A terminal would reach a daemon that is real.
        String::new()
    }

    fn ask(&self, Ask { path, body }: Ask) -> Answer<'_> {
        let method = if body.is_some() { "POST" } else { "GET" };
        Box::pin(async move {
            self.play.request(self.number, method, &path, body.unwrap_or_default()).await
        })
    }

    fn follow(&self, _since: Option<u64>, into: mpsc::Sender<Event>) -> Following<'_> {
        Box::pin(async move {
            let Ok(mut rows) = self.play.events(self.number) else { return };
            while let Some(row) = rows.recv().await {
                let event = serde_json::from_slice(&row);
                if event.is_ok_and(|event| into.try_send(event).is_err()) {
                    return;
                }
            }
        })
    }
}

impl Simulation for Controls {
    fn show(&self) -> Shown<'_> {
        Box::pin(async { serde_json::to_value(self.0.simulation().await.ok()?).ok() })
    }

    fn change(&self, change: Vec<u8>) -> Changed<'_> {
        Box::pin(async move {
            let change = Change::read(&change)?;
            self.0.change(change).await
        })
    }

    fn watched(&self, watched: bool) {
        // Without a simulation there is nothing to pause; the next view says so.
        let _ended: Result<(), ApiError> = self.0.watched(watched);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Places for connections that are not authenticated yet. Their number is limited: a new one takes the place of the oldest, since a
//! client that can authenticate does so at once. So clients that cannot do not block the server.

use std::collections::VecDeque;
use tokio::sync::oneshot;

/// A connection that is not proven: it ends when this receives that its sender was dropped. It leaves its place by dropping this.
pub type Place = oneshot::Receiver<()>;

/// The places.
#[derive(Debug)]
pub struct Places {
    most: usize,
    /// The oldest first.
    taken: VecDeque<oneshot::Sender<()>>,
}

impl Places {
    /// For at most that number of connections.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { most, taken: VecDeque::new() }
    }

    /// A place for one connection more.
    pub fn take(&mut self) -> Place {
        self.taken.retain(|place| !place.is_closed());
        if self.taken.len() >= self.most {
            self.taken.pop_front();
        }
        let (place, taken_back) = oneshot::channel();
        self.taken.push_back(place);
        taken_back
    }
}

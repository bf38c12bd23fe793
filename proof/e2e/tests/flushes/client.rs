// SPDX-License-Identifier: Apache-2.0
//! A client whose requests may not stay unanswered.

use helio_nbd::{Client, ClientError};
use helio_testkit::{Pair, received};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// The longest time to an answer; far longer than it should be.
const PATIENCE: Duration = Duration::from_secs(30);

/// So long a drop waits for an open request.
const CLOSES: Duration = Duration::from_secs(1);

/// A request.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Write { offset: u64, data: Vec<u8>, fua: bool },
    Flush,
    Read { offset: u64, length: usize },
}

type Answer = Result<Vec<u8>, ClientError>;

/// One connection, with a thread that waits for its answers. It is closed once this is dropped, unless a request is open still.
pub(crate) struct Caller {
    /// None at its end.
    asks: Option<SyncSender<Ask>>,
    answers: Receiver<Answer>,
}

impl Caller {
    /// Opens volume `data` on a node.
    #[track_caller]
    pub(crate) fn connect(pair: &Pair, node: &str) -> Self {
        let mut client = helio_e2e::connect(pair, node);
        let (asks, asked) = sync_channel::<Ask>(1);
        let (answer, answers) = sync_channel(1);
        thread::spawn(move || {
            while let Ok(ask) = asked.recv() {
                if answer.send(perform(&mut client, ask)).is_err() {
                    return;
                }
            }
            // Before the last end of `answer`, for which a drop waits.
            drop(client);
            drop(answer);
        });
        Self { asks: Some(asks), answers }
    }

    /// Sends a request and returns its answer.
    #[track_caller]
    pub(crate) fn call(&self, ask: Ask) -> Answer {
        self.send(ask);
        self.receive()
    }

    /// Sends a request.
    #[track_caller]
    pub(crate) fn send(&self, ask: Ask) {
        let asks = self.asks.as_ref().expect("it is not dropped");
        asks.send(ask).expect("its thread waits for requests");
    }

    /// The answer to the request sent last.
    #[track_caller]
    pub(crate) fn receive(&self) -> Answer {
        received(&self.answers, PATIENCE, "an answer")
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.asks = None;
        while self.answers.recv_timeout(CLOSES).is_ok() {}
    }
}

fn perform(client: &mut Client, ask: Ask) -> Answer {
    match ask {
        Ask::Write { offset, data, fua } => client.write(offset, &data, fua).map(|()| Vec::new()),
        Ask::Flush => client.flush().map(|()| Vec::new()),
        Ask::Read { offset, length } => {
            let mut bytes = vec![0; length];
            client.read(offset, &mut bytes).map(|()| bytes)
        }
    }
}

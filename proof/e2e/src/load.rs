// SPDX-License-Identifier: Apache-2.0
//! An application under a test's hand: connections that write stamped blocks and keep several in flight.

use crate::book::Book;
use crate::stamp::BLOCK;
use helio_nbd::{Client, ClientError, ClientReceiver, ClientSender, Cookie};
use helio_testkit::{Dice, Pair, received};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// How long writes may take to be answered once no more are sent; far longer than they should.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the application does.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections, each with a thread that sends and one that receives.
    pub connections: u64,
    /// Writes in flight on each.
    pub depth: usize,
    /// Blocks of a write: one size, or one of several.
    pub blocks: (u64, u64),
    /// Writes of each connection; without end where none.
    pub count: Option<u64>,
}

impl Load {
    /// One connection with eight writes of one block in flight, without end.
    pub const PLAIN: Self = Self { connections: 1, depth: 8, blocks: (1, 1), count: None };

    /// Starts to write to a node's volume, at places from the dice, and books everything.
    ///
    /// # Panics
    /// Where the volume cannot be opened.
    #[track_caller]
    #[must_use]
    pub fn start(self, pair: &Pair, node: &str, dice: &Dice, book: &Arc<Book>) -> Writers {
        let stop = Arc::new(AtomicBool::new(false));
        let (end, ended) = sync_channel(self.connections as usize);
        for label in 0..self.connections {
            let client = connect(pair, node);
            let writer = Writer {
                load: self,
                dice: dice.fork(label),
                volume_blocks: client.size().0 / BLOCK as u64,
                book: Arc::clone(book),
                stop: Arc::clone(&stop),
            };
            let end = end.clone();
            thread::spawn(move || {
                // Nobody waits for the end where the test has failed already.
                let _ = end.send(writer.run(client));
            });
        }
        Writers { stop, ended, running: self.connections }
    }

    /// Writes to the end and waits for the answers, which must all be good.
    ///
    /// # Panics
    /// Where one is not, or does not come.
    #[track_caller]
    pub fn run(self, pair: &Pair, node: &str, dice: &Dice, book: &Arc<Book>) {
        self.start(pair, node, dice, book).finish();
        assert_eq!(book.failures(), [], "every write should have been answered well");
    }
}

/// Opens volume `data` of the pair's group on a node.
///
/// # Panics
/// Where that fails.
#[track_caller]
#[must_use]
pub fn connect(pair: &Pair, node: &str) -> Client {
    connect_to(pair, node, "data")
}

/// Opens a volume as a client of a node.
///
/// # Panics
/// Where the node does not serve it.
#[track_caller]
#[must_use]
pub fn connect_to(pair: &Pair, node: &str, volume: &str) -> Client {
    let (socket, export) =
        (pair.state(node).join("nbd.sock"), format!("{}/{volume}", pair.group()));
    Client::connect_unix(&socket, &export)
        .unwrap_or_else(|why| panic!("cannot open {export} on {node}: {why}"))
}

/// A running load. Dropped, it sends no more.
#[derive(Debug)]
pub struct Writers {
    stop: Arc<AtomicBool>,
    ended: Receiver<Result<(), ClientError>>,
    running: u64,
}

impl Writers {
    /// Lets them write for that long.
    ///
    /// # Panics
    /// Where a connection ends meanwhile.
    #[track_caller]
    pub fn write_for(&mut self, span: Duration) {
        match self.ended.recv_timeout(span) {
            Err(RecvTimeoutError::Timeout) => {}
            other => panic!("a writer ended before its time: {other:?}"),
        }
    }

    /// Waits until every connection has ended by itself, each well: all sent was answered.
    ///
    /// # Panics
    /// Where one broke, or they take too long.
    #[track_caller]
    pub fn finish(mut self) {
        for result in self.ends() {
            assert!(result.is_ok(), "a connection broke: {result:?}");
        }
    }

    /// Sends no more, and waits for the answers of what was sent.
    ///
    /// # Panics
    /// As `finish`.
    #[track_caller]
    pub fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.finish();
    }

    /// Waits until every connection has broken, since its daemon was killed.
    ///
    /// # Panics
    /// Where one ends otherwise, or they take too long.
    #[track_caller]
    pub fn broken(mut self) {
        for result in self.ends() {
            let broken = matches!(result, Err(ClientError::Closed { .. }));
            assert!(broken, "a connection ended otherwise than by the kill: {result:?}");
        }
    }

    #[track_caller]
    fn ends(&mut self) -> Vec<Result<(), ClientError>> {
        let mut ends = Vec::new();
        while self.running > 0 {
            let what = format!("the end of {} connections", self.running);
            ends.push(received(&self.ended, PATIENCE, &what));
            self.running -= 1;
        }
        ends
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// One connection's work.
struct Writer {
    load: Load,
    dice: Dice,
    volume_blocks: u64,
    book: Arc<Book>,
    stop: Arc<AtomicBool>,
}

impl Writer {
    fn run(mut self, client: Client) -> Result<(), ClientError> {
        let (sender, mut receiver) = client.split();
        let book = Arc::clone(&self.book);
        // One write is in flight for every token in the channel, and one for the token taken last.
        let (token, taken) = sync_channel(self.load.depth - 1);
        thread::scope(|scope| {
            let sending = scope.spawn(move || self.send(sender, &token));
            let heard = hear(&mut receiver, &taken, &book);
            // Frees a sender that waits to send one more.
            drop(taken);
            let sent = sending.join().expect("a sender has no reason to panic");
            heard.and(sent)
        })
    }

    fn send(&mut self, mut to: ClientSender, token: &SyncSender<()>) -> Result<(), ClientError> {
        let mut left = self.load.count.unwrap_or(u64::MAX);
        while left > 0 && !self.stop.load(Ordering::Acquire) {
            left -= 1;
            // Before the write is booked, so that one in the book is one that is sent.
            if token.send(()).is_err() {
                return Ok(());
            }
            let (least, most) = self.load.blocks;
            let blocks = least + self.dice.below(most - least + 1);
            let first = self.dice.below(self.volume_blocks - blocks + 1);
            let (number, data) = self.book.submit(first, blocks);
            to.send_write(Cookie(number), first * BLOCK as u64, &data, false)?;
        }
        to.send_disconnect()
    }
}

/// Books answers until the sender has ended and all came.
fn hear(
    receiver: &mut ClientReceiver,
    taken: &Receiver<()>,
    book: &Book,
) -> Result<(), ClientError> {
    while taken.recv().is_ok() {
        let reply = receiver.receive()?;
        book.answered(reply.cookie.0, reply.result.map(drop));
    }
    Ok(())
}

// SPDX-License-Identifier: Apache-2.0
//! Connections on the peers' port whose first message has not come yet: nobody knows which group they are about.

use crate::shard::census::Table;
use crate::shard::crowd::makes_room;
use crate::shard::guard::Door;
use crate::shard::handshake::{Handshake, Turns};
use crate::shard::log::{Port, RefusalLog};
use crate::shard::stream::Stream;
use crate::shard::token::{Kind, token};
use helio_driver::{Buffer, Driver, Piece, Pool, Socket};
use helio_format::message::{Hello, Message, Parting};
use helio_link::{Incoming, frame};
use helio_tls::{PublicKey, TlsError};
use helio_units::{Bytes, Moment};
use std::net::SocketAddr;
use std::time::Duration;

/// Most strangers at once; the next one takes the place of another one.
pub(crate) const STRANGERS_MAX: usize = 64;
/// A stranger that has not said hello by then goes.
const PATIENCE: Duration = Duration::from_secs(5);
/// A hello fits into this.
const RECV_BYTES: usize = 4096;

#[derive(Debug)]
struct Stranger {
    epoch: u32,
    stream: Stream,
    /// What TLS has to say to it.
    out: Vec<Piece>,
    handshake: Handshake,
    from: Option<SocketAddr>,
    incoming: Incoming,
    until: Moment,
    /// Its first byte has shown whether it speaks TLS.
    began: bool,
}

/// What became of a stranger.
#[derive(Debug)]
pub(crate) enum Introduced {
    /// It said hello and nothing else yet.
    Hello { stream: Stream, from: Option<SocketAddr>, hello: Hello },
    /// It was sent away, since the key it holds is none of those expected.
    UnknownKey { key: PublicKey, from: Option<SocketAddr> },
    /// Nothing yet, or it was sent away.
    Nothing,
}

/// All of them.
pub(crate) struct Strangers {
    slots: Vec<Option<Stranger>>,
    epochs: u32,
    pool: Pool,
    /// Whose handshake is worked on.
    turns: Turns,
    pub(crate) door: Door,
    pub(crate) log: RefusalLog,
}

impl Strangers {
    pub(crate) fn new(door: Door) -> Self {
        // A hello has no payload, so a stranger may use no payload memory at all.
        let (pool, log) = (Pool::new(Bytes::ZERO), RefusalLog::new(Port::Peers));
        Self { slots: Vec::new(), epochs: 0, pool, turns: Turns::default(), door, log }
    }

    /// Somebody connected.
    pub(crate) fn accept(
        &mut self,
        socket: Socket,
        from: Option<SocketAddr>,
        now: Moment,
        driver: &mut dyn Driver,
    ) {
        self.epochs = self.epochs.wrapping_add(1);
        let slot = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        let slot = if slot < STRANGERS_MAX { slot } else { self.least_wanted() };
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.drop_slot(slot, driver);
        let mut stranger = Stranger {
            epoch: self.epochs,
            stream: Stream::new(socket, RECV_BYTES),
            out: Vec::new(),
            handshake: Handshake::default(),
            from,
            incoming: Incoming::default(),
            until: now + PATIENCE,
            began: false,
        };
        receive(slot, &mut stranger, driver);
        self.slots[slot] = Some(stranger);
    }

    /// The slots of connections.
    pub(crate) fn table(&self) -> Table {
        Table::of(&self.slots)
    }

    /// At the limit: one of the host that has the most, first one that sent nothing, and else the oldest.
    fn least_wanted(&self) -> usize {
        let all = self.slots.iter().enumerate();
        let crowd = all.filter_map(|(slot, it)| it.as_ref().map(|it| (slot, it)));
        let host = |it: &Stranger| it.from.map(|from| from.ip());
        makes_room(crowd.map(|(slot, it)| (slot, host(it), (it.began, it.until)))).unwrap_or(0)
    }

    fn drop_slot(&mut self, slot: usize, driver: &mut dyn Driver) {
        if let Some(stranger) = self.slots[slot].take() {
            driver.cancel(stranger.stream.socket());
        }
    }

    fn at(&mut self, (slot, epoch): (usize, u32)) -> Option<&mut Stranger> {
        self.slots.get_mut(slot)?.as_mut().filter(|stranger| stranger.epoch == epoch)
    }

    /// Bytes arrived from one.
    pub(crate) fn received(
        &mut self,
        at: (usize, u32),
        buffer: Buffer,
        count: Option<usize>,
        now: Moment,
        driver: &mut dyn Driver,
    ) -> Introduced {
        let slot = at.0;
        let Some(first) = self.at(at).map(|stranger| !std::mem::replace(&mut stranger.began, true))
        else {
            return Introduced::Nothing;
        };
        let Some(count) = count.filter(|n| *n > 0) else {
            self.drop_slot(slot, driver);
            return Introduced::Nothing;
        };
        let answer = if first { self.door.answer(buffer[0]) } else { Ok(None) };
        let Some(stranger) = &mut self.slots[slot] else { return Introduced::Nothing };
        match answer {
            Ok(Some(session)) => stranger.handshake = Handshake::Due(session),
            Ok(None) => {}
            Err(why) => return self.send_away(slot, why, now, driver),
        }
        stranger.stream.received(buffer, count);
        self.digest(slot, now, driver)
    }

    /// A piece of work of a handshake was done.
    pub(crate) fn shaken(
        &mut self,
        at: (usize, u32),
        now: Moment,
        driver: &mut dyn Driver,
    ) -> Introduced {
        self.turns.ended();
        let introduced = match self.at(at).map(|it| it.handshake.done(&mut it.stream)) {
            None => Introduced::Nothing,
            Some(true) => self.digest(at.0, now, driver),
            Some(false) => {
                // Nothing is said in plain at a port with keys.
                let from = self.at(at).and_then(|stranger| stranger.from);
                self.log.refused(from, "its TLS handshake panicked", now);
                self.drop_slot(at.0, driver);
                Introduced::Nothing
            }
        };
        self.take_turns(driver);
        introduced
    }

    /// A batch of the handshake was taken.
    pub(crate) fn sent(
        &mut self,
        at: (usize, u32),
        pieces: Vec<Piece>,
        now: Moment,
        driver: &mut dyn Driver,
    ) -> Introduced {
        let Some(stranger) = self.at(at) else { return Introduced::Nothing };
        stranger.stream.sent(pieces, &mut stranger.out);
        self.digest(at.0, now, driver)
    }

    /// Hands out the next piece of work of a handshake, if none is under way.
    fn take_turns(&mut self, driver: &mut dyn Driver) {
        let Self { turns, slots, .. } = self;
        turns.hand_out(Kind::StrangerShake, driver, |(slot, epoch)| {
            let stranger = slots[slot].as_mut().filter(|stranger| stranger.epoch == epoch);
            stranger.and_then(|it| it.handshake.begin(&it.stream))
        });
    }

    /// Goes on with what arrived: first the handshake, then the hello. The hello waits for the end of a send: a group must not get a
    /// stream with a send under way.
    fn digest(&mut self, slot: usize, now: Moment, driver: &mut dyn Driver) -> Introduced {
        let Some(stranger) = &mut self.slots[slot] else { return Introduced::Nothing };
        stranger.handshake.go_on(&mut stranger.stream, &mut stranger.out);
        // What TLS has to say: its part of the handshake, or why there is none.
        if let Some(op) = stranger.stream.send(&mut stranger.out) {
            driver.submit(token(Kind::StrangerSend, slot, stranger.epoch), op);
        }
        if let Some(error) = stranger.stream.failure() {
            let (why, from) = (error.to_string(), stranger.from);
            let unknown = if let TlsError::UnknownKey { key } = error { Some(*key) } else { None };
            let sent_away = self.send_away(slot, &why, now, driver);
            return unknown.map_or(sent_away, |key| Introduced::UnknownKey { key, from });
        }
        if stranger.handshake.wants_turn(&stranger.stream) {
            self.turns.wait((slot, stranger.epoch), stranger.handshake.has_begun());
            self.take_turns(driver);
            return Introduced::Nothing;
        }
        if stranger.stream.is_sending() || !stranger.handshake.is_settled() {
            if stranger.handshake.listens() {
                receive(slot, stranger, driver);
            }
            return Introduced::Nothing;
        }
        // TLS hands out a long record in parts.
        loop {
            match stranger.incoming.consume(stranger.stream.unread(), &self.pool) {
                Ok((taken, Some(arrived))) => {
                    stranger.stream.consume(taken);
                    return self.introduce(slot, arrived.message, now, driver);
                }
                Ok((taken, None)) => stranger.stream.consume(taken),
                Err(error) => return self.send_away(slot, &error.to_string(), now, driver),
            }
            if stranger.stream.unread().is_empty() {
                receive(slot, stranger, driver);
                return Introduced::Nothing;
            }
        }
    }

    /// A stranger's first message came.
    fn introduce(
        &mut self,
        slot: usize,
        message: Message,
        now: Moment,
        driver: &mut dyn Driver,
    ) -> Introduced {
        let mut stranger = self.slots[slot].take();
        let behind = stranger.as_mut().and_then(|stranger| self.behind(stranger));
        let why = match (message, behind, stranger) {
            (Message::Hello(hello), None, Some(Stranger { stream, from, .. }))
                if stream.unread().is_empty() =>
            {
                return Introduced::Hello { stream, from, hello };
            }
            // Its sender cannot follow or lead, and said so at once.
            (Message::Hello(hello), Some(Message::Goodbye { text, .. }), stranger) => {
                let from = stranger.as_ref().and_then(|stranger| stranger.from);
                self.slots[slot] = stranger;
                let [group, node, text] =
                    [&hello.group, &hello.node, &text].map(|it| it.escape_debug());
                let why = format!(
                    "group {group}: {node} closed the connection directly after its hello: {text}"
                );
                self.log.refused(from, &why, now);
                self.drop_slot(slot, driver);
                return Introduced::Nothing;
            }
            (Message::Goodbye { text, .. }, None, stranger) => {
                self.slots[slot] = stranger;
                format!("it closed the connection before its hello: {}", text.escape_debug())
            }
            (Message::Hello(_), _, stranger) => {
                self.slots[slot] = stranger;
                String::from("it sent a message after its hello before this node replied")
            }
            (other, _, stranger) => {
                self.slots[slot] = stranger;
                format!("the first message must be a hello, not one of kind {}", other.code())
            }
        };
        self.send_away(slot, &why, now, driver)
    }

    /// What a stranger said right behind its first message.
    fn behind(&self, stranger: &mut Stranger) -> Option<Message> {
        let (taken, arrived) =
            stranger.incoming.consume(stranger.stream.unread(), &self.pool).ok()?;
        stranger.stream.consume(taken);
        arrived.map(|arrived| arrived.message)
    }

    fn send_away(
        &mut self,
        slot: usize,
        why: &str,
        now: Moment,
        driver: &mut dyn Driver,
    ) -> Introduced {
        if let Some(stranger) = self.slots[slot].take() {
            self.log.refused(stranger.from, why, now);
            farewell(stranger.stream, Parting::Protocol, why, driver);
        }
        Introduced::Nothing
    }

    /// Sends those away who never spoke.
    pub(crate) fn expire(&mut self, now: Moment, driver: &mut dyn Driver) {
        for slot in 0..self.slots.len() {
            if let Some(silent) = self.slots[slot].as_ref().filter(|s| now >= s.until) {
                self.log.refused(
                    silent.from,
                    &format!("no hello arrived within {PATIENCE:?}"),
                    now,
                );
                self.drop_slot(slot, driver);
            }
        }
    }

    pub(crate) fn deadline(&self) -> Moment {
        self.slots.iter().flatten().map(|s| s.until).min().unwrap_or(Moment::NEVER)
    }
}

fn receive(slot: usize, stranger: &mut Stranger, driver: &mut dyn Driver) {
    if let Some(op) = stranger.stream.receive() {
        driver.submit(token(Kind::StrangerRecv, slot, stranger.epoch), op);
    }
}

/// Says why, and lets the connection go; a few hundred bytes always fit a fresh socket.
pub(crate) fn farewell(mut stream: Stream, parting: Parting, why: &str, driver: &mut dyn Driver) {
    let mut pieces: Vec<Piece> = Vec::new();
    frame(&Message::Goodbye { parting, text: why.to_owned() }, None, &mut pieces);
    if let Some(op) = stream.send(&mut pieces) {
        driver.submit(token(Kind::StrangerSend, 0, 0), op);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::guard::Guard;
    use crate::shard::looks::Held;
    use helio_driver::{Address, Host, Linux, Op};
    use helio_tls::{NodeKey, PeerTls, Purpose};

    const NOW: Moment = Moment::ZERO;

    /// A key of its own.
    fn key(folder: &tempfile::TempDir, name: &str) -> PeerTls {
        let path = folder.path().join(name);
        PeerTls::new(NodeKey::create(&Linux::host(), &path).expect("a new key"))
    }

    fn socket(host: &Host) -> Socket {
        host.stream_for(&Address::Inet("127.0.0.1:1".parse().expect("an address"))).expect("one")
    }

    /// The caller of a slot says this.
    fn say(strangers: &mut Strangers, slot: usize, bytes: &[u8], driver: &mut Held) {
        let (mut buffer, epoch) = (Buffer::zeroed(RECV_BYTES), slot as u32 + 1);
        buffer[..bytes.len()].copy_from_slice(bytes);
        strangers.received((slot, epoch), buffer, Some(bytes.len()), NOW, driver);
    }

    /// What was submitted since: operations that are no receive.
    fn submitted(driver: &mut Held) -> Vec<(Kind, Op)> {
        driver.1.drain(..).filter(|(kind, _)| *kind != Kind::StrangerRecv).collect()
    }

    fn work(driver: &mut Held) -> helio_driver::Computation {
        match submitted(driver).pop() {
            Some((Kind::StrangerShake, Op::Compute(work))) => work,
            other => panic!("no work of a handshake, but {other:?}"),
        }
    }

    #[test]
    fn a_thread_works_on_one_handshake_after_the_other_also_if_a_caller_has_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let (own, peer) = (key(&folder, "own"), key(&folder, "peer"));
        let guard = Guard::Keyed { own: own.clone(), peer: vec![peer.public()] };
        let mut strangers = Strangers::new(Door::of([guard].iter()));
        let mut driver = Held::default();
        for slot in 0..3 {
            strangers.accept(socket(driver.host()), None, NOW, &mut driver);
            let mut hello = Vec::new();
            peer.dial(&[own.public()], Purpose::Peer).take_output(&mut hello);
            say(&mut strangers, slot, &hello, &mut driver);
        }
        let first = work(&mut driver);
        assert!(submitted(&mut driver).is_empty(), "the others wait, and nothing was said");
        first.perform();
        strangers.shaken((0, 1), NOW, &mut driver);
        let [(Kind::StrangerSend, Op::Send { pieces, .. }), (Kind::StrangerShake, _)] =
            &submitted(&mut driver)[..]
        else {
            panic!("the first one hears the server's part, and the second one has its turn")
        };
        assert_eq!(pieces[0].bytes().map(|said| said[0]), Some(0x16));
        strangers.drop_slot(1, &mut driver);
        strangers.shaken((1, 2), NOW, &mut driver);
        drop(work(&mut driver));
        // The work of the third one panicked.
        strangers.shaken((2, 3), NOW, &mut driver);
        assert!(strangers.slots[2].is_none() && submitted(&mut driver).is_empty());
    }
}

// SPDX-License-Identifier: Apache-2.0
//! One direction of one connection: what it read and has not yet delivered.

use crate::lane::Lane;
use helio_units::{Bytes, Moment};
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;

/// How a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Everything was said: the other side may go on.
    Fin,
    /// The connection is gone.
    Reset,
}

/// What a parcel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// So many of the flow's bytes.
    Bytes(usize),
    /// The end behind them.
    End(Ending),
}

/// Something on the line.
#[derive(Debug)]
pub(crate) struct Parcel {
    /// When it arrives.
    pub(crate) at: Moment,
    pub(crate) what: What,
}

impl Parcel {
    pub(crate) fn size(&self) -> Bytes {
        match self.what {
            What::Bytes(n) => Bytes(n as u64),
            What::End(_) => Bytes::ZERO,
        }
    }
}

/// What became of handing out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Handed {
    /// Nothing arrived, or the receiver has no room.
    Nothing,
    /// So many bytes were taken.
    Some(Bytes),
    /// The stream's end has arrived.
    End(Ending),
    /// The receiver is gone.
    Broken,
}

/// One direction of one connection.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Read and not yet delivered, in order; the parcels say how much of it arrives when.
    bytes: VecDeque<u8>,
    parcels: VecDeque<Parcel>,
    /// Bytes at the front that have arrived and wait for the receiver's socket.
    due: usize,
    /// So many bytes were taken from the source, of at most so many.
    taken: u64,
    most: u64,
    /// The source may still say something.
    reading: bool,
    /// The source had more when last asked, or was reported to have.
    pub(crate) readable: bool,
    /// The source is known to be gone, so its end of stream is no orderly one.
    source_gone: bool,
    /// An ending the line has not taken yet.
    ending: Option<Ending>,
    /// The receiver's socket was full when last tried.
    pub(crate) blocked: bool,
}

impl Flow {
    pub(crate) fn new(most: Bytes) -> Self {
        Self {
            taken: 0,
            most: most.0,
            bytes: VecDeque::new(),
            parcels: VecDeque::new(),
            due: 0,
            reading: true,
            readable: false,
            source_gone: false,
            ending: None,
            blocked: false,
        }
    }

    /// Takes at most one chunk, or an end, from the source and puts it on the line. True when something moved, so
    /// that asking again may move more.
    pub(crate) fn take_in(
        &mut self,
        mut source: &TcpStream,
        lane: &mut Lane,
        now: Moment,
        scratch: &mut [u8],
    ) -> bool {
        if let Some(ending) = self.ending {
            let Some(at) = lane.send(now, Bytes::ZERO) else { return false };
            self.parcels.push_back(Parcel { at, what: What::End(ending) });
            self.ending = None;
            return true;
        }
        if !self.hungry(lane) || !self.readable || lane.ready_at(now) > now {
            return false;
        }
        let left = usize::try_from(self.most - self.taken).unwrap_or(usize::MAX);
        let most = scratch.len().min(lane.chunk.0 as usize).min(left);
        match source.read(&mut scratch[..most]) {
            Ok(0) => {
                self.finish(if self.source_gone { Ending::Reset } else { Ending::Fin });
            }
            Ok(n) => {
                let at =
                    lane.send(now, Bytes(n as u64)).expect("the lane was asked for room first");
                self.taken += n as u64;
                self.bytes.extend(&scratch[..n]);
                self.parcels.push_back(Parcel { at, what: What::Bytes(n) });
                self.readable = n == most;
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => self.readable = false,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.finish(Ending::Reset),
        }
        true
    }

    /// Gives the receiver what has arrived by `now`.
    pub(crate) fn hand_out(&mut self, mut sink: &TcpStream, now: Moment) -> Handed {
        while let Some(&Parcel { at, what: What::Bytes(n) }) = self.parcels.front()
            && at <= now
        {
            self.due += n;
            self.parcels.pop_front();
        }
        if self.due > 0 {
            if self.blocked {
                return Handed::Nothing;
            }
            let (front, back) = self.bytes.as_slices();
            let front = &front[..front.len().min(self.due)];
            let back = &back[..self.due - front.len()];
            return match sink.write_vectored(&[IoSlice::new(front), IoSlice::new(back)]) {
                Ok(n) => {
                    self.bytes.drain(..n);
                    self.due -= n;
                    self.blocked = self.due > 0;
                    Handed::Some(Bytes(n as u64))
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    Handed::Nothing
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => Handed::Some(Bytes::ZERO),
                Err(_) => Handed::Broken,
            };
        }
        match self.parcels.front() {
            Some(&Parcel { at, what: What::End(ending) }) if at <= now => {
                self.parcels.pop_front();
                Handed::End(ending)
            }
            _ => Handed::Nothing,
        }
    }

    /// The receiver is gone: nothing more is wanted.
    pub(crate) fn abandon(&mut self) {
        self.bytes.clear();
        self.parcels.clear();
        (self.due, self.reading, self.ending) = (0, false, None);
    }

    /// The source is gone: what its socket still holds is carried, and behind it a reset.
    pub(crate) fn source_is_gone(&mut self) {
        self.source_gone = true;
        if !self.reading {
            self.ending = Some(Ending::Reset);
        }
    }

    /// There was never a source: a reset is all that comes.
    pub(crate) fn source_refused(&mut self) {
        self.finish(Ending::Reset);
    }

    /// Nothing is left to carry and nothing will come.
    pub(crate) fn over(&self) -> bool {
        !self.reading && self.ending.is_none() && self.parcels.is_empty() && self.due == 0
    }

    /// Whether it wants more bytes, were there any and room on the line.
    pub(crate) fn hungry(&self, lane: &Lane) -> bool {
        self.reading && (self.bytes.len() as u64) < lane.hold.0 && self.taken < self.most
    }

    /// Whether only the receiver's socket holds it up.
    pub(crate) fn waits_for_sink(&self) -> bool {
        self.blocked && self.due > 0
    }

    /// It carries at most so many bytes, with those that it carried.
    pub(crate) const fn set_most(&mut self, most: Bytes) {
        self.most = most.0;
    }

    /// What it holds.
    pub(crate) fn held(&self) -> Bytes {
        Bytes(self.bytes.len() as u64)
    }

    /// What it has on the line.
    pub(crate) fn parcels_mut(&mut self) -> impl Iterator<Item = &mut Parcel> {
        self.parcels.iter_mut()
    }

    /// When what is on the line arrives next, unless the receiver's socket holds it up.
    pub(crate) fn arrives_at(&self) -> Moment {
        match self.parcels.front() {
            Some(parcel) if !self.waits_for_sink() => parcel.at,
            _ => Moment::NEVER,
        }
    }

    /// When the line takes what waits for it.
    pub(crate) fn enters_at(&self, lane: &Lane, now: Moment) -> Moment {
        if self.ending.is_some() {
            lane.signal_at(now)
        } else if self.readable && self.hungry(lane) {
            lane.ready_at(now)
        } else {
            Moment::NEVER
        }
    }

    fn finish(&mut self, ending: Ending) {
        self.reading = false;
        self.ending = Some(ending);
    }
}

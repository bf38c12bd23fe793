// SPDX-License-Identifier: Apache-2.0
//! Messages out of a stream: a header of fixed length, then a payload that must end up aligned in a slot. One
//! receive takes many small messages, and their payload is copied; what is left of a large payload is received
//! into its slot.

use crate::slots::Slots;
use crate::wire::Wire;
use std::io;

/// Bytes one receive may take: many small messages.
const BUFFER: usize = 128 << 10;

/// A header as the program understood it.
pub trait Header: Copy {
    /// Its bytes on the wire.
    const LENGTH: usize;

    /// Reads it.
    ///
    /// # Errors
    /// Where it is none, or asks for more than this program does.
    fn parse(bytes: &[u8]) -> io::Result<Self>;

    /// Bytes of payload behind it.
    fn payload(&self) -> usize;
}

/// What has arrived.
#[derive(Debug)]
pub struct Intake<H> {
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    open: Option<Open<H>>,
}

/// A message whose payload has not all arrived.
#[derive(Clone, Copy, Debug)]
struct Open<H> {
    header: H,
    slot: usize,
    filled: usize,
}

impl<H: Header> Intake<H> {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self { buffer: vec![0; BUFFER], begin: 0, end: 0, open: None }
    }

    /// Receives once, waiting for it where `wait`; whether anything came. To be called when [`next`](Self::next)
    /// has nothing more.
    ///
    /// # Errors
    /// The socket's.
    pub fn fill(&mut self, wire: &mut Wire, slots: &mut Slots, wait: bool) -> io::Result<bool> {
        let mut take = |into: &mut [u8]| if wait { wire.wait(into) } else { wire.receive(into) };
        if let Some(open) = &mut self.open {
            let rest = &mut slots.get_mut(open.slot)[open.filled..open.header.payload()];
            let got = take(rest)?;
            open.filled += got;
            return Ok(got > 0);
        }
        self.buffer.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        let got = take(&mut self.buffer[self.end..])?;
        self.end += got;
        Ok(got > 0)
    }

    /// Whether a receive has a place to go: a message is open, or there is a slot for the next.
    #[must_use]
    pub fn has_room(&self, free: &[usize]) -> bool {
        self.open.is_some() || !free.is_empty()
    }

    /// The next whole message and the slot that holds its payload, taken from `free`. None while it has not all
    /// arrived, or no slot is free.
    ///
    /// # Errors
    /// What the header says; a payload larger than a slot.
    pub fn next(
        &mut self,
        slots: &mut Slots,
        free: &mut Vec<usize>,
    ) -> io::Result<Option<(H, usize)>> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                let waiting = &self.buffer[self.begin..self.end];
                let Some(bytes) = waiting.get(..H::LENGTH) else { return Ok(None) };
                let Some(slot) = free.pop() else { return Ok(None) };
                let header = H::parse(bytes)?;
                if header.payload() > slots.size() {
                    return Err(io::Error::other(format!(
                        "a payload of {} bytes, of at most {}",
                        header.payload(),
                        slots.size()
                    )));
                }
                self.begin += H::LENGTH;
                Open { header, slot, filled: 0 }
            }
        };
        let wanted = open.header.payload() - open.filled;
        let here = wanted.min(self.end - self.begin);
        slots.get_mut(open.slot)[open.filled..open.filled + here]
            .copy_from_slice(&self.buffer[self.begin..self.begin + here]);
        self.begin += here;
        open.filled += here;
        if here < wanted {
            self.open = Some(open);
            return Ok(None);
        }
        Ok(Some((open.header, open.slot)))
    }
}

impl<H: Header> Default for Intake<H> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[derive(Clone, Copy, Debug)]
    struct Length(usize);

    impl Header for Length {
        const LENGTH: usize = 4;
        fn parse(bytes: &[u8]) -> io::Result<Self> {
            Ok(Self(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize))
        }
        fn payload(&self) -> usize {
            self.0
        }
    }

    #[test]
    fn messages_come_out_whole_however_the_stream_was_cut() {
        let (mut there, here) = UnixStream::pair().expect("a pair");
        let mut wire = Wire::new(here.into());
        let (mut slots, mut free) = (Slots::new(4, 1 << 20), vec![0, 1, 2, 3]);
        let mut intake = Intake::<Length>::new();
        let lengths = [4096_usize, 0, 700_000, 3, 1 << 20];
        let mut stream = Vec::new();
        for (n, length) in lengths.iter().enumerate() {
            stream.extend((*length as u32).to_be_bytes());
            stream.extend(vec![n as u8 + 1; *length]);
        }
        let mut met = 0;
        for part in stream.chunks(50_001) {
            there.write_all(part).expect("the buffer is larger");
            while intake.fill(&mut wire, &mut slots, false).expect("a socket") {
                while let Some((header, slot)) = intake.next(&mut slots, &mut free).expect("whole")
                {
                    assert_eq!(header.0, lengths[met]);
                    met += 1;
                    assert!(slots.get(slot)[..header.0].iter().all(|byte| *byte == met as u8));
                    free.push(slot);
                }
            }
        }
        assert_eq!(met, lengths.len());
    }
}

// SPDX-License-Identifier: Apache-2.0
//! One NBD connection of the simulated clients, with simple replies.

use helio_nbd::codec::{
    GREETING_LENGTH, Greeting, OptionHeader, RequestHeader, SimpleReply, client_flag, magic, option,
};
use helio_world::{Received, SimStream, Stream};

/// Bytes that one call takes from the stream.
const PIECE: usize = 256 << 10;
/// The reply to the chosen export: its size and its flags.
const EXPORT_LENGTH: usize = 10;

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    /// Nothing that is complete.
    Nothing,
    /// The export is open.
    Open,
    /// The reply to a request. The data behind it is used up, too.
    Reply(SimpleReply),
    /// The server broke the protocol.
    Broken,
}

/// The connection is gone.
#[derive(Debug)]
pub(super) struct Gone;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Greeting,
    Export,
    Open,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Connection {
    stream: SimStream,
    export: &'static str,
    stage: Stage,
    input: Vec<u8>,
    /// How much of the input was used.
    used: usize,
    output: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: SimStream, export: &'static str) -> Self {
        Self {
            stream,
            export,
            stage: Stage::Greeting,
            input: Vec::new(),
            used: 0,
            output: Vec::new(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Sends a request.
    pub(super) fn request(&mut self, header: RequestHeader, payload: &[u8]) {
        self.output.extend_from_slice(&header.encode());
        self.output.extend_from_slice(payload);
    }

    /// Sends as much of what is to be sent as there is room for.
    pub(super) fn flush(&mut self) {
        if !self.output.is_empty() {
            // A connection that is gone reports it when it is received from.
            let sent = self.stream.send(&self.output).unwrap_or(0);
            self.output.drain(..sent);
        }
    }

    /// Sends and receives what can be now. Whether anything came.
    pub(super) fn exchange(&mut self) -> Result<bool, Gone> {
        self.flush();
        self.input.drain(..std::mem::take(&mut self.used));
        match self.stream.receive(&mut self.input, PIECE) {
            Received::Bytes => Ok(true),
            Received::Nothing => Ok(false),
            Received::End | Received::Reset => Err(Gone),
        }
    }

    /// Uses up the next thing that is complete. `data` is how many bytes follow the reply to a request.
    pub(super) fn next(&mut self, data: impl FnOnce(&SimpleReply) -> usize) -> Arrived {
        let rest = &self.input[self.used..];
        match self.stage {
            Stage::Greeting => {
                let Some(greeting) = rest.first_chunk::<GREETING_LENGTH>() else {
                    return Arrived::Nothing;
                };
                if Greeting::decode(greeting).is_none() {
                    return Arrived::Broken;
                }
                self.used += GREETING_LENGTH;
                let flags = client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES;
                self.output.extend_from_slice(&flags.to_be_bytes());
                let length = self.export.len() as u32;
                let header = OptionHeader { option: option::EXPORT_NAME, length };
                self.output.extend_from_slice(&header.encode());
                self.output.extend_from_slice(self.export.as_bytes());
                self.stage = Stage::Export;
                Arrived::Nothing
            }
            Stage::Export if rest.len() < EXPORT_LENGTH => Arrived::Nothing,
            Stage::Export => {
                self.used += EXPORT_LENGTH;
                self.stage = Stage::Open;
                Arrived::Open
            }
            Stage::Open => {
                let Some((mark, rest)) = rest.split_first_chunk::<4>() else {
                    return Arrived::Nothing;
                };
                if *mark != magic::SIMPLE_REPLY.to_be_bytes() {
                    return Arrived::Broken;
                }
                let Some(body) = rest.first_chunk::<{ SimpleReply::LENGTH - 4 }>() else {
                    return Arrived::Nothing;
                };
                let reply = SimpleReply::decode_after_magic(body);
                let length = SimpleReply::LENGTH + data(&reply);
                if self.input.len() - self.used < length {
                    return Arrived::Nothing;
                }
                self.used += length;
                Arrived::Reply(reply)
            }
        }
    }
}

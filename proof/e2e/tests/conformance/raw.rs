// SPDX-License-Identifier: Apache-2.0
//! A connection on which anything may be said, right or wrong.

use helio_nbd::codec::{
    GREETING_LENGTH, OptionHeader, OptionReplyHeader, RequestHeader, SimpleReply, client_flag,
    option, reply,
};
use helio_nbd::{Cookie, ErrorCode};
use helio_testkit::timely;
use std::io::{ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Far longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Either kind of socket.
pub(crate) trait Socket: Read + Write {}
impl<T: Read + Write> Socket for T {}

/// What a server sent in answer to an option.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OptionReply {
    pub(crate) kind: u32,
    pub(crate) data: Vec<u8>,
}

impl OptionReply {
    /// The text of an error.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.data).into_owned()
    }
}

/// The client's end.
pub(crate) struct Raw<S = UnixStream>(pub(crate) S);

impl Raw<UnixStream> {
    /// Connects; nothing is said yet.
    #[track_caller]
    pub(crate) fn unix(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).expect("the daemon listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("takes a limit");
        stream.set_write_timeout(Some(PATIENCE)).expect("takes a limit");
        Self(stream)
    }
}

impl Raw<TcpStream> {
    #[track_caller]
    pub(crate) fn tcp(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the daemon listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("takes a limit");
        Self(stream)
    }
}

impl<S: Socket> Raw<S> {
    #[track_caller]
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        timely(self.0.write_all(bytes), "the server to read").expect("the server takes it");
    }

    #[track_caller]
    pub(crate) fn hear<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        timely(self.0.read_exact(&mut bytes), "an answer").expect("the server answers");
        bytes
    }

    #[track_caller]
    pub(crate) fn hear_long(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        timely(self.0.read_exact(&mut bytes), "an answer").expect("the server answers");
        bytes
    }

    /// Hears the greeting and answers it.
    #[track_caller]
    pub(crate) fn greet(mut self, flags: u32) -> Self {
        let _greeting: [u8; GREETING_LENGTH] = self.hear();
        self.say(&flags.to_be_bytes());
        self
    }

    /// As every client of today does.
    #[track_caller]
    pub(crate) fn greet_well(self) -> Self {
        self.greet(client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES)
    }

    #[track_caller]
    pub(crate) fn send_option(&mut self, option: u32, data: &[u8]) {
        let header = OptionHeader { option, length: data.len() as u32 };
        self.say(&[&header.encode()[..], data].concat());
    }

    /// Sends an option and hears the first thing said of it.
    #[track_caller]
    pub(crate) fn option(&mut self, option: u32, data: &[u8]) -> OptionReply {
        self.send_option(option, data);
        self.hear_option(option)
    }

    #[track_caller]
    pub(crate) fn hear_option(&mut self, option: u32) -> OptionReply {
        let bytes: [u8; OptionReplyHeader::LENGTH] = self.hear();
        let header = OptionReplyHeader::decode(&bytes).expect("a reply to an option");
        assert_eq!(header.option, option);
        OptionReply { kind: header.reply, data: self.hear_long(header.length as usize) }
    }

    /// Enters an export; replies are simple from here on.
    #[track_caller]
    pub(crate) fn enter(mut self, export: &str) -> Self {
        let name = export.as_bytes();
        let data = [&(name.len() as u32).to_be_bytes()[..], name, &[0, 0]].concat();
        self.send_option(option::GO, &data);
        loop {
            let said = self.hear_option(option::GO);
            match said.kind {
                reply::ACK => return self,
                reply::INFO => {}
                _ => panic!("{export} cannot be entered: {}", said.text()),
            }
        }
    }

    /// Sends a request's header.
    #[track_caller]
    pub(crate) fn request(&mut self, command: u16, flags: u16, offset: u64, length: u64) {
        let cookie = Cookie(offset ^ length);
        let header = RequestHeader { flags, command, cookie, offset, length };
        self.say(&header.encode());
    }

    /// The answer to a request that brings no data.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> Option<ErrorCode> {
        let bytes: [u8; SimpleReply::LENGTH] = self.hear();
        let after_magic = std::array::from_fn(|n| bytes[4 + n]);
        let error = SimpleReply::decode_after_magic(&after_magic).error;
        (error != 0).then(|| ErrorCode::from_wire(error))
    }

    /// Waits until the server has closed, whatever it still says before.
    pub(crate) fn closed(mut self) -> Result<()> {
        let mut rest = [0; 4096];
        loop {
            match timely(self.0.read(&mut rest), "the server to close") {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                // It closed with bytes of ours unread.
                Err(why) if why.kind() == ErrorKind::ConnectionReset => return Ok(()),
                Err(why) => return Err(why),
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The ceiling of a local NBD server: one thread between a Unix socket and a file, one client at a time.

use anyhow::{Context, Result};
use clap::Parser;
use helio_bench::handshake;
use helio_bench::intake::Header;
use helio_bench::serve::{Ask, How, Operation, serve};
use helio_bench::wire::Outbox;
use helio_nbd::codec::{RequestHeader, SimpleReply, command};
use std::io;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::Duration;

/// Serves a file over NBD on a Unix socket, with as little work as possible.
#[derive(Parser)]
struct Arguments {
    /// The socket to make.
    socket: PathBuf,
    /// The file to serve.
    file: PathBuf,
    /// Through the page cache, with pwrite, instead of past it through a ring.
    #[arg(long)]
    buffered: bool,
    /// Look for work so many microseconds before sleeping.
    #[arg(long, default_value_t = 0)]
    spin_us: u64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let how = How { buffered: arguments.buffered, spin: Duration::from_micros(arguments.spin_us) };
    let size = std::fs::metadata(&arguments.file).context("the file to serve")?.len();
    let listener = UnixListener::bind(&arguments.socket).context("the socket to make")?;
    loop {
        let (mut stream, _) = listener.accept()?;
        // One that hangs up in the handshake only wanted to know whether somebody listens.
        if handshake::accept(&mut stream, size).unwrap_or(false) {
            serve::<Request>(&arguments.file, stream.into(), how)?;
        }
    }
}

#[derive(Clone, Copy)]
struct Request(RequestHeader);

impl Header for Request {
    const LENGTH: usize = RequestHeader::LENGTH;

    fn parse(bytes: &[u8]) -> io::Result<Self> {
        let bytes = bytes.try_into().map_err(io::Error::other)?;
        let header = RequestHeader::decode(bytes);
        header.map(Self).map_err(|word| io::Error::other(format!("{word:#x} instead of a request")))
    }

    fn payload(&self) -> usize {
        if self.0.command == command::WRITE { self.0.length as usize } else { 0 }
    }
}

impl Ask for Request {
    fn operation(&self) -> io::Result<Operation> {
        let RequestHeader { offset, length, .. } = self.0;
        match self.0.command {
            command::WRITE => Ok(Operation::Write { offset }),
            command::READ => Ok(Operation::Read { offset, length: length as usize }),
            command::FLUSH => Ok(Operation::Flush),
            command::DISC => Ok(Operation::Leave),
            other => Err(io::Error::other(format!("command {other} is not served here"))),
        }
    }

    fn answer(&self, outcome: io::Result<&[u8]>, outbox: &mut Outbox) -> io::Result<()> {
        let error = if outcome.is_ok() { 0 } else { 5 };
        outbox.put(&SimpleReply { error, cookie: self.0.cookie }.encode());
        outbox.put(outcome.unwrap_or_default());
        Ok(())
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The ceiling of a local NBD server: one thread between a Unix socket and a file, one client at a time.

use anyhow::{Context, Result};
use clap::Parser;
use helio_bench::intake::Header;
use helio_bench::serve::{Ask, How, Operation, serve};
use helio_bench::wire::Outbox;
use helio_nbd::TransmissionFlags;
use helio_nbd::codec::{
    Greeting, OptionHeader, OptionReplyHeader, RequestHeader, SimpleReply, command, handshake_flag,
    info, option, reply,
};
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
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
        if accept(&mut stream, size).unwrap_or(false) {
            serve::<Request>(&arguments.file, stream.into(), how)?;
        }
    }
}

/// The handshake's server end for one export of `size` bytes under any name, with simple replies; returns whether the
/// client sends requests then. `helio_nbd::Session` has no place here: it promises structured replies, FUA and zeroing,
/// which a ceiling leaves out.
///
/// # Errors
/// The client hangs up or breaks the protocol.
fn accept(stream: &mut UnixStream, size: u64) -> Result<bool> {
    let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
    stream.write_all(&Greeting { flags }.encode())?;
    take::<4>(stream)?;
    loop {
        let header = OptionHeader::decode(&take(stream)?);
        let header = header.ok().context("the client sent no option")?;
        // What an option asks for in detail changes no answer.
        io::copy(&mut stream.take(header.length.into()), &mut io::sink())?;
        let answer = |reply, data: &[u8]| {
            let length = data.len() as u32;
            let header = OptionReplyHeader { option: header.option, reply, length };
            [&header.encode(), data].concat()
        };
        match header.option {
            option::GO | option::INFO => {
                let flags = TransmissionFlags::HAS_FLAGS.with(TransmissionFlags::SEND_FLUSH);
                let mut data = info::EXPORT.to_be_bytes().to_vec();
                data.extend(size.to_be_bytes());
                data.extend(flags.0.to_be_bytes());
                stream.write_all(&answer(reply::INFO, &data))?;
                stream.write_all(&answer(reply::ACK, &[]))?;
                if header.option == option::GO {
                    return Ok(true);
                }
            }
            option::ABORT => {
                stream.write_all(&answer(reply::ACK, &[]))?;
                return Ok(false);
            }
            _ => stream.write_all(&answer(reply::ERR_UNSUP, &[]))?,
        }
    }
}

fn take<const N: usize>(stream: &mut UnixStream) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).context("the other end hung up in the handshake")?;
    Ok(bytes)
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

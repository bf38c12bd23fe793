// SPDX-License-Identifier: Apache-2.0
//! NBD's fixed newstyle handshake with the option GO and simple replies, both ends, blocking.

use anyhow::{Context, Result, bail};
use helio_nbd::TransmissionFlags;
use helio_nbd::codec::{
    GREETING_LENGTH, Greeting, OptionHeader, OptionReplyHeader, client_flag, handshake_flag, info,
    option, reply,
};
use std::io::{Read, Write};

/// Longest option or answer that is believed, in bytes.
const LONGEST: u32 = 16 << 10;

/// The client's end; the export's size in bytes.
///
/// # Errors
/// Where the server refuses the export, or speaks otherwise.
pub fn connect(stream: &mut (impl Read + Write), export: &str) -> Result<u64> {
    let greeting: [u8; GREETING_LENGTH] = take(stream)?;
    Greeting::decode(&greeting).context("the server does not speak NBD's newstyle")?;
    let flags = client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES;
    let mut ask = flags.to_be_bytes().to_vec();
    let length = 4 + export.len() as u32 + 2;
    ask.extend(OptionHeader { option: option::GO, length }.encode());
    ask.extend((export.len() as u32).to_be_bytes());
    ask.extend(export.as_bytes());
    ask.extend(0_u16.to_be_bytes());
    stream.write_all(&ask)?;
    let mut size = None;
    loop {
        let header = OptionReplyHeader::decode(&take(stream)?);
        let header = header.ok().context("the server sent no answer to GO")?;
        let data = take_vec(stream, header.length)?;
        match header.reply {
            reply::INFO if data.len() == 12 && data[..2] == info::EXPORT.to_be_bytes() => {
                size = data[2..10].try_into().ok().map(u64::from_be_bytes);
            }
            reply::INFO => {}
            reply::ACK => return size.context("the server told no size"),
            other => {
                let words = String::from_utf8_lossy(&data);
                bail!("the server refused `{export}`: {} {words}", reply::meaning(other))
            }
        }
    }
}

/// The server's end for one export of `size` bytes under whatever name; whether the client wants to go on.
///
/// # Errors
/// Where the client hangs up or speaks otherwise.
pub fn accept(stream: &mut (impl Read + Write), size: u64) -> Result<bool> {
    let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
    stream.write_all(&Greeting { flags }.encode())?;
    take::<4>(stream)?;
    loop {
        let header = OptionHeader::decode(&take(stream)?);
        let header = header.ok().context("the client sent no option")?;
        take_vec(stream, header.length)?;
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

fn take<const N: usize>(stream: &mut impl Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).context("the other end hung up in the handshake")?;
    Ok(bytes)
}

fn take_vec(stream: &mut impl Read, length: u32) -> Result<Vec<u8>> {
    if length > LONGEST {
        bail!("the other end announces {length} bytes in the handshake, of at most {LONGEST}");
    }
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes).context("the other end hung up in the handshake")?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_two_ends_understand_each_other() {
        let (mut client, mut server) = UnixStream::pair().expect("a pair");
        let served = std::thread::spawn(move || accept(&mut server, 1 << 30).expect("it goes on"));
        assert_eq!(connect(&mut client, "db/data").expect("it is served"), 1 << 30);
        assert!(served.join().expect("it ended"));
    }
}

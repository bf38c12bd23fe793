// SPDX-License-Identifier: Apache-2.0
//! Everything that reads strangers' bytes, for whoever tries it from outside (`proof/fuzz`).

use crate::record::Datagram;
use crate::wire::{Frame, Hello, Plan, WireError};

/// What bytes are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// A standby's first words.
    Hello,
    /// A primary's answer.
    Plan,
    /// A frame of a run whose flushes have so many bytes.
    Frame(u64),
    /// A datagram of a recording.
    Datagram,
}

/// Reads one off the front, as the sockets do, and writes again what was understood; nothing where more must come.
///
/// # Errors
/// It is none; why.
pub fn rewritten(door: Door, bytes: &[u8]) -> Result<Option<Vec<u8>>, WireError> {
    Ok(match door {
        Door::Hello => {
            bytes.first_chunk().map(Hello::decode).transpose()?.map(|it| it.encode().into())
        }
        Door::Plan => {
            bytes.first_chunk().map(Plan::decode).transpose()?.map(|it| it.encode().into())
        }
        Door::Frame(flush) => Frame::read(bytes, flush)?.map(|frame| match frame {
            Frame::Flush(head) => head.encode().into(),
            Frame::Ack(ack) => ack.encode().into(),
            Frame::End(end) => end.encode().into(),
            Frame::Report(report) => report.encode().into(),
        }),
        Door::Datagram => Some(Datagram::decode(bytes)?.packed()),
    })
}

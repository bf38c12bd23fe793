// SPDX-License-Identifier: Apache-2.0
//! What each option is answered with. An option not named here is answered as unsupported; TLS, metadata
//! contexts and extended headers get their arms (and rooms of their own) beside the others.

use crate::codec::{
    Cursor, EXPORT_NAME_ZEROES, MAX_STRING, OptionReplyHeader, bounded, info, option, reply,
};
use crate::server::limits::{MAX_LIST_REPLY, MAX_NAME, MAX_PAYLOAD};
use crate::server::{ExportInfo, Exports, OpenRefusal, SessionError};

/// What an option led to.
pub(super) enum Outcome {
    /// It is answered; the client may go on.
    Answered,
    /// The client leaves.
    Leave,
    /// The client uses this export from here on.
    Enter { export: ExportInfo, structured: bool },
}

/// Why an option is refused: the kind of answer and its text.
struct Refusal {
    reply: u32,
    message: String,
}

impl Refusal {
    fn new(reply: u32, message: impl Into<String>) -> Self {
        Self { reply, message: message.into() }
    }
}

/// What has been agreed on so far.
#[derive(Debug, Default)]
pub(super) struct Haggler {
    pub(super) no_zeroes: bool,
    structured: bool,
}

impl Haggler {
    /// Answers one option.
    pub(super) fn answer(
        &mut self,
        option: u32,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, SessionError> {
        let empty_required = matches!(option, option::LIST | option::STRUCTURED_REPLY);
        if empty_required && !data.is_empty() {
            refuse(option, reply::ERR_INVALID, "this option carries no data", out);
            return Ok(Outcome::Answered);
        }
        match option {
            option::EXPORT_NAME => return self.export_name(data, exports, out),
            option::ABORT => {
                put(option, reply::ACK, &[], out);
                return Ok(Outcome::Leave);
            }
            option::LIST => list(exports, out),
            option::INFO | option::GO => match self.describe(option, data, exports, out) {
                Ok(export) if option == option::GO => {
                    return Ok(Outcome::Enter { export, structured: self.structured });
                }
                Ok(_) => {}
                Err(refusal) => refuse(option, refusal.reply, &refusal.message, out),
            },
            option::STRUCTURED_REPLY => {
                self.structured = true;
                put(option, reply::ACK, &[], out);
            }
            _ => refuse(option, reply::ERR_UNSUP, "this server does not offer it", out),
        }
        Ok(Outcome::Answered)
    }

    /// The old way in: no answer but success, so a refusal ends the connection.
    fn export_name(
        &self,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, SessionError> {
        let export = name(data)
            .and_then(|name| open(name, exports))
            .map_err(|refusal| SessionError::ExportRefused { reason: refusal.message })?;
        out.extend_from_slice(&export.size.0.to_be_bytes());
        out.extend_from_slice(&export.flags(self.structured).0.to_be_bytes());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; EXPORT_NAME_ZEROES]);
        }
        Ok(Outcome::Enter { export, structured: self.structured })
    }

    /// INFO and GO: everything the client asked about an export, then the acknowledgement.
    fn describe(
        &self,
        option: u32,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<ExportInfo, Refusal> {
        let (name, wanted) = description_request(data)?;
        let export = open(name, exports)?;
        let mut fact = |kind: u16, parts: &[&[u8]]| {
            let kind = kind.to_be_bytes();
            let mut all: Vec<&[u8]> = vec![&kind];
            all.extend_from_slice(parts);
            put(option, reply::INFO, &all, out);
        };
        let flags = export.flags(self.structured).0;
        fact(info::EXPORT, &[&export.size.0.to_be_bytes(), &flags.to_be_bytes()]);
        if wanted.contains(info::NAME) {
            fact(info::NAME, &[export.name.as_bytes()]);
        }
        if wanted.contains(info::DESCRIPTION) && !export.description.is_empty() {
            fact(info::DESCRIPTION, &[bounded(&export.description).as_bytes()]);
        }
        if wanted.contains(info::BLOCK_SIZE) {
            let minimum = export.minimum_block.to_be_bytes();
            let preferred = export.preferred_block.to_be_bytes();
            fact(info::BLOCK_SIZE, &[&minimum, &preferred, &MAX_PAYLOAD.to_be_bytes()]);
        }
        put(option, reply::ACK, &[], out);
        Ok(export)
    }
}

/// The info types a client asked for, unknown ones among them.
struct Wanted<'a>(&'a [u8]);

impl Wanted<'_> {
    fn contains(&self, kind: u16) -> bool {
        self.0.chunks_exact(2).any(|asked| asked == kind.to_be_bytes())
    }
}

/// The data of INFO and GO.
fn description_request(data: &[u8]) -> Result<(&str, Wanted<'_>), Refusal> {
    let broken = || Refusal::new(reply::ERR_INVALID, "its lengths do not add up");
    let mut cursor = Cursor::new(data);
    let length = cursor.u32().ok_or_else(broken)?;
    let name_bytes = cursor.take(length as usize).ok_or_else(broken)?;
    let count = cursor.u16().ok_or_else(broken)?;
    if cursor.rest().len() != 2 * usize::from(count) {
        return Err(broken());
    }
    Ok((name(name_bytes)?, Wanted(cursor.rest())))
}

/// An export's name as a client sent it.
fn name(bytes: &[u8]) -> Result<&str, Refusal> {
    if bytes.len() > MAX_NAME {
        return Err(Refusal::new(reply::ERR_TOO_BIG, "the name is longer than 4096 bytes"));
    }
    match std::str::from_utf8(bytes) {
        Ok(name) if !name.contains('\0') => Ok(name),
        _ => Err(Refusal::new(reply::ERR_INVALID, "the name is not text")),
    }
}

fn open(name: &str, exports: &dyn Exports) -> Result<ExportInfo, Refusal> {
    let export = exports.open(name).map_err(|refusal| match refusal {
        OpenRefusal::Unknown => {
            Refusal::new(reply::ERR_UNKNOWN, format!("there is no export {name:?}"))
        }
        OpenRefusal::Policy(text) => Refusal::new(reply::ERR_POLICY, text),
    })?;
    match export.fault() {
        None => Ok(export),
        Some(fault) => {
            Err(Refusal::new(reply::ERR_POLICY, format!("export {name:?} is not served: {fault}")))
        }
    }
}

/// One answer per export while they fit, then the acknowledgement, or an error where some did not.
fn list(exports: &dyn Exports, out: &mut Vec<u8>) {
    let begin = out.len();
    let mut left_out = 0_usize;
    exports.list(&mut |export| {
        let description = bounded(&export.description).as_bytes();
        let name = export.name.as_bytes();
        let size = OptionReplyHeader::LENGTH + 4 + name.len() + description.len();
        if name.len() > MAX_NAME || out.len() - begin + size > MAX_LIST_REPLY {
            left_out += 1;
            return;
        }
        // At most 4096, so the cast is exact.
        let length = (name.len() as u32).to_be_bytes();
        put(option::LIST, reply::SERVER, &[&length, name, description], out);
    });
    if left_out == 0 {
        put(option::LIST, reply::ACK, &[], out);
    } else {
        let message = format!("{left_out} more exports do not fit into the list");
        refuse(option::LIST, reply::ERR_TOO_BIG, &message, out);
    }
}

/// Appends an error answer.
pub(super) fn refuse(option: u32, reply: u32, message: &str, out: &mut Vec<u8>) {
    put(option, reply, &[bounded(message).as_bytes()], out);
}

/// Appends one answer. Its parts are bounded strings and fixed fields.
fn put(option: u32, reply: u32, parts: &[&[u8]], out: &mut Vec<u8>) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    debug_assert!(length <= 2 * MAX_STRING + 16, "an answer of {length} bytes");
    let header = OptionReplyHeader { option, reply, length: length as u32 };
    out.extend_from_slice(&header.encode());
    for part in parts {
        out.extend_from_slice(part);
    }
}

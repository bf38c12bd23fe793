// SPDX-License-Identifier: Apache-2.0
//! What each option is answered with. An option not named here is answered as unsupported.
//!
//! An export whose minimum block is larger than the protocol's default may refuse clients that did not ask
//! for it (`ERR_BLOCK_SIZE_REQD`), or that use EXPORT_NAME. Here they are let in: requests that do not fit are
//! refused one by one without harm, and clients that always send whole sectors, the kernel's among them, work.
//! INFO and GO report the sizes to every client, as servers may, also to one that did not request them.

use crate::codec::{
    Cursor, EXPORT_NAME_ZEROES, Form, MAX_STRING, OptionReplyHeader, bounded, info, option, reply,
};
use crate::server::exports::Terms;
use crate::server::limits::{MAX_LIST_REPLY, MAX_NAME, MAX_PAYLOAD};
use crate::server::meta::{self, Choice};
use crate::server::{ExportInfo, Exports, OpenRefusal, SessionError, TlsPolicy};

/// What an option led to.
pub(super) enum Outcome {
    /// It is answered; the client may go on.
    Answered,
    /// The client leaves.
    Leave,
    /// The client uses this export from here on.
    Enter { export: ExportInfo, terms: Terms },
    /// The client was promised TLS, from the next byte on.
    StartTls,
}

/// Why an option is refused: the kind of answer and its text.
pub(super) struct Refusal {
    pub(super) reply: u32,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(reply: u32, message: impl Into<String>) -> Self {
        Self { reply, message: message.into() }
    }
}

/// What has been agreed on so far.
#[derive(Debug)]
pub(super) struct Haggler {
    pub(super) tls: TlsPolicy,
    pub(super) no_zeroes: bool,
    form: Form,
    choice: Choice,
}

impl Haggler {
    pub(super) fn new(tls: TlsPolicy) -> Self {
        Self { tls, no_zeroes: false, form: Form::Simple, choice: Choice::default() }
    }

    /// TLS protects what follows: what was agreed on without it may be an attacker's and is forgotten.
    /// The client flags, which TLS does not let anybody repeat, stay.
    pub(super) fn secured(&mut self) {
        let no_zeroes = self.no_zeroes;
        *self = Self { no_zeroes, ..Self::new(TlsPolicy::Active) };
    }

    /// Answers one option.
    pub(super) fn answer(
        &mut self,
        option: u32,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, SessionError> {
        if self.shut(option)? {
            refuse(option, reply::ERR_TLS_REQD, TLS_FIRST, out);
            return Ok(Outcome::Answered);
        }
        let empty_required = matches!(
            option,
            option::LIST | option::STARTTLS | option::STRUCTURED_REPLY | option::EXTENDED_HEADERS
        );
        if empty_required && !data.is_empty() {
            refuse(option, reply::ERR_INVALID, "this option carries no data", out);
            return Ok(Outcome::Answered);
        }
        match self.serve(option, data, exports, out)? {
            Ok(outcome) => Ok(outcome),
            Err(refusal) => {
                refuse(option, refusal.reply, &refusal.message, out);
                Ok(Outcome::Answered)
            }
        }
    }

    /// Answers an option whose data is too large to be looked at.
    pub(super) fn answer_oversized(
        &mut self,
        option: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        if self.shut(option)? {
            refuse(option, reply::ERR_TLS_REQD, TLS_FIRST, out);
            return Ok(());
        }
        if option == option::SET_META_CONTEXT {
            self.choice = Choice::default();
        }
        refuse(option, reply::ERR_TOO_BIG, "the option is too large", out);
        Ok(())
    }

    /// Whether the option is closed until TLS protects the connection.
    fn shut(&self, option: u32) -> Result<bool, SessionError> {
        match option {
            _ if self.tls != TlsPolicy::Required => Ok(false),
            option::STARTTLS | option::ABORT => Ok(false),
            // It has no error answer.
            option::EXPORT_NAME => Err(SessionError::TlsRequired),
            _ => Ok(true),
        }
    }

    /// What the option leads to, or why it is refused.
    fn serve(
        &mut self,
        option: u32,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Result<Outcome, Refusal>, SessionError> {
        let served = match option {
            option::EXPORT_NAME => return self.export_name(data, exports, out).map(Ok),
            option::ABORT => {
                put(option, reply::ACK, &[], out);
                Ok(Outcome::Leave)
            }
            option::LIST => {
                list(exports, out);
                Ok(Outcome::Answered)
            }
            option::STARTTLS => self.start_tls(out),
            option::INFO => self.describe(option, data, exports, out).map(|_| Outcome::Answered),
            option::GO => self
                .describe(option, data, exports, out)
                .map(|(export, terms)| Outcome::Enter { export, terms }),
            option::STRUCTURED_REPLY if self.form == Form::Extended => Err(Refusal::new(
                reply::ERR_EXT_HEADER_REQD,
                "extended headers are already negotiated, and include them",
            )),
            option::STRUCTURED_REPLY => Ok(self.agree(option, Form::Structured, out)),
            option::EXTENDED_HEADERS => Ok(self.agree(option, Form::Extended, out)),
            option::LIST_META_CONTEXT => {
                meta::list(self.form, data, exports, out).map(|()| Outcome::Answered)
            }
            option::SET_META_CONTEXT => {
                self.choice = Choice::default();
                meta::set(self.form, data, exports, out).map(|choice| {
                    self.choice = choice;
                    Outcome::Answered
                })
            }
            _ => Err(Refusal::new(reply::ERR_UNSUP, "this server does not offer it")),
        };
        Ok(served)
    }

    fn agree(&mut self, option: u32, form: Form, out: &mut Vec<u8>) -> Outcome {
        self.form = form;
        put(option, reply::ACK, &[], out);
        Outcome::Answered
    }

    fn start_tls(&self, out: &mut Vec<u8>) -> Result<Outcome, Refusal> {
        match self.tls {
            TlsPolicy::Off => {
                Err(Refusal::new(reply::ERR_POLICY, "TLS is not configured on this server"))
            }
            TlsPolicy::Active => {
                Err(Refusal::new(reply::ERR_INVALID, "TLS already protects this connection"))
            }
            TlsPolicy::Offered | TlsPolicy::Required => {
                put(option::STARTTLS, reply::ACK, &[], out);
                Ok(Outcome::StartTls)
            }
        }
    }

    /// The old way in: no answer but success, so a refusal ends the connection.
    fn export_name(
        &self,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Outcome, SessionError> {
        let refused = |reason: String| SessionError::ExportRefused { reason };
        if self.form == Form::Extended {
            return Err(refused("extended headers were negotiated, which need GO".into()));
        }
        let (export, terms) = name(data)
            .and_then(|name| self.enter(name, exports))
            .map_err(|refusal| refused(refusal.message))?;
        out.extend_from_slice(&export.size.0.to_be_bytes());
        out.extend_from_slice(&export.flags(terms).0.to_be_bytes());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; EXPORT_NAME_ZEROES]);
        }
        Ok(Outcome::Enter { export, terms })
    }

    /// The export of that name, and the terms on which it would be used.
    fn enter(&self, name: &str, exports: &dyn Exports) -> Result<(ExportInfo, Terms), Refusal> {
        let export = open(name, exports)?;
        let contexts = self.choice.for_export(name);
        if !contexts.within(export.contexts) {
            // Each context chosen must be answered for, so a choice cannot shrink in silence.
            let message = "a chosen context is no longer offered; choose again";
            return Err(Refusal::new(reply::ERR_POLICY, message));
        }
        Ok((export, Terms { form: self.form, contexts }))
    }

    /// INFO and GO: everything the client asked about an export, then the acknowledgement.
    fn describe(
        &self,
        option: u32,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<(ExportInfo, Terms), Refusal> {
        let (name, wanted) = description_request(data)?;
        let (export, terms) = self.enter(name, exports)?;
        let mut fact = |kind: u16, parts: &[&[u8]]| {
            let kind = kind.to_be_bytes();
            let mut all: Vec<&[u8]> = vec![&kind];
            all.extend_from_slice(parts);
            put(option, reply::INFO, &all, out);
        };
        let flags = export.flags(terms).0;
        fact(info::EXPORT, &[&export.size.0.to_be_bytes(), &flags.to_be_bytes()]);
        if wanted.contains(info::NAME) {
            fact(info::NAME, &[export.name.as_bytes()]);
        }
        let description = export.told();
        if wanted.contains(info::DESCRIPTION) && !description.is_empty() {
            fact(info::DESCRIPTION, &[description.as_bytes()]);
        }
        let minimum = export.minimum_block.to_be_bytes();
        let preferred = export.preferred_block.to_be_bytes();
        fact(info::BLOCK_SIZE, &[&minimum, &preferred, &MAX_PAYLOAD.to_be_bytes()]);
        drop(description);
        put(option, reply::ACK, &[], out);
        Ok((export, terms))
    }

    pub(super) fn held(&self) -> usize {
        self.choice.held()
    }
}

const TLS_FIRST: &str = "this server requires TLS; send STARTTLS first";

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
pub(super) fn name(bytes: &[u8]) -> Result<&str, Refusal> {
    if bytes.len() > MAX_NAME {
        return Err(Refusal::new(reply::ERR_TOO_BIG, "the name is longer than 4096 bytes"));
    }
    match std::str::from_utf8(bytes) {
        Ok(name) if !name.contains('\0') => Ok(name),
        _ => Err(Refusal::new(reply::ERR_INVALID, "the name is not text")),
    }
}

/// The export of that name, where it may be served.
pub(super) fn open(name: &str, exports: &dyn Exports) -> Result<ExportInfo, Refusal> {
    let export = exports.open(name).map_err(|refusal| match refusal {
        OpenRefusal::Unknown => {
            Refusal::new(reply::ERR_UNKNOWN, format!("unknown export {name:?}"))
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
        let description = export.told();
        let description = description.as_bytes();
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
fn refuse(option: u32, reply: u32, message: &str, out: &mut Vec<u8>) {
    put(option, reply, &[bounded(message).as_bytes()], out);
}

/// Appends one answer. Its parts are bounded strings and fixed fields.
pub(super) fn put(option: u32, reply: u32, parts: &[&[u8]], out: &mut Vec<u8>) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    debug_assert!(length <= 2 * MAX_STRING + 16, "a reply of {length} bytes");
    let header = OptionReplyHeader { option, reply, length: length as u32 };
    out.extend_from_slice(&header.encode());
    for part in parts {
        out.extend_from_slice(part);
    }
}

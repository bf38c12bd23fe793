// SPDX-License-Identifier: Apache-2.0
//! Which requests are served. The one place that decides it: whoever gets a [`Request`] need not check
//! it again.

use crate::codec::{
    Contexts, Cursor, ErrorCode, Form, RequestHeader, TransmissionFlags, command, command_flag,
};
use crate::server::exports::Terms;
use crate::server::limits::MAX_PAYLOAD;
use crate::server::{Command, ExportInfo, Request, meta};
use helio_units::{Bytes, Extent};

/// What there is to know about the export in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    size: Bytes,
    minimum_block: u32,
    flags: TransmissionFlags,
    fast_zero: bool,
    longest_effect: Bytes,
    terms: Terms,
}

/// What follows a request's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// The next request.
    Nothing,
    /// The data of a write, or what no command asks for, in bytes.
    Payload(u64),
    /// The contexts a block status is about, in bytes of a length that can make sense.
    Filter(usize),
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: ErrorCode,
    pub(super) message: &'static str,
}

const fn refuse<T>(code: ErrorCode, message: &'static str) -> Result<T, Refusal> {
    Err(Refusal { code, message })
}

impl Bounds {
    pub(super) const fn new(export: &ExportInfo, terms: Terms) -> Self {
        Self {
            size: export.size,
            minimum_block: export.minimum_block,
            flags: export.flags(terms),
            fast_zero: export.fast_zero,
            longest_effect: export.longest_effect,
            terms,
        }
    }

    /// The export has this size from now on.
    pub(super) const fn resized(&mut self, size: Bytes) {
        self.size = size;
    }

    /// What follows `header` on the wire, whether or not it is worth serving.
    ///
    /// An extended write must carry the flag for its payload. QEMU's client (10.0 at least) leaves it away
    /// and sends the payload all the same, so data follows a write of any client.
    pub(super) const fn behind(&self, header: &RequestHeader) -> Behind {
        let extended = matches!(self.terms.form, Form::Extended);
        let announced = header.flags & command_flag::PAYLOAD_LEN != 0;
        let filter = header.command == command::BLOCK_STATUS
            && self.flags.has(TransmissionFlags::BLOCK_STATUS_PAYLOAD);
        // Every context once at most, so a longer list must be wrong and is not looked at.
        let longest = 8 + 4 * self.terms.contexts.count();
        match header.length {
            length if extended && announced && filter && length <= longest as u64 => {
                Behind::Filter(length as usize)
            }
            length if extended && announced => Behind::Payload(length),
            length if header.command == command::WRITE => Behind::Payload(length),
            _ => Behind::Nothing,
        }
    }

    /// The request behind `header`, or why it is refused. DISC is not a request and never comes here, nor
    /// does a request behind which a filter follows.
    pub(super) fn judge(&self, header: RequestHeader) -> Result<Request, Refusal> {
        let kind = self.command(header.command)?;
        self.flags(kind, header.flags)?;
        if kind == Command::BlockStatus && self.terms.contexts.is_empty() {
            return refuse(ErrorCode::Invalid, "no metadata context was chosen for this export");
        }
        self.request(kind, &header, header.length, self.terms.contexts)
    }

    /// The block status behind `header` about the contexts that `filter` names, or why it is refused.
    pub(super) fn judge_filtered(
        &self,
        header: RequestHeader,
        filter: &[u8],
    ) -> Result<Request, Refusal> {
        let kind = self.command(header.command)?;
        self.flags(kind, header.flags & !command_flag::PAYLOAD_LEN)?;
        let mut cursor = Cursor::new(filter);
        let Some(length) = cursor.u64() else {
            return refuse(ErrorCode::Invalid, "a payload too short for a length");
        };
        let mut contexts = Contexts::NONE;
        while !cursor.rest().is_empty() {
            let named = cursor.u32().and_then(meta::of_id);
            match named.filter(|context| self.terms.contexts.has(*context)) {
                Some(context) if !contexts.has(context) => contexts = contexts.with(context),
                Some(_) => return refuse(ErrorCode::Invalid, "a context named twice"),
                None => return refuse(ErrorCode::Invalid, "a context that was not chosen"),
            }
        }
        if contexts.is_empty() {
            return refuse(ErrorCode::Invalid, "a payload that names no context");
        }
        self.request(kind, &header, length, contexts)
    }

    /// The request, where its place is right.
    fn request(
        &self,
        kind: Command,
        header: &RequestHeader,
        length: u64,
        contexts: Contexts,
    ) -> Result<Request, Refusal> {
        let extent = Extent::new(header.offset, length);
        match kind {
            Command::Flush if header.offset == 0 && length == 0 => {}
            Command::Flush => {
                return refuse(ErrorCode::Invalid, "a flush has no offset and no length");
            }
            _ => self.place(kind, extent)?,
        }
        let set = |flag: u16| header.flags & flag != 0;
        let fast = set(command_flag::FAST_ZERO);
        if fast && !self.fast_zero {
            return refuse(ErrorCode::NotSupported, "zeroes are not faster than data");
        }
        let changes = matches!(kind, Command::Write | Command::Trim | Command::WriteZeroes);
        let told = kind == Command::BlockStatus;
        Ok(Request {
            cookie: header.cookie,
            command: kind,
            fua: changes && set(command_flag::FUA),
            no_hole: set(command_flag::NO_HOLE),
            fast,
            // Each means something with one command only, and was refused with any other.
            one: set(command_flag::DF | command_flag::REQ_ONE),
            contexts: if told { contexts } else { Contexts::NONE },
            extent,
        })
    }

    /// The command, where it is known, offered and permitted.
    fn command(&self, number: u16) -> Result<Command, Refusal> {
        let kind = match number {
            command::READ => return Ok(Command::Read),
            command::FLUSH => return Ok(Command::Flush),
            command::CACHE => return Ok(Command::Cache),
            command::BLOCK_STATUS => return Ok(Command::BlockStatus),
            command::WRITE => Command::Write,
            command::TRIM => Command::Trim,
            command::WRITE_ZEROES => Command::WriteZeroes,
            command::RESIZE => {
                let message = "a volume cannot be resized by clients";
                return refuse(ErrorCode::Invalid, message);
            }
            _ => return refuse(ErrorCode::Invalid, "unknown command"),
        };
        if self.flags.has(TransmissionFlags::READ_ONLY) {
            return refuse(ErrorCode::Permission, "the export is read-only");
        }
        if kind == Command::Trim && !self.flags.has(TransmissionFlags::SEND_TRIM) {
            return refuse(ErrorCode::Invalid, "trim is not offered for this export");
        }
        Ok(kind)
    }

    /// Whether each flag means something with this command. FUA is allowed everywhere, since existing
    /// clients set it everywhere.
    fn flags(&self, kind: Command, flags: u16) -> Result<(), Refusal> {
        let extended = self.terms.form == Form::Extended;
        let known = command_flag::FUA
            | match kind {
                Command::Write if extended => command_flag::PAYLOAD_LEN,
                Command::WriteZeroes => command_flag::NO_HOLE | command_flag::FAST_ZERO,
                Command::BlockStatus => command_flag::REQ_ONE,
                Command::Read if self.flags.has(TransmissionFlags::SEND_DF) => command_flag::DF,
                _ => 0,
            };
        if flags & !known != 0 {
            return refuse(ErrorCode::Invalid, "a flag that is not valid with this command");
        }
        Ok(())
    }

    /// Whether the extent is one this command may touch.
    fn place(&self, kind: Command, extent: Extent) -> Result<(), Refusal> {
        if extent.length == 0 {
            return refuse(ErrorCode::Invalid, "a request of zero bytes");
        }
        if extent.length > u64::from(MAX_PAYLOAD) {
            match kind {
                Command::Read => return refuse(ErrorCode::Overflow, "a read of more than 32 MiB"),
                Command::Write => return refuse(ErrorCode::Invalid, "a write of more than 32 MiB"),
                Command::Trim | Command::WriteZeroes if extent.length > self.longest_effect.0 => {
                    return refuse(ErrorCode::Overflow, "too long for one request");
                }
                _ => {}
            }
        }
        let block = u64::from(self.minimum_block);
        if !extent.offset.is_multiple_of(block) || !extent.length.is_multiple_of(block) {
            return refuse(ErrorCode::Invalid, "not a multiple of the export's minimum block");
        }
        // By subtraction, since the sum may not fit.
        if extent.length > self.size.saturating_sub(Bytes(extent.offset)).0 {
            let code = match kind {
                Command::Write | Command::WriteZeroes => ErrorCode::NoSpace,
                _ => ErrorCode::Invalid,
            };
            return refuse(code, "exceeds the end of the export");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Cookie;

    fn export() -> ExportInfo {
        ExportInfo {
            name: "db/data".into(),
            description: String::new(),
            size: Bytes::mib(64),
            read_only: false,
            volatile: false,
            trim: true,
            fast_zero: true,
            longest_effect: Bytes(u64::MAX),
            contexts: Contexts::ALL,
            minimum_block: 512,
            preferred_block: 4096,
            handle: 1,
        }
    }

    fn asked(command: u16, flags: u16, offset: u64, length: u32) -> RequestHeader {
        RequestHeader { flags, command, cookie: Cookie(9), offset, length: length.into() }
    }

    const CHUNKS: Terms = Terms { form: Form::Structured, contexts: Contexts::NONE };
    const EVERYTHING: Terms = Terms { form: Form::Extended, contexts: Contexts::ALL };

    fn code(export: &ExportInfo, header: RequestHeader) -> Option<ErrorCode> {
        Bounds::new(export, CHUNKS).judge(header).err().map(|refusal| refusal.code)
    }

    #[test]
    fn honest_requests_pass_with_their_flags() {
        let bounds = Bounds::new(&export(), CHUNKS);
        let zeroes =
            asked(command::WRITE_ZEROES, command_flag::FUA | command_flag::NO_HOLE, 512, 512);
        let request = bounds.judge(zeroes).unwrap();
        assert!(request.fua && request.no_hole);
        assert_eq!(request.extent, Extent::new(512, 512));
        // FUA on a read is allowed and means nothing.
        let read = asked(command::READ, command_flag::FUA | command_flag::DF, 0, 512);
        assert!(!bounds.judge(read).unwrap().fua);
        assert!(bounds.judge(asked(command::FLUSH, 0, 0, 0)).is_ok());
    }

    #[test]
    fn places_off_the_export_are_refused_by_the_books() {
        let end = 64 << 20;
        for (command, wanted) in [
            (command::READ, ErrorCode::Invalid),
            (command::TRIM, ErrorCode::Invalid),
            (command::WRITE, ErrorCode::NoSpace),
            (command::WRITE_ZEROES, ErrorCode::NoSpace),
        ] {
            assert_eq!(code(&export(), asked(command, 0, end - 512, 512)), None);
            assert_eq!(code(&export(), asked(command, 0, end - 512, 1024)), Some(wanted));
            assert_eq!(code(&export(), asked(command, 0, u64::MAX - 511, 512)), Some(wanted));
            assert_eq!(code(&export(), asked(command, 0, 0, 0)), Some(ErrorCode::Invalid));
            assert_eq!(code(&export(), asked(command, 0, 1, 512)), Some(ErrorCode::Invalid));
            assert_eq!(code(&export(), asked(command, 0, 0, 513)), Some(ErrorCode::Invalid));
        }
        assert_eq!(code(&export(), asked(command::FLUSH, 0, 0, 512)), Some(ErrorCode::Invalid));
    }

    #[test]
    fn only_payloads_have_a_longest_length() {
        let export = ExportInfo { size: Bytes::gib(8), ..export() };
        let long = MAX_PAYLOAD + 512;
        assert_eq!(code(&export, asked(command::READ, 0, 0, long)), Some(ErrorCode::Overflow));
        assert_eq!(code(&export, asked(command::WRITE, 0, 0, long)), Some(ErrorCode::Invalid));
        assert_eq!(code(&export, asked(command::TRIM, 0, 0, u32::MAX - 511)), None);
        assert_eq!(code(&export, asked(command::WRITE_ZEROES, 0, 0, u32::MAX - 511)), None);
        assert_eq!(code(&export, asked(command::READ, 0, 0, MAX_PAYLOAD)), None);
    }

    #[test]
    fn a_read_only_export_refuses_every_change_first() {
        let frozen = ExportInfo { read_only: true, ..export() };
        for command in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
            assert_eq!(code(&frozen, asked(command, 0, 1, 0)), Some(ErrorCode::Permission));
        }
        assert_eq!(code(&frozen, asked(command::READ, 0, 0, 512)), None);
        assert_eq!(code(&frozen, asked(command::FLUSH, 0, 0, 0)), None);
    }

    #[test]
    fn what_was_not_offered_is_invalid() {
        let invalid = Some(ErrorCode::Invalid);
        assert_eq!(code(&export(), asked(command::WRITE, command_flag::NO_HOLE, 0, 512)), invalid);
        for number in [command::RESIZE, 9, 4711] {
            assert_eq!(code(&export(), asked(number, 0, 0, 512)), invalid);
        }
        let untrimmed = ExportInfo { trim: false, ..export() };
        assert_eq!(code(&untrimmed, asked(command::TRIM, 0, 0, 512)), invalid);
        let simple = Bounds::new(&export(), Terms::default());
        assert!(simple.judge(asked(command::READ, command_flag::DF, 0, 512)).is_err());
    }

    /// Each command and the flags it may carry besides FUA, if headers are extended.
    const FLAGS: [(u16, u16); 7] = [
        (command::READ, command_flag::DF),
        (command::WRITE, command_flag::PAYLOAD_LEN),
        (command::FLUSH, 0),
        (command::TRIM, 0),
        (command::CACHE, 0),
        (command::WRITE_ZEROES, command_flag::NO_HOLE | command_flag::FAST_ZERO),
        (command::BLOCK_STATUS, command_flag::REQ_ONE),
    ];

    #[test]
    fn each_command_takes_its_own_flags_and_no_others() {
        let bounds = Bounds::new(&export(), EVERYTHING);
        for (command, own) in FLAGS {
            let length = if command == command::FLUSH { 0 } else { 512 };
            for flag in (0..16).map(|bit| 1 << bit) {
                let allowed = flag & (own | command_flag::FUA) != 0;
                let header = asked(command, flag, 0, length);
                assert_eq!(bounds.judge(header).is_ok(), allowed, "command {command}, flag {flag}");
            }
        }
    }

    #[test]
    fn flags_reach_the_caller_where_they_mean_something() {
        let bounds = Bounds::new(&export(), EVERYTHING);
        let judge = |command, flags| bounds.judge(asked(command, flags, 0, 512)).unwrap();
        assert!(judge(command::READ, command_flag::DF).one);
        assert!(judge(command::BLOCK_STATUS, command_flag::REQ_ONE).one);
        assert!(judge(command::WRITE_ZEROES, command_flag::FAST_ZERO).fast);
        assert!(!judge(command::READ, 0).one && !judge(command::WRITE_ZEROES, 0).fast);
        assert_eq!(judge(command::BLOCK_STATUS, 0).contexts, Contexts::ALL);
        assert_eq!(judge(command::READ, 0).contexts, Contexts::NONE);
    }

    #[test]
    fn zeroes_that_are_not_fast_are_refused_only_to_those_who_insist() {
        let slow = ExportInfo { fast_zero: false, ..export() };
        let fast = asked(command::WRITE_ZEROES, command_flag::FAST_ZERO, 0, 512);
        assert_eq!(code(&slow, fast), Some(ErrorCode::NotSupported));
        assert_eq!(code(&export(), fast), None);
        assert_eq!(code(&slow, asked(command::WRITE_ZEROES, 0, 0, 512)), None);
    }

    #[test]
    fn a_status_needs_a_context() {
        let status = asked(command::BLOCK_STATUS, 0, 0, 512);
        assert_eq!(code(&export(), status), Some(ErrorCode::Invalid));
        let marks = Contexts::NONE.with(crate::Context::Marks);
        let bounds = Bounds::new(&export(), Terms { contexts: marks, ..CHUNKS });
        assert_eq!(bounds.judge(status).unwrap().contexts, marks);
    }

    #[test]
    fn effects_may_be_longer_than_32_bits_where_lengths_are_longer() {
        let export = ExportInfo { size: Bytes::gib(16), ..export() };
        let bounds = Bounds::new(&export, EVERYTHING);
        for (command, _) in FLAGS {
            let header = RequestHeader { length: 9 << 30, ..asked(command, 0, 0, 0) };
            let effect = !matches!(command, command::READ | command::WRITE | command::FLUSH);
            assert_eq!(bounds.judge(header).is_ok(), effect, "command {command}");
        }
    }

    #[test]
    fn effects_have_the_bound_the_export_sets() {
        let size = Bytes::gib(16);
        let export = ExportInfo { size, longest_effect: Bytes::gib(4), ..export() };
        let bounds = Bounds::new(&export, EVERYTHING);
        let code = |command, length| {
            let header = RequestHeader { length, ..asked(command, 0, 0, 0) };
            bounds.judge(header).err().map(|refusal| refusal.code)
        };
        for command in [command::TRIM, command::WRITE_ZEROES] {
            assert_eq!(code(command, 4 << 30), None);
            assert_eq!(code(command, (4 << 30) + 512), Some(ErrorCode::Overflow));
        }
        // These are hints, whatever their length.
        for command in [command::CACHE, command::BLOCK_STATUS] {
            assert_eq!(code(command, 16 << 30), None);
        }
    }

    #[test]
    fn what_follows_a_header_is_known_before_it_is_judged() {
        let (flag, write) = (command_flag::PAYLOAD_LEN, command::WRITE);
        let (compact, extended) =
            (Bounds::new(&export(), CHUNKS), Bounds::new(&export(), EVERYTHING));
        let status = command::BLOCK_STATUS;
        for (bounds, command, flags, length, behind) in [
            (compact, write, 0, 512, Behind::Payload(512)),
            (compact, write, flag, 512, Behind::Payload(512)),
            (compact, command::TRIM, flag, 512, Behind::Nothing),
            (extended, write, 0, 512, Behind::Payload(512)),
            (extended, write, flag, 512, Behind::Payload(512)),
            (extended, command::TRIM, flag, 512, Behind::Payload(512)),
            (extended, 4711, flag, 512, Behind::Payload(512)),
            (extended, status, 0, 512, Behind::Nothing),
            (extended, status, flag, 12, Behind::Filter(12)),
            (extended, status, flag, 20, Behind::Filter(20)),
            (extended, status, flag, 21, Behind::Payload(21)),
        ] {
            assert_eq!(bounds.behind(&asked(command, flags, 0, length)), behind);
        }
        let chosen_none = Bounds::new(&export(), Terms { contexts: Contexts::NONE, ..EVERYTHING });
        assert_eq!(chosen_none.behind(&asked(status, flag, 0, 12)), Behind::Payload(12));
    }

    #[test]
    fn a_filter_names_chosen_contexts_once_each() {
        let marks = Contexts::NONE.with(crate::Context::Marks);
        let judge = |contexts, numbers: &[u32]| {
            let filter = [
                512_u64.to_be_bytes().to_vec(),
                numbers.iter().flat_map(|number| number.to_be_bytes()).collect(),
            ];
            let bounds = Bounds::new(&export(), Terms { contexts, ..EVERYTHING });
            let header = asked(command::BLOCK_STATUS, command_flag::PAYLOAD_LEN, 4096, 12);
            bounds.judge_filtered(header, &filter.concat())
        };
        let request = judge(Contexts::ALL, &[2]).unwrap();
        assert_eq!((request.contexts, request.extent), (marks, Extent::new(4096, 512)));
        assert_eq!(judge(Contexts::ALL, &[2, 3, 1]).unwrap().contexts, Contexts::ALL);
        for (contexts, numbers) in [
            (Contexts::ALL, &[][..]),
            (Contexts::ALL, &[2, 2]),
            (Contexts::ALL, &[4]),
            (marks, &[1]),
        ] {
            assert_eq!(judge(contexts, numbers).unwrap_err().code, ErrorCode::Invalid);
        }
        let bounds = Bounds::new(&export(), EVERYTHING);
        let header = asked(command::BLOCK_STATUS, command_flag::PAYLOAD_LEN, 0, 7);
        assert!(bounds.judge_filtered(header, &[0; 7]).is_err());
        assert!(bounds.judge_filtered(header, &[0; 10]).is_err());
    }

    #[test]
    fn a_grown_export_is_judged_by_its_new_size() {
        let mut bounds = Bounds::new(&export(), CHUNKS);
        let behind = asked(command::WRITE, 0, 64 << 20, 512);
        assert_eq!(bounds.judge(behind).unwrap_err().code, ErrorCode::NoSpace);
        bounds.resized(Bytes::mib(65));
        assert!(bounds.judge(behind).is_ok());
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Which requests are served. The one place that decides it: whoever gets a [`Request`] need not check
//! it again.

use crate::codec::{ErrorCode, RequestHeader, TransmissionFlags, command, command_flag};
use crate::server::limits::MAX_PAYLOAD;
use crate::server::{Command, ExportInfo, Request};
use helio_units::{Bytes, Extent};

/// What there is to know about the export in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    size: Bytes,
    minimum_block: u32,
    flags: TransmissionFlags,
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
    pub(super) const fn new(export: &ExportInfo, structured: bool) -> Self {
        Self {
            size: export.size,
            minimum_block: export.minimum_block,
            flags: export.flags(structured),
        }
    }

    /// The request behind `header`, or why it is refused. DISC is not a request and never comes here.
    pub(super) fn judge(&self, header: RequestHeader) -> Result<Request, Refusal> {
        let kind = self.command(header.command)?;
        self.flags(kind, header.flags)?;
        let extent = Extent::new(header.offset, u64::from(header.length));
        match kind {
            Command::Flush if header.offset == 0 && header.length == 0 => {}
            Command::Flush => {
                return refuse(ErrorCode::Invalid, "a flush has no offset and no length");
            }
            _ => self.place(kind, extent)?,
        }
        let changes = matches!(kind, Command::Write | Command::Trim | Command::WriteZeroes);
        Ok(Request {
            cookie: header.cookie,
            command: kind,
            fua: changes && header.flags & command_flag::FUA != 0,
            no_hole: header.flags & command_flag::NO_HOLE != 0,
            extent,
        })
    }

    /// The command, where it is known, offered and permitted.
    fn command(&self, number: u16) -> Result<Command, Refusal> {
        let kind = match number {
            command::READ => return Ok(Command::Read),
            command::FLUSH => return Ok(Command::Flush),
            command::WRITE => Command::Write,
            command::TRIM => Command::Trim,
            command::WRITE_ZEROES => Command::WriteZeroes,
            _ => return refuse(ErrorCode::Invalid, "no such command here"),
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
        let known = command_flag::FUA
            | match kind {
                Command::WriteZeroes => command_flag::NO_HOLE,
                Command::Read if self.flags.has(TransmissionFlags::SEND_DF) => command_flag::DF,
                _ => 0,
            };
        if flags & !known != 0 {
            return refuse(ErrorCode::Invalid, "a flag that means nothing with this command");
        }
        Ok(())
    }

    /// Whether the extent is one this command may touch.
    fn place(&self, kind: Command, extent: Extent) -> Result<(), Refusal> {
        if extent.length == 0 {
            return refuse(ErrorCode::Invalid, "a request of no bytes");
        }
        if extent.length > u64::from(MAX_PAYLOAD) {
            match kind {
                Command::Read => return refuse(ErrorCode::Overflow, "a read of more than 32 MiB"),
                Command::Write => return refuse(ErrorCode::Invalid, "a write of more than 32 MiB"),
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
            return refuse(code, "reaches beyond the end of the export");
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
            trim: true,
            minimum_block: 512,
            preferred_block: 4096,
            handle: 1,
        }
    }

    fn asked(command: u16, flags: u16, offset: u64, length: u32) -> RequestHeader {
        RequestHeader { flags, command, cookie: Cookie(9), offset, length }
    }

    fn code(export: &ExportInfo, header: RequestHeader) -> Option<ErrorCode> {
        Bounds::new(export, true).judge(header).err().map(|refusal| refusal.code)
    }

    #[test]
    fn honest_requests_pass_with_their_flags() {
        let bounds = Bounds::new(&export(), true);
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
        let fast_zero = 1 << 4;
        assert_eq!(code(&export(), asked(command::WRITE_ZEROES, fast_zero, 0, 512)), invalid);
        assert_eq!(code(&export(), asked(command::WRITE, command_flag::NO_HOLE, 0, 512)), invalid);
        assert_eq!(code(&export(), asked(5, 0, 0, 512)), invalid);
        let untrimmed = ExportInfo { trim: false, ..export() };
        assert_eq!(code(&untrimmed, asked(command::TRIM, 0, 0, 512)), invalid);
        let simple = Bounds::new(&export(), false);
        assert!(simple.judge(asked(command::READ, command_flag::DF, 0, 512)).is_err());
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What the server's owner says about its exports.

use crate::codec::{Contexts, Form, TransmissionFlags, bounded};
use crate::server::limits::{MAX_NAME, MAX_PAYLOAD};
use helio_units::Bytes;
use std::borrow::Cow;

/// One export as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInfo {
    /// The name clients ask for: `GROUP/VOLUME`.
    pub name: String,
    /// A line for people; may be empty.
    pub description: String,
    /// The volume's size.
    pub size: Bytes,
    /// Whether every change is refused.
    pub read_only: bool,
    /// Whether the contents may change although every change is refused here: the copy of a volume that is
    /// written elsewhere. Only together with `read_only`. Clients are told in the description, and are
    /// not promised that several connections see the same.
    pub volatile: bool,
    /// Whether TRIM is offered: only where trimmed bytes read as zero on every copy.
    pub trim: bool,
    /// Whether zeroes may be faster than data. A client that wants only fast zeroes is refused at once
    /// where this is false.
    pub fast_zero: bool,
    /// Longest TRIM or WRITE_ZEROES that is served in one request. Extended headers allow any length, and
    /// one short request must not ask for more work than can be held. A longer one is refused
    /// (EOVERFLOW, as the protocol has it), and the client cuts it.
    pub longest_effect: Bytes,
    /// What a client may ask about stretches of it. The same for as long as clients are connected.
    pub contexts: Contexts,
    /// Smallest unit of a request, in bytes: a power of two up to 65,536.
    pub minimum_block: u32,
    /// The unit requests are fastest in, in bytes: a power of two, at least 512 and the minimum.
    pub preferred_block: u32,
    /// Means nothing here; comes back in [`Step::Ready`](crate::Step::Ready).
    pub handle: u64,
}

impl ExportInfo {
    /// What breaks the rules clients are promised, if anything.
    pub(super) const fn fault(&self) -> Option<&'static str> {
        if self.name.len() > MAX_NAME {
            return Some("its name is longer than 4096 bytes");
        }
        if self.volatile && !self.read_only {
            return Some("it changes elsewhere, but could be written here too");
        }
        if self.longest_effect.0 < MAX_PAYLOAD as u64 {
            return Some("its longest effect is less than 32 MiB");
        }
        let (minimum, preferred) = (self.minimum_block, self.preferred_block);
        if !minimum.is_power_of_two() || minimum > 1 << 16 {
            return Some("its minimum block is not a power of two up to 65536");
        }
        if !preferred.is_power_of_two()
            || preferred < minimum
            || preferred < 512
            || preferred > MAX_PAYLOAD
        {
            return Some(
                "its preferred block is not a power of two between its minimum (or 512) and 32 MiB",
            );
        }
        None
    }

    /// The flags the client is told under these terms.
    pub(super) const fn flags(&self, terms: Terms) -> TransmissionFlags {
        type F = TransmissionFlags;
        let chunks = !matches!(terms.form, Form::Simple);
        let extended = matches!(terms.form, Form::Extended);
        // Every connection of an export reaches one engine, and a flush is an item on its line: that
        // is what CAN_MULTI_CONN promises. What changes elsewhere is in nobody's line here.
        F::HAS_FLAGS
            .with(F::SEND_FLUSH)
            .with(F::SEND_FUA)
            .with(F::SEND_CACHE)
            .with_if(!self.volatile, F::CAN_MULTI_CONN)
            .with_if(chunks, F::SEND_DF)
            .with_if(extended && !terms.contexts.is_empty(), F::BLOCK_STATUS_PAYLOAD)
            .with_if(self.read_only, F::READ_ONLY)
            .with_if(!self.read_only, F::SEND_WRITE_ZEROES)
            // Also where it will be refused: a quick refusal is the service.
            .with_if(!self.read_only, F::SEND_FAST_ZERO)
            .with_if(!self.read_only && self.trim, F::SEND_TRIM)
    }

    /// The description clients see.
    pub(super) fn told(&self) -> Cow<'_, str> {
        const VOLATILE: &str = "read-only, changes as the primary writes";
        match (self.volatile, self.description.as_str()) {
            (false, description) => Cow::Borrowed(bounded(description)),
            (true, "") => Cow::Borrowed(VOLATILE),
            (true, description) => {
                let told = format!("{VOLATILE}: {description}");
                Cow::Owned(bounded(&told).into())
            }
        }
    }
}

/// What client and server agreed on for one export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) form: Form,
    /// Empty where replies are simple.
    pub(super) contexts: Contexts,
}

/// Why an export is not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenRefusal {
    /// There is none of that name.
    Unknown,
    /// There is, but not for this client or not now; the text is sent to it.
    Policy(String),
}

/// The exports a connection may choose from.
pub trait Exports {
    /// Calls `each` with every export that may be seen.
    fn list(&self, each: &mut dyn FnMut(&ExportInfo));

    /// The export of that name; the empty name asks for the default one.
    ///
    /// Also asked when a client only wants a description, so nothing may be reserved here: an export
    /// is in use from [`Step::Ready`](crate::Step::Ready) on.
    ///
    /// # Errors
    /// Says why not.
    fn open(&self, name: &str) -> Result<ExportInfo, OpenRefusal>;
}

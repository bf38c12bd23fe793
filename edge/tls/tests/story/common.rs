// SPDX-License-Identifier: Apache-2.0
//! Two ends and the wire between them.

use helio_driver::Linux;
use helio_tls::{NodeKey, Session, TlsError};

/// Room for plain bytes of one call; smaller than a record, so that records are cut.
const ROOM: usize = 5000;

/// A key of its own file.
pub(crate) fn key() -> NodeKey {
    let folder = tempfile::tempdir().expect("a folder");
    NodeKey::create(&Linux::host(), &folder.path().join("node.key")).expect("a key")
}

/// One end, with what it has heard.
pub(crate) struct End {
    pub(crate) session: Session,
    pub(crate) heard: Vec<u8>,
    pub(crate) failed: Option<TlsError>,
}

impl End {
    pub(crate) fn new(session: Session) -> Self {
        Self { session, heard: Vec::new(), failed: None }
    }

    /// Takes bytes from the wire, all of them unless it fails.
    pub(crate) fn hear(&mut self, mut wire: &[u8]) {
        let mut room = [0; ROOM];
        loop {
            match self.session.open(wire, &mut room) {
                Ok(did) => {
                    self.heard.extend_from_slice(&room[..did.written]);
                    wire = &wire[did.used..];
                    if did.used == 0 && did.written == 0 {
                        return;
                    }
                }
                Err(error) => {
                    self.failed = Some(error);
                    return;
                }
            }
        }
    }

    pub(crate) fn say(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.session.take_output(&mut out);
        out
    }
}

/// Lets both speak until neither has anything left to say, `cut` bytes at a time.
pub(crate) fn talk(one: &mut End, other: &mut End, cut: usize) {
    loop {
        let (there, back) = (one.say(), other.say());
        if there.is_empty() && back.is_empty() {
            return;
        }
        there.chunks(cut).for_each(|bytes| other.hear(bytes));
        back.chunks(cut).for_each(|bytes| one.hear(bytes));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! A node's key pair, and the text its public half is known by.
//!
//! The text is `helio1:` and, in base64url without padding, 36 bytes:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 32 | the Ed25519 public key (RFC 8032) |
//! | 32 | 4 | CRC-32C of those 32 bytes, big-endian: a mistyped key is told from an unknown one |

use crate::files::{FileError, create_private, read_private};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine};
use crc_fast::{CrcAlgorithm, checksum};
use helio_driver::Host;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{SignatureAlgorithm, crypto::aws_lc_rs};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

const PREFIX: &str = "helio1:";
const KEY: usize = 32;
const CHECK: usize = 4;
/// PKCS #8 around an Ed25519 seed, up to the seed (RFC 8410, section 7).
const PKCS8_HEAD: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// SubjectPublicKeyInfo of an Ed25519 key, up to the key (RFC 8410, section 4).
const SPKI_HEAD: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The public half, by which others know a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey([u8; KEY]);

/// Why a text is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyTextError {
    /// It does not begin as one.
    #[error("a key starts with `{PREFIX}`; `helio key show` prints a node's")]
    Prefix,
    /// It has a character no key has, or not the length of one.
    #[error("wrong length, or invalid characters; copy the complete key")]
    Text,
    /// Its check digits do not match.
    #[error("mistyped: its check digits do not match; copy it once more")]
    Mistyped,
}

impl PublicKey {
    /// The key in a SubjectPublicKeyInfo, where that is an Ed25519 key's.
    pub(crate) fn from_spki(spki: &[u8]) -> Option<Self> {
        let key = spki.strip_prefix(&SPKI_HEAD)?;
        Some(Self(key.try_into().ok()?))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = [0; KEY + CHECK];
        bytes[..KEY].copy_from_slice(&self.0);
        bytes[KEY..].copy_from_slice(&check(&self.0));
        write!(f, "{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = KeyTextError;

    fn from_str(text: &str) -> Result<Self, KeyTextError> {
        let text = text.strip_prefix(PREFIX).ok_or(KeyTextError::Prefix)?;
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| KeyTextError::Text)?;
        let bytes: [u8; KEY + CHECK] = bytes.try_into().map_err(|_| KeyTextError::Text)?;
        let mut key = [0; KEY];
        key.copy_from_slice(&bytes[..KEY]);
        if bytes[KEY..] != check(&key) {
            return Err(KeyTextError::Mistyped);
        }
        Ok(Self(key))
    }
}

fn check(key: &[u8; KEY]) -> [u8; CHECK] {
    (checksum(CrcAlgorithm::Crc32Iscsi, key) as u32).to_be_bytes()
}

/// Both halves. Never printed.
#[derive(Clone)]
pub struct NodeKey {
    certified: Arc<CertifiedKey>,
    public: PublicKey,
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({})", self.public)
    }
}

impl NodeKey {
    /// Makes a key pair and keeps it in a new file that only its owner may read: PKCS #8 in PEM, as other tools read
    /// it too.
    ///
    /// # Errors
    /// The file exists or cannot be made.
    pub fn create(host: &Host, path: &Path) -> Result<Self, FileError> {
        let mut der = PKCS8_HEAD.to_vec();
        let seed: [u8; KEY] = host.random_bytes().map_err(|error| {
            FileError::new(path, format!("the kernel gave no random bytes: {error}"), "try again")
        })?;
        der.extend_from_slice(&seed);
        let key = Self::from_pkcs8(&der).ok_or_else(|| {
            FileError::new(path, "the key could not be created", "report this as a bug")
        })?;
        let body = BASE64_STANDARD.encode(&der);
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
        create_private(host, path, pem.as_bytes())?;
        Ok(key)
    }

    /// Reads the file back.
    ///
    /// # Errors
    /// It is not there, others may read it, or it holds no Ed25519 key.
    pub fn load(host: &Host, path: &Path) -> Result<Self, FileError> {
        let bytes = read_private(host, path)?;
        let key = PrivateKeyDer::from_pem_slice(&bytes).ok().and_then(|key| match key {
            PrivateKeyDer::Pkcs8(key) => Self::from_pkcs8(key.secret_pkcs8_der()),
            _ => None,
        });
        let hint = "create one with `helio key new`";
        key.ok_or_else(|| FileError::new(path, "not an Ed25519 key in PEM", hint))
    }

    fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let der = PrivatePkcs8KeyDer::from(der);
        let signing: Arc<dyn SigningKey> = aws_lc_rs::sign::any_eddsa_type(&der).ok()?;
        if signing.algorithm() != SignatureAlgorithm::ED25519 {
            return None;
        }
        let spki = signing.public_key()?.to_vec();
        let public = PublicKey::from_spki(&spki)?;
        let certified = CertifiedKey::new(vec![CertificateDer::from(spki)], signing);
        Some(Self { certified: Arc::new(certified), public })
    }

    /// The half others know.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_driver::Linux;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_the_same_after_its_file_and_only_its_owner_may_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("node.key");
        let key = NodeKey::create(&Linux::host(), &path).expect("made");
        let mode = path.metadata().expect("there").permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(NodeKey::load(&Linux::host(), &path).expect("read").public(), key.public());
        let again = NodeKey::create(&Linux::host(), &path).expect_err("it exists").to_string();
        assert!(again.contains("node.key") && again.contains("hint"), "{again}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("set");
        let open =
            NodeKey::load(&Linux::host(), &path).expect_err("readable by others").to_string();
        assert!(open.contains("chmod 600"), "{open}");
    }

    #[test]
    fn a_file_without_a_key_says_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("node.key");
        create_private(
            &Linux::host(),
            &path,
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        )
        .expect("made");
        assert!(
            NodeKey::load(&Linux::host(), &path)
                .expect_err("no key")
                .to_string()
                .contains("helio key new")
        );
        let none = NodeKey::load(&Linux::host(), &folder.path().join("none"))
            .expect_err("not there")
            .to_string();
        assert!(none.contains("none"), "{none}");
    }

    #[test]
    fn a_key_as_text_comes_back_and_a_mistyped_one_is_told() {
        let key = PublicKey([7; KEY]);
        let text = key.to_string();
        assert_eq!(text, "helio1:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfWZVYx");
        assert_eq!(text.parse(), Ok(key));
        assert_eq!("BwcH".parse::<PublicKey>(), Err(KeyTextError::Prefix));
        assert_eq!(text[..text.len() - 1].parse::<PublicKey>(), Err(KeyTextError::Text));
        for at in PREFIX.len()..text.len() {
            let other = if &text[at..=at] == "A" { "B" } else { "A" };
            let typo = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            assert!(typo.parse::<PublicKey>().is_err(), "{typo}");
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! NBD clients and servers, by certificate.

use crate::common::{End, talk};
use helio_driver::Linux;
use helio_tls::{NbdClientTls, NbdTls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// An authority, what it signed, and the files.
pub(crate) struct Office {
    folder: TempDir,
    ca: CertifiedIssuer<'static, KeyPair>,
}

impl Office {
    pub(crate) fn open() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut params = CertificateParams::new(Vec::new()).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let ca = CertifiedIssuer::self_signed(params, key).expect("signs itself");
        let office = Self { folder, ca };
        office.write("ca.pem", &office.ca.pem());
        office
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        use std::io::Write;
        let mut options = std::fs::OpenOptions::new();
        let file =
            options.write(true).create(true).truncate(true).mode(0o600).open(self.path(name));
        file.expect("opens").write_all(text.as_bytes()).expect("takes it");
    }

    /// Signs a certificate for `who`, good for so many days from now (or gone for so many).
    pub(crate) fn sign(&self, file: &str, who: &str, expired: bool) {
        let mut params = CertificateParams::new(vec![who.to_owned()]).expect("a name");
        if expired {
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.ca).expect("signs");
        self.write(&format!("{file}.pem"), &certificate.pem());
        self.write(&format!("{file}.key"), &key.serialize_pem());
    }

    pub(crate) fn server(&self, file: &str, client_ca: Option<&Path>) -> NbdTls {
        let (chain, key) = (self.path(&format!("{file}.pem")), self.path(&format!("{file}.key")));
        NbdTls::load(&Linux::host(), &chain, &key, client_ca).expect("a server")
    }

    fn client(&self, own: Option<&str>) -> NbdClientTls {
        let own = own.map(|f| (self.path(&format!("{f}.pem")), self.path(&format!("{f}.key"))));
        let own = own.as_ref().map(|(chain, key)| (&**chain, &**key));
        NbdClientTls::load(&Linux::host(), &self.path("ca.pem"), own).expect("a client")
    }
}

fn meet(client: &NbdClientTls, server: &NbdTls, name: &str) -> (End, End) {
    let mut here = End::new(client.connect(name).expect("a name"));
    let mut there = End::new(server.accept());
    talk(&mut here, &mut there, usize::MAX);
    (here, there)
}

#[test]
fn a_client_trusts_a_server_its_authority_signed_and_no_other() {
    let (office, other) = (Office::open(), Office::open());
    office.sign("server", "nbd.example", false);
    office.sign("old", "nbd.example", true);
    let client = office.client(None);
    let (mut here, mut there) = meet(&client, &office.server("server", None), "nbd.example");
    assert_eq!((&here.failed, &there.failed), (&None, &None));
    there.session.seal(b"NBDMAGIC");
    talk(&mut here, &mut there, 7);
    assert_eq!(here.heard, b"NBDMAGIC");
    let (here, _) = meet(&client, &office.server("server", None), "other.example");
    assert!(here.failed.is_some(), "another name");
    let (here, _) = meet(&client, &office.server("old", None), "nbd.example");
    assert!(here.failed.expect("expired").to_string().contains("xpired"));
    other.sign("server", "nbd.example", false);
    let (here, there) = meet(&client, &other.server("server", None), "nbd.example");
    assert!(here.failed.is_some() && there.failed.is_some(), "another authority");
}

#[test]
fn a_server_that_asks_for_certificates_lets_in_only_those_who_have_one() {
    let office = Office::open();
    office.sign("server", "nbd.example", false);
    office.sign("client", "somebody", false);
    let server = office.server("server", Some(&office.path("ca.pem")));
    let (_, there) = meet(&office.client(None), &server, "nbd.example");
    assert!(there.failed.is_some());
    let (here, there) = meet(&office.client(Some("client")), &server, "nbd.example");
    assert_eq!((here.failed, there.failed), (None, None));
}

#[test]
fn files_that_will_not_do_are_named() {
    let office = Office::open();
    office.sign("server", "nbd.example", false);
    office.sign("other", "nbd.example", false);
    let load = |chain: &str, key: &str| {
        let error = NbdTls::load(&Linux::host(), &office.path(chain), &office.path(key), None)
            .expect_err("refused");
        error.to_string()
    };
    assert!(load("none.pem", "server.key").contains("none.pem"));
    assert!(load("server.key", "server.key").contains("no certificate"));
    assert!(load("server.pem", "ca.pem").contains("ca.pem"));
    assert!(load("server.pem", "other.key").contains("own key"));
    let key = office.path("server.key");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .expect("set");
    assert!(load("server.pem", "server.key").contains("chmod 600"));
}

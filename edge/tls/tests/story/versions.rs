// SPDX-License-Identifier: Apache-2.0
//! Which versions and cipher suites each door serves.

use crate::certificates::Office;
use crate::common::key;
use helio_tls::{PeerTls, Purpose, Session};
use rustls::client::ClientConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS12;
use rustls::{ClientConnection, ProtocolVersion, RootCertStore, SupportedCipherSuite};
use std::sync::Arc;

/// A client that offers these suites of TLS 1.2 and nothing else.
fn client(office: &Office, suites: Vec<SupportedCipherSuite>) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(office.path("ca.pem")).expect("a certificate"))
        .expect("a root");
    let provider = CryptoProvider { cipher_suites: suites, ..aws_lc_rs::default_provider() };
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS12])
        .expect("the library has TLS 1.2")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("nbd.example").expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a session")
}

/// The handshake, until both ends are silent; the errors of the client and of the server.
fn shake(client: &mut ClientConnection, server: &mut Session) -> (Option<String>, Option<String>) {
    let mut failed = (None, None);
    loop {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        while client.wants_write() {
            client.write_tls(&mut there).expect("a vector takes all");
        }
        let mut rest = &there[..];
        while !rest.is_empty() && failed.1.is_none() {
            match server.open(rest, &mut [0; 4096]) {
                Ok(did) => rest = &rest[did.used..],
                Err(error) => failed.1 = Some(error.to_string()),
            }
        }
        server.take_output(&mut back);
        let mut wire = &back[..];
        while !wire.is_empty() && failed.0.is_none() {
            client.read_tls(&mut wire).expect("a slice can be read");
            failed.0 = client.process_new_packets().err().map(|error| error.to_string());
        }
        if there.is_empty() && back.is_empty() {
            return failed;
        }
    }
}

#[test]
fn the_nbd_door_serves_tls_1_2_with_ecdhe_and_aead_alone() {
    let office = Office::open();
    office.sign("server", "nbd.example", false);
    let server = office.server("server", None);
    let known = aws_lc_rs::default_provider().cipher_suites;
    let of_12: Vec<_> = known.into_iter().filter(|suite| suite.tls13().is_none()).collect();
    assert!(!of_12.is_empty());
    for suite in of_12 {
        let name = format!("{:?}", suite.suite());
        assert!(name.starts_with("TLS_ECDHE_"), "{name}");
        assert!(name.contains("_GCM_") || name.contains("_CHACHA20_POLY1305_"), "{name}");
        // The server's key is an ECDSA key.
        if name.contains("_ECDSA_") {
            let mut client = client(&office, vec![suite]);
            assert_eq!(shake(&mut client, &mut server.accept()), (None, None), "{name}");
            assert_eq!(client.protocol_version(), Some(ProtocolVersion::TLSv1_2));
        }
    }
}

#[test]
fn links_and_the_control_door_speak_tls_1_3_alone() {
    let office = Office::open();
    let node = PeerTls::new(key());
    for purpose in [Purpose::Peer, Purpose::Control] {
        let mut client = client(&office, aws_lc_rs::default_provider().cipher_suites);
        let (_, refused) = shake(&mut client, &mut node.accept(&[key().public()], purpose));
        let refused = refused.expect("TLS 1.2 is refused");
        assert!(refused.contains("does not support TLS 1.3"), "{purpose:?}: {refused}");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! TLS on the TCP port, by certificates made here.

use crate::raw::Raw;
use crate::stage::{amend, check, over_tcp, prepared, socket, start, tell};
use helio_nbd::codec::{OptionHeader, client_flag, option, reply};
use helio_testkit::{Pair, TempDir, require};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// An authority and a folder with what it signed, under the names libnbd and QEMU look for.
struct Office {
    folder: PathBuf,
    ca: CertifiedIssuer<'static, KeyPair>,
}

impl Office {
    fn open(scratch: &TempDir, name: &str) -> Self {
        let folder = scratch.join(name);
        std::fs::create_dir(&folder).expect("a folder");
        let mut params = CertificateParams::new(Vec::new()).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let ca = CertifiedIssuer::self_signed(params, key).expect("signs itself");
        write(&folder.join("ca-cert.pem"), &ca.pem());
        Self { folder, ca }
    }

    /// Signs a certificate of a kind, `server` or `client`, and files it in a folder.
    fn sign(&self, folder: &Path, kind: &str) {
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut params = CertificateParams::new(names).expect("names");
        // OpenSSL takes a certificate with the name of its authority for the authority's own.
        params.distinguished_name.push(DnType::CommonName, kind);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.ca).expect("signs");
        write(&folder.join(format!("{kind}-cert.pem")), &certificate.pem());
        write(&folder.join(format!("{kind}-key.pem")), &key.serialize_pem());
    }
}

fn write(path: &Path, text: &str) {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.expect("opens").write_all(text.as_bytes()).expect("takes it");
}

/// A pair whose paris asks for TLS, and its authority; `extra` goes into the table.
fn secured(extra: &str) -> (Pair, SocketAddr, Office) {
    let pair = prepared();
    let address = over_tcp(&pair);
    let office = Office::open(pair.scratch(), "good");
    office.sign(&office.folder, "server");
    office.sign(&office.folder, "client");
    let folder = office.folder.display();
    let table = format!(
        "[node.paris.tls]\ncertificate = \"{folder}/server-cert.pem\"\nkey = \"{folder}/server-key.pem\"\n{}\n[group.db]\n",
        extra.replace("FOLDER", &folder.to_string())
    );
    amend(&pair, "[group.db]\n", &table);
    (start(pair), address, office)
}

/// The certificates of a client without one of its own.
fn without_certificate(pair: &Pair, office: &Office) -> PathBuf {
    let folder = pair.scratch().join("bare");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::copy(office.folder.join("ca-cert.pem"), folder.join("ca-cert.pem")).expect("copies");
    folder
}

fn uri(address: SocketAddr, certificates: &Path) -> String {
    format!("nbds://{address}/db/data?tls-certificates={}", certificates.display())
}

#[test]
fn nbdinfo_nbdcopy_and_qemu_img_work_under_tls() {
    require!("nbdinfo", "nbdcopy", "qemu-img");
    let (pair, address, office) = secured("client-ca = \"FOLDER/ca-cert.pem\"");
    let uri = uri(address, &office.folder);
    let said = tell("nbdinfo", &["--json", &uri]).json();
    assert_eq!((&said["TLS"], &said["structured"]), (&true.into(), &true.into()), "{said}");
    let source = pair.scratch().join("source.img");
    let data: Vec<u8> = (0..8_u32 << 20).map(|n| (n ^ n >> 9) as u8).collect();
    std::fs::write(&source, &data).expect("a file");
    tell("nbdcopy", &["--flush", &source.to_string_lossy(), &uri]).expect_success();
    let credentials = format!(
        "tls-creds-x509,id=t,endpoint=client,dir={},verify-peer=on",
        office.folder.display()
    );
    let (host, port) = (address.ip(), address.port());
    let image = format!("driver=nbd,host={host},port={port},export=db/data,tls-creds=t");
    let back = pair.scratch().join("back.img");
    let arguments = ["convert", "--object", &credentials, "--image-opts", &image, "-O", "raw"];
    tell("qemu-img", &[&arguments[..], &[&back.to_string_lossy()]].concat()).expect_success();
    let read = std::fs::read(&back).expect("it was written");
    assert!(read[..data.len()] == data && read[data.len()..].iter().all(|byte| *byte == 0));
}

#[test]
fn required_tls_refuses_plain_clients_and_says_why() {
    require!("qemu-img", "nbdinfo");
    let (pair, address, _) = secured("client-ca = \"FOLDER/ca-cert.pem\"");
    let plain = format!("nbd://{address}/db/data");
    let said = tell("qemu-img", &["info", "-f", "raw", &plain]).expect_failure();
    assert!(said.contains("requires TLS"), "{said}");
    tell("nbdinfo", &[&plain]).expect_failure();
    // On the Unix socket TLS is not offered, and not needed.
    let mut raw = Raw::unix(&socket(&pair, "paris")).greet_well();
    let said = raw.option(option::STARTTLS, &[]);
    assert_eq!(said.kind, reply::ERR_POLICY, "{}", said.text());
    tell("nbdinfo", &[&pair.export("paris", "data")]).expect_success();
}

#[test]
fn offered_tls_serves_both_kinds_of_client() {
    require!("nbdinfo");
    let (_pair, address, office) = secured("required = false");
    for (uri, tls) in
        [(format!("nbd://{address}/db/data"), false), (uri(address, &office.folder), true)]
    {
        assert_eq!(tell("nbdinfo", &["--json", &uri]).json()["TLS"], tls);
    }
}

#[test]
fn clients_without_a_certificate_or_of_another_authority_are_refused() {
    require!("nbdinfo");
    let (mut pair, address, office) = secured("client-ca = \"FOLDER/ca-cert.pem\"");
    let bare = without_certificate(&pair, &office);
    tell("nbdinfo", &[&uri(address, &bare)]).expect_failure();
    let other = Office::open(pair.scratch(), "other");
    // It trusts the server, and its own certificate is of somebody else.
    let mixed = pair.scratch().join("mixed");
    std::fs::create_dir(&mixed).expect("a folder");
    std::fs::copy(office.folder.join("ca-cert.pem"), mixed.join("ca-cert.pem")).expect("copies");
    other.sign(&mixed, "client");
    tell("nbdinfo", &[&uri(address, &mixed)]).expect_failure();
    // It does not trust the server.
    other.sign(&other.folder, "client");
    let said = tell("nbdinfo", &[&uri(address, &other.folder)]).expect_failure();
    assert!(said.contains("not trusted") || said.contains("verif"), "{said}");
    tell("nbdinfo", &[&uri(address, &office.folder)]).expect_success();
    let log = pair.daemon("paris").log();
    for reason in ["the client showed no certificate", "the other end's certificate"] {
        assert!(log.contains(reason), "{reason:?} is not in {log}");
    }
}

#[test]
fn a_client_of_tls_1_2_is_served_with_ecdhe_and_aead_alone() {
    require!("python3-libnbd");
    let (mut pair, address, office) = secured("client-ca = \"FOLDER/ca-cert.pem\"");
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    check(&pair, &["tls_1_2", &host, &port, &office.folder.to_string_lossy()]);
    let log = pair.daemon("paris").log();
    assert!(log.contains("the client offers no ECDHE cipher suite"), "{log}");
}

#[test]
fn nbd_client_lists_and_enters_under_tls() {
    require!("nbd-client");
    let (_pair, address, office) = secured("client-ca = \"FOLDER/ca-cert.pem\"");
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let files = ["client-cert", "client-key", "ca-cert"]
        .map(|name| office.folder.join(format!("{name}.pem")).to_string_lossy().into_owned());
    let [certificate, key, ca] = &files;
    let tls = ["-certfile", certificate, "-keyfile", key, "-cacertfile", ca];
    let said = tell("nbd-client", &[&["-l", &host, &port], &tls[..]].concat()).expect_success();
    assert!(said.contains("db/data: data of group db"), "{said}");
    // Without the kernel's module it ends after the handshake, in which it is told the size.
    let enter = [&host, &port, "/dev/nbd0", "-name", "db/data"];
    let said = tell("nbd-client", &[&enter[..], &tls[..]].concat());
    assert!(said.stdout.contains("size = 64MB"), "{said}");
    if said.status.success() {
        tell("nbd-client", &["-d", "/dev/nbd0"]).expect_success();
    }
}

#[test]
fn plaintext_after_starttls_ends_the_connection() {
    let (mut pair, address, _) = secured("client-ca = \"FOLDER/ca-cert.pem\"");
    let mut raw = Raw::tcp(address);
    let _greeting: [u8; 18] = raw.hear();
    let flags = (client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES).to_be_bytes();
    let start = OptionHeader { option: option::STARTTLS, length: 0 }.encode();
    let planted = OptionHeader { option: option::LIST, length: 0 }.encode();
    // In one piece, as an attacker between the two would.
    raw.say(&[&flags[..], &start, &planted].concat());
    raw.closed().expect("the server closes");
    assert!(pair.daemon("paris").log().contains("client sent plaintext after STARTTLS"));
}

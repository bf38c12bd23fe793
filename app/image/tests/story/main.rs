// SPDX-License-Identifier: Apache-2.0
//! Images that are served, and what is on record of them.

use helio_format::exported::{
    CHUNK_BYTES, ChunkSet, ExportRecord, ExportStage, Exported, ExportedVolume,
};
use helio_image::{Access, Folder, Image, RECORD, Server, read_record};
use helio_link::checksum;
use helio_nbd::Client;
use helio_units::{Bytes, Sequence, WallTime};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SIZE: Bytes = Bytes(100 * CHUNK_BYTES);

fn record() -> ExportRecord {
    let of = Exported {
        group: "db".to_owned(),
        name: "now".to_owned(),
        generation: "1.0a".to_owned(),
        node: "paris".to_owned(),
        identity: "1.0a.3".to_owned(),
        position: Sequence(3),
        at: WallTime(0),
        consistent: true,
    };
    let volume = |name: &str| ExportedVolume {
        name: name.to_owned(),
        size: SIZE,
        written: 0,
        image: String::new(),
        differs: ChunkSet::new(SIZE),
    };
    ExportRecord { of, stage: ExportStage::Complete, volumes: vec![volume("data"), volume("log")] }
}

fn images(folder: &Folder) -> Vec<Image> {
    let volumes = record().volumes.into_iter();
    let open = |it: ExportedVolume| {
        Image::open(&folder.image(&it.name), &it, Access::Create).expect("it opens")
    };
    volumes.map(open).collect()
}

fn serve(dir: &TempDir) -> (Server, PathBuf) {
    let folder = Folder::open(dir.path()).expect("it is free");
    let (images, socket) = (images(&folder), dir.path().join("nbd.sock"));
    let record = folder.record().cloned().unwrap_or_else(record);
    (Server::start(folder, record, images, &socket).expect("it starts"), socket)
}

fn differing(dir: &Path) -> Vec<u64> {
    let record = read_record(&dir.join(RECORD)).expect("it is whole");
    let runs = record.volumes.iter().map(|it| it.differs.count());
    runs.collect()
}

#[test]
fn what_clients_change_is_on_record_before_it_changes_and_stays_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, socket) = serve(&dir);
    assert_eq!(server.exports().collect::<Vec<_>>(), ["db/data", "db/log"]);
    let mut client = Client::connect_unix(&socket, "db/data").expect("it is served");
    let mut second = Client::connect_unix(&socket, "db/data").expect("and again");
    client.write(CHUNK_BYTES * 40, &[7; 512], true).expect("it is written");
    assert_eq!(differing(dir.path()), [16, 0], "while the server runs, as after a crash");
    client.write(CHUNK_BYTES * 40, &[8; 4096], false).expect("it is written");
    client.write_zeroes(CHUNK_BYTES * 99, Bytes(CHUNK_BYTES), false, false).expect("it is zeroed");
    client.flush().expect("it is durable");
    let mut read = [0; 512];
    second.read(CHUNK_BYTES * 40, &mut read).expect("it is read");
    assert_eq!(read, [8; 512]);
    let end = server.finish().expect("no disk fails");
    assert_eq!(
        (end.stage, end.differing()),
        (ExportStage::Complete, 20),
        "four chunks end the volume"
    );
    client.read(0, &mut read).expect_err("the server has ended");
    assert!(!socket.exists(), "and left nothing");
    // What is at its path is not a server's that has ended.
    std::fs::write(&socket, b"mine").expect("it is written");
    let folder = Folder::open(dir.path()).expect("it is free");
    let (images, record) = (images(&folder), folder.record().cloned().expect("it has one"));
    let refused = Server::start(folder, record, images, &socket).expect_err("it is no socket");
    assert!(refused.to_string().contains("hint: name another path"), "{refused}");
    std::fs::remove_file(&socket).expect("it is still there");
    // Again: what is on record remains.
    let (server, socket) = serve(&dir);
    let mut client = Client::connect_unix(&socket, "db/log").expect("it is served");
    client.trim(0, Bytes(1), false).expect("it is trimmed");
    drop(server.finish().expect("no disk fails"));
    assert_eq!(differing(dir.path()), [20, 16]);
}

#[test]
fn a_file_that_something_else_wrote_is_noticed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, _) = serve(&dir);
    let end = server.finish().expect("no disk fails");
    let path = dir.path().join("data.img");
    let was_written = || {
        let image = Image::open(&path, &end.volumes[0], Access::Write).expect("it opens");
        assert!(image.is_that_of(&end.volumes[0]) && !image.is_suspect());
        image.was_written_since(&end.volumes[0]).expect("it has a time")
    };
    assert!(!was_written());
    let file = std::fs::File::options().write(true).open(&path).expect("it opens");
    let modified = file.metadata().and_then(|shown| shown.modified()).expect("it has a time");
    file.set_modified(modified - std::time::Duration::from_secs(60)).expect("it has a time");
    drop(file);
    assert!(was_written());
    std::fs::remove_file(&path).expect("it is removed");
    let image = Image::open(&path, &end.volumes[0], Access::Create).expect("it is created");
    assert!(image.is_blank() && !image.is_that_of(&end.volumes[0]), "another file");
}

#[test]
fn an_unknown_export_a_second_server_and_an_image_of_another_size_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, socket) = serve(&dir);
    Client::connect_unix(&socket, "db/other").map(drop).expect_err("there is no such volume");
    Folder::open(dir.path()).map(drop).expect_err("it is in use");
    drop(server.finish());
    let wrong = ExportedVolume { size: Bytes(SIZE.0 / 2), ..record().volumes.remove(0) };
    let why =
        Image::open(&dir.path().join("data.img"), &wrong, Access::Write).expect_err("too large");
    assert!(why.to_string().contains("hint: "), "{why}");
}

#[test]
fn a_directory_belongs_to_one_process_and_keeps_its_record() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("copy");
    let mut folder = Folder::create(&path).expect("it is created");
    assert_eq!(folder.record(), None);
    folder.keep(record()).expect("it is written");
    let text = Folder::open(&path).expect_err("it is in use").to_string();
    assert!(text.starts_with("another helio process uses "), "{text}");
    drop(folder);
    let again = Folder::create(&path).expect("it exists");
    assert_eq!(again.record(), Some(&record()));
    let files = std::fs::read_dir(&path).expect("a directory").count();
    assert_eq!(files, 1, "nothing else remains");
}

#[test]
fn what_is_no_directory_or_no_record_is_refused_with_a_hint() {
    let dir = tempfile::tempdir().expect("a directory");
    let refused = |path: &Path| format!("{:#}", Folder::open(path).expect_err("refused"));
    assert!(refused(&dir.path().join("gone")).contains("hint: name a directory that exists"));
    let file = dir.path().join(RECORD);
    std::fs::write(&file, b"what is this").expect("it is written");
    assert!(refused(&file).contains("hint: name a directory"));
    assert!(refused(dir.path()).contains("it is not the record of an exported snapshot"));
    std::fs::write(&file, &record().encode(checksum)[..40]).expect("it is written");
    assert!(refused(dir.path()).contains("it is damaged\n  hint: if this was a record, remove it"));
}

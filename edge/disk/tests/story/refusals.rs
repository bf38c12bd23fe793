// SPDX-License-Identifier: Apache-2.0
//! Every reason not to open a file, brought about for real. (Those of devices are in `devices.rs`.)

use crate::common::{file_of, folder, open, options, refused};
use helio_disk::{Io, MemberIdentity, OpenOptions, Refusal};
use helio_driver::Linux;
use helio_units::Bytes;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const SIZE: Bytes = Bytes::mib(1);

#[test]
fn a_missing_file_is_answered_with_the_command_that_makes_it() {
    let folder = folder();
    let path = folder.path().join("data.img");
    let error = refused(&path, &options(SIZE));
    assert_eq!(error.refusal, Refusal::Missing { size: SIZE });
    let command = format!("fallocate -l 1048576 {}", path.display());
    assert!(error.to_string().contains(&command), "{error}");
}

#[test]
fn a_directory_and_a_character_device_are_told_apart_from_files() {
    let folder = folder();
    for (path, found) in
        [(folder.path(), "directory"), (Path::new("/dev/null"), "character device")]
    {
        assert_eq!(refused(path, &options(SIZE)).refusal, Refusal::WrongKind { found });
    }
}

#[test]
fn a_file_of_another_size_is_refused_with_both_sizes() {
    let folder = folder();
    let path = file_of(folder.path(), "data.img", SIZE);
    let error = refused(&path, &options(Bytes::mib(2)));
    assert_eq!(error.refusal, Refusal::TooSmall { found: SIZE, configured: Bytes::mib(2) });
    let error = refused(&path, &options(Bytes::kib(512)));
    assert_eq!(error.refusal, Refusal::TooLarge { found: SIZE, configured: Bytes::kib(512) });
    assert!(
        error.to_string().contains("1 MiB") && error.to_string().contains("512 KiB"),
        "{error}"
    );
}

#[test]
fn a_size_that_is_no_whole_number_of_blocks_is_refused() {
    let folder = folder();
    let path = file_of(folder.path(), "data.img", Bytes(1_000_001));
    let refusal = refused(&path, &options(Bytes(1_000_001))).refusal;
    assert!(matches!(refusal, Refusal::UnevenSize { .. }), "{refusal}");
    let empty = file_of(folder.path(), "empty.img", Bytes::ZERO);
    let refusal = refused(&empty, &options(Bytes::ZERO)).refusal;
    assert!(matches!(refusal, Refusal::UnevenSize { .. }), "{refusal}");
}

#[test]
fn a_member_in_use_is_held_until_it_is_dropped() {
    let folder = folder();
    let path = file_of(folder.path(), "data.img", SIZE);
    let member = open(&path, &options(SIZE)).expect("it opens");
    // The same file under a second name is the same member.
    let second = folder.path().join("link.img");
    std::fs::hard_link(&path, &second).expect("a second name");
    assert_eq!(refused(&second, &options(SIZE)).refusal, Refusal::Held);
    let identity = MemberIdentity::of_path(&Linux::host(), &second).expect("its identity");
    assert!(identity.overlaps(&member.identity()));
    drop(member);
    open(&path, &options(SIZE)).expect("it is free again");
}

#[test]
fn a_file_system_without_direct_io_is_answered_with_the_setting_that_helps() {
    // A file of procfs: writable, and nothing a device could be behind.
    let path = Path::new("/proc/self/comm");
    let error = refused(path, &options(SIZE));
    assert_eq!(error.refusal, Refusal::NoDirectIo);
    assert!(error.to_string().contains(r#"io = "buffered""#), "{error}");
    let buffered = OpenOptions { io: Io::Buffered, ..options(SIZE) };
    assert_ne!(refused(path, &buffered).refusal, Refusal::NoDirectIo);
}

#[test]
fn a_file_that_cannot_be_allocated_is_refused_and_not_left_behind() {
    let folder = folder();
    let path = folder.path().join("huge.img");
    // More than the disk under this build holds, less than its file system's largest file.
    let size = Bytes::gib(12 << 10);
    let create = OpenOptions { create: true, sparse: false, ..options(size) };
    let refusal = refused(&path, &create).refusal;
    assert_eq!(refusal, Refusal::NoSpace { size });
    assert!(!path.exists());
}

#[test]
fn no_file_takes_the_place_of_a_device_that_is_not_there() {
    let path = std::path::Path::new("/dev/helio-no-such-device");
    for create in [true, false] {
        let error = refused(path, &OpenOptions { create, ..options(SIZE) });
        assert_eq!(error.refusal, Refusal::NoDevice);
        assert!(error.to_string().contains("activate the device"), "{error}");
        assert!(!path.exists());
    }
}

#[test]
fn a_file_that_another_process_writes_is_refused_with_its_name() {
    let folder = folder();
    let path = folder.path().join("member.img");
    fs::write(&path, vec![0; SIZE.0 as usize]).expect("a file");
    let hold = |redirection: &str| {
        let mut shell = Command::new("sh");
        let script = format!("exec 3{redirection}\"$1\"; echo there; read rest");
        shell.args(["-c", &script, "sh"]).arg(&path);
        let mut child =
            shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let mut line = String::new();
        let told = child.stdout.as_mut().expect("it tells");
        BufReader::new(told).read_line(&mut line).expect("it has the file");
        child
    };
    let mut reader = hold("<");
    open(&path, &options(SIZE)).expect("reading hurts nobody");
    let mut writer = hold(">>");
    let error = refused(&path, &options(SIZE)).to_string();
    let names = [format!("process {} (sh)", writer.id()), "stop that process".into()];
    assert!(names.iter().all(|name| error.contains(name)), "{error}");
    for child in [&mut reader, &mut writer] {
        drop(child.stdin.take());
        child.wait().expect("it ends");
    }
    open(&path, &options(SIZE)).expect("it is free again");
}

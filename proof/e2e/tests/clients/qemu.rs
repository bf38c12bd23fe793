// SPDX-License-Identifier: Apache-2.0
//! qemu-img and qemu-io: the block layer of most virtual machines.

use crate::common::{assert_mirrored, command, one_volume};
use helio_testkit::{require, run};
use helio_units::{Bytes, Mode};

#[test]
fn qemu_img_reads_the_size_of_the_export() {
    require!("qemu-img");
    let pair = one_volume(Mode::Sync, Bytes::mib(48));
    let uri = pair.export("paris", "data");
    let said = run(&mut command("qemu-img", &["info", "--output=json", "-f", "raw", &uri])).json();
    assert_eq!(said["virtual-size"], Bytes::mib(48).0);
    assert_mirrored(&pair, &["data"]);
}

#[test]
fn qemu_io_reads_back_what_it_wrote_discarded_and_zeroed() {
    require!("qemu-io");
    let steps = [
        "write -P 0xa1 0 1M",
        "write -P 0xb2 512 512",
        "write -P 0xc3 1536 1024",
        "write -P 0xd4 5000 1",
        "aio_write -P 0xe5 2M 512k",
        "aio_write -P 0xe6 3M 64k",
        "aio_flush",
        "write -f -P 0xf7 4M 4k",
        "discard 256k 64k",
        "write -z 384k 12k",
        "write -z -u 512k 128k",
        "write -P 0x18 640k 512",
        "flush",
        "read -P 0xa1 0 512",
        "read -P 0xb2 512 512",
        "read -P 0xa1 1024 512",
        "read -P 0xc3 1536 1024",
        "read -P 0xd4 5000 1",
        "read -P 0xa1 5001 1k",
        "read -P 0xe5 2M 512k",
        "read -P 0xe6 3M 64k",
        "read -P 0xf7 4M 4k",
        "read -P 0 256k 64k",
        "read -P 0 384k 12k",
        "read -P 0xa1 396k 116k",
        "read -P 0 512k 128k",
        "read -P 0x18 640k 512",
        "read -P 0xa1 655872 4k",
    ];
    let pair = one_volume(Mode::NearSync, Bytes::mib(16));
    let uri = pair.export("paris", "data");
    let mut arguments = vec!["-f", "raw", uri.as_str()];
    arguments.extend(steps.iter().flat_map(|step| ["-c", step]));
    let told = run(&mut command("qemu-io", &arguments));
    let said = format!("{}{}", told.stdout, told.stderr);
    assert!(told.status.success() && !said.contains("verification failed"), "{told}");
    assert_mirrored(&pair, &["data"]);
}

#[test]
fn a_request_beyond_the_end_is_refused_and_the_next_one_served() {
    require!("qemu-io");
    let pair = one_volume(Mode::Sync, Bytes::mib(1));
    let uri = pair.export("paris", "data");
    let run_io = |step: &str| run(&mut command("qemu-io", &["-f", "raw", &uri, "-c", step]));
    run_io("write -P 1 1M 4k").expect_failure();
    run_io("write -P 2 1020k 4k").expect_success();
    assert_mirrored(&pair, &["data"]);
}

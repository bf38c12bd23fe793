// SPDX-License-Identifier: Apache-2.0
//! Whole images in and out.

use crate::common::{assert_mirrored, assert_same, command, one_volume, sown};
use helio_testkit::{Dice, require, run};
use helio_units::{Bytes, Mode};

const SIZE: Bytes = Bytes::gib(1);

#[test]
fn nbdcopy_brings_a_gibibyte_in_and_out_and_the_secondary_has_it() {
    require!("nbdcopy");
    let mut dice = Dice::of_test("nbdcopy_brings_a_gibibyte");
    let pair = one_volume(Mode::Async, SIZE);
    let (source, back) = (pair.scratch().join("source.img"), pair.scratch().join("back.img"));
    sown(&source, SIZE, &mut dice);
    let (from, to) = (source.to_string_lossy(), pair.export("paris", "data"));
    run(&mut command("nbdcopy", &["--flush", &from, &to])).expect_success();
    assert_mirrored(&pair, &["data"]);
    assert_same(&source, &pair.member("lyon", "data"));
    run(&mut command("nbdcopy", &[&to, &back.to_string_lossy()])).expect_success();
    assert_same(&source, &back);
}

#[test]
fn qemu_img_converts_into_the_export_and_compares_it() {
    require!("qemu-img");
    let mut dice = Dice::of_test("qemu_img_converts");
    let pair = one_volume(Mode::Sync, Bytes::mib(256));
    let source = pair.scratch().join("source.img");
    sown(&source, Bytes::mib(256), &mut dice);
    let (from, to) = (source.to_string_lossy(), pair.export("paris", "data"));
    let qemu_img = |arguments: &[&str]| run(&mut command("qemu-img", arguments));
    qemu_img(&["convert", "-n", "-f", "raw", "-O", "raw", &from, &to]).expect_success();
    let said = qemu_img(&["compare", "-f", "raw", "-F", "raw", &from, &to]).expect_success();
    assert!(said.contains("Images are identical"), "{said}");
    assert_mirrored(&pair, &["data"]);
    assert_same(&source, &pair.member("lyon", "data"));

    let back = pair.scratch().join("back.qcow2");
    let packed = back.to_string_lossy();
    qemu_img(&["convert", "-f", "raw", "-O", "qcow2", &to, &packed]).expect_success();
    qemu_img(&["compare", "-f", "raw", "-F", "qcow2", &from, &packed]).expect_success();
}

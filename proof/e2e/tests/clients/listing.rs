// SPDX-License-Identifier: Apache-2.0
//! What a client is told about the exports, and by a node that does not serve them.

use crate::common::{assert_mirrored, command, one_volume};
use helio_testkit::{require, run};
use helio_units::{Bytes, Mode};

const SIZE: Bytes = Bytes::mib(48);

#[test]
fn nbdinfo_sees_the_export_with_its_size_and_abilities() {
    require!("nbdinfo");
    let pair = one_volume(Mode::Sync, SIZE);
    let uri = pair.export("paris", "data");
    let list = uri.replace("/db/data?", "/?");
    for (how, address) in [("--list", &list), ("--json", &uri)] {
        let said = run(&mut command("nbdinfo", &["--json", how, address])).json();
        assert_eq!(said["protocol"], "newstyle-fixed");
        assert_eq!(said["structured"], true);
        let exports = said["exports"].as_array().expect("a list of exports");
        // A list has the copy to be read only as well.
        assert_eq!(exports.len(), if how == "--list" { 2 } else { 1 }, "{said}");
        let export = &exports[0];
        assert_eq!(export["export-name"], "db/data");
        assert_eq!(export["export-size"], SIZE.0);
        assert_eq!(export["is_read_only"], false);
        for ability in ["can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero"] {
            assert_eq!(export[ability], true, "{ability}: {export}");
        }
        let smallest = export["block_size_minimum"].as_u64();
        assert!(smallest.is_some_and(|block| (512..=4096).contains(&block)), "{export}");
    }
    assert_mirrored(&pair, &["data"]);
}

#[test]
fn a_secondary_sends_clients_to_the_primary_by_name() {
    require!("qemu-img", "nbdinfo");
    let pair = one_volume(Mode::Sync, SIZE);
    let uri = pair.export("lyon", "data");
    let said = run(&mut command("qemu-img", &["info", "-f", "raw", &uri])).expect_failure();
    assert!(said.contains("group db is not primary on this node; connect to paris"), "{said}");
    run(&mut command("nbdinfo", &[&uri])).expect_failure();
    let unknown = pair.export("paris", "date");
    let said = run(&mut command("nbdinfo", &[&unknown])).expect_failure();
    assert!(said.contains("db/date"), "{said}");
}

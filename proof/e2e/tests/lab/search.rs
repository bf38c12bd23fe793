// SPDX-License-Identifier: Apache-2.0
//! `helio lab search`: through a relay the window of the protocol shows, so an exact window is searched.

use crate::common::*;
use helio_netmodel::Profile;
use helio_testkit::{TempDir, Told, free_port, in_rate};
use helio_units::Rate;
use helio_wan::{Relay, RelayConfig};
use std::net::SocketAddr;
use std::time::Duration;

#[test]
fn a_search_finds_the_plateau_and_writes_what_follows_from_it() {
    let (folder, at) = (TempDir::new(), free_port());
    let (config, sysctl) = (folder.path().join("link.toml"), folder.path().join("90.conf"));
    // 4 MB/s and 40 ms: 160,000 bytes are one bandwidth-delay product; 256 KiB is the first doubling beyond.
    let profile = Profile::wan(Duration::from_millis(40), Rate(4_000_000));
    let (there, back) = (profile.clone(), profile);
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let relay =
        Relay::start(RelayConfig { listen, target: at, there, back, seed: 1 }).expect("it listens");
    let primary = format!(
        "lab search --local {at} --exact --time 700ms --hiccup 2s --workload 3MB/s --group db --json \
         --write-config {} --write-sysctl {}",
        config.display(),
        sysctl.display()
    );
    let standby = format!("lab link standby --remote {}", relay.local_addr());
    let [primary, standby] = both(&words(&primary), &words(&standby));
    standby.expect_success();
    let advice = Told::json(primary);
    let of = |what: &str| advice[what].as_f64().expect("a number");
    let steps = advice["steps"].as_array().expect("the table");
    // On a busy machine a step may fall behind the others.
    let enough = steps.iter().find(|step| step["asked"] == 256 << 10).expect("the table has it");
    in_rate(of("bandwidth"), 4e6 * 0.9, "a wide window, in B/s,");
    let reached = enough["rate"].as_f64().expect("a number");
    in_rate(reached, of("bandwidth") * 0.95, "a window of 256 KiB, in B/s,");
    assert!(of("bandwidth") < 4e6 * 1.1, "{advice}");
    assert_eq!(advice["plateau"], 256 << 10, "{advice}");
    assert_eq!(advice["hiccup"], 6_000_000);
    assert_eq!(advice["recommended"], 6_029_312, "the room for the hiccup in whole 64 KiB");
    assert_eq!(advice["scaling"], true);
    assert!((5..8).contains(&steps.len()), "64 KiB to where nothing is gained twice: {advice}");
    let config = std::fs::read_to_string(config).expect("it was written");
    assert!(config.contains("[group.db.link]\nsend-buffer = \"5888KiB\""), "{config}");
    let sysctl = std::fs::read_to_string(sysctl).expect("it was written");
    assert!(
        sysctl.contains("net.core.rmem_max = ")
            && sysctl.contains("net.ipv4.tcp_window_scaling = 1"),
        "{sysctl}"
    );
}

#[test]
fn buffers_are_asked_for_at_both_ends_and_shown_as_granted() {
    let at = free_port();
    let primary = format!("lab search --local {at} --from 64KiB --most 128KiB --time 100ms --json");
    let standby = format!("lab link standby --remote {at}");
    let [primary, standby] = both(&words(&primary), &words(&standby));
    standby.expect_success();
    let advice = primary.json();
    for (n, asked) in [65_536, 131_072].into_iter().enumerate() {
        let step = &advice["steps"][n];
        for buffer in ["here", "there"].iter().flat_map(|end| [&step[*end][0], &step[*end][1]]) {
            assert_eq!(buffer["asked"], asked, "{step}");
            assert_eq!(buffer["actual"], 2 * asked, "Linux grants twice: {step}");
        }
    }
    assert_eq!(advice["kernel"]["here"][0]["asked"], 0, "the last step is the kernel's own");
}

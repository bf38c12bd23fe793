// SPDX-License-Identifier: Apache-2.0
//! The configuration file. Input: its text.

use helio_daemon::config::{Changes, Config, ConfigError, Place, diff};

const FILE: &str = "helio.toml";

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Config::parse(&text, FILE) {
        Ok(config) => taken(&config, &text),
        Err(error) => refused(&error, &text),
    }
}

fn taken(config: &Config, text: &str) {
    assert_eq!(Config::parse(text, FILE).as_ref(), Ok(config), "it is read in two ways");
    for (name, node) in &config.nodes {
        let same = diff(config, config, name);
        assert_eq!(same, Changes::default(), "it differs from itself");
        let view = config.for_node(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(view.node, node);
        for group in view.groups {
            assert_ne!(
                group.peer.map(|peer| peer.name),
                Some(name.as_str()),
                "a node is its own peer"
            );
            assert!(!group.group.volumes.is_empty(), "a group without a volume");
            let timeouts = group.group.timeouts;
            assert!(timeouts.flush_limit >= timeouts.peer);
        }
    }
    for group in config.groups.values() {
        for volume in group.volumes.values() {
            assert!(group.nodes.iter().all(|node| volume.members.contains_key(node)));
            assert!(volume.members.values().flatten().all(|member| member.is_absolute()));
        }
    }
}

/// A refusal points into the file and says what to do.
fn refused(error: &ConfigError, text: &str) {
    assert!(!error.message.is_empty() && !error.hint.is_empty(), "{error:?}");
    let Some(Place { line, column }) = error.place else {
        panic!("it points nowhere: {error}");
    };
    let told = text.split('\n').nth(line.wrapping_sub(1));
    let there = told.unwrap_or_else(|| panic!("there is no such line: {error}"));
    assert!((1..=there.chars().count() + 1).contains(&column), "no such column: {error}");
    assert!(error.to_string().starts_with(&format!("{FILE}:{line}:{column}: ")));
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let example = include_str!("../../../docs/example.toml");
    let bare: String = example
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| format!("{}\n", line.split("  #").next().unwrap_or_default().trim_end()))
        .collect();
    let small = "node.a.address='127.0.0.1:1'\nnode.b.address='[::1]:2'\n[group.g]\nnodes=['a','b']\n\
                 queue={preset='sndr',when-full='fail'}\n[group.g.volume.v]\nsize='1MiB'\nsparse=true\n\
                 members={a=['/x'],b=['/y']}\n";
    let one_node = "node.a.address='127.0.0.1:1'\n[group.g]\nnodes=['a']\nmember-timeout='90s'\n[group.g.volume.v]\n\
                    size='1MiB'\nmembers.a=['/x','/y']\n";
    let key = helio_tls_text();
    let keyed = format!(
        "[node.a]\naddress='10.0.0.1:1'\nkeys=['{key}']\ndriver='poll'\nspin='10us'\nclients=9\n\
         control='10.0.0.1:3'\noperators=['{key}']\nnbd='10.0.0.1:4'\n\
         tls={{certificate='/c',key='/k',client-ca='/a',required=true}}\n"
    );
    vec![
        ("example", bare.into_bytes()),
        ("small", small.as_bytes().to_vec()),
        ("one-node", one_node.as_bytes().to_vec()),
        ("keyed", keyed.into_bytes()),
    ]
}

/// A public key as it stands in a file.
fn helio_tls_text() -> String {
    crate::tls::keys().one.public().to_string()
}

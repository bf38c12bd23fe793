// SPDX-License-Identifier: Apache-2.0
//! Every command that says or hands out something of a member, in every state in which a member is not the volume. What is handed out is
//! what clients read. A refusal names steps; they are done as they stand, and lead to these bytes.
//!
//! `states` brings a node into each state, `commands` runs each command, `steps` does what a hint says, and `table` has what is to come of
//! each combination.

mod commands;
mod states;
mod steps;
mod table;

use crate::whole::not_served;
use commands::{Command, Given, Got};
use helio_e2e::{BLOCK, connect, wait_members};
use helio_testkit::{LoopDevice, Plan, TempDir};
use states::{Stage, State};
use std::fs;
use std::panic::catch_unwind;
use table::Wanted;

/// So many refusals may follow each other.
const REFUSALS: usize = 4;

/// Runs every command in a state of its own making, and holds what comes of it against the table.
fn walk(state: State) {
    if !state.is_possible() {
        return;
    }
    let wrong: Vec<String> = Command::ALL
        .into_iter()
        .filter_map(|command| {
            // One that comes to nothing keeps no other from being tried.
            let tried = catch_unwind(|| tried(state, command));
            let tried = tried.unwrap_or_else(|_| Err("see above".to_owned()));
            tried.err().map(|why| format!("{command:?}: {why}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{state:?}:\n{}", wrong.join("\n"));
}

/// One combination. What it printed is printed if the test fails.
fn tried(state: State, command: Command) -> Result<(), String> {
    let wanted = table::wanted(state, command);
    if let Wanted::LeftOut(why) = wanted {
        println!("{state:?} {command:?}: left out: {why}");
        return Ok(());
    }
    let mut stage = Stage::new(state);
    command.prepare(&mut stage);
    let mut refusals = Vec::new();
    let given = loop {
        match command.ask(&mut stage) {
            Got::Given(given) => break given,
            Got::Refused(refusal) if refusals.len() < REFUSALS => {
                println!("{state:?} {command:?}: {}\n  hint: {}", refusal.text, refusal.hint);
                steps::follow(&mut stage, &refusal.hint)?;
                refusals.push(refusal);
            }
            Got::Refused(refusal) => {
                return Err(format!("the steps lead nowhere: {}", refusal.text));
            }
        }
    };
    let first = refusals.first().map(|it| format!("{} {}", it.code, it.text));
    match (wanted, first) {
        (Wanted::Given, None) => {}
        (Wanted::Refused(label), Some(text)) if text.contains(label) => {}
        (wanted, first) => return Err(format!("{wanted:?} was to come, and it was {first:?}")),
    }
    match given {
        Given::Bytes(all) => {
            all.iter().try_for_each(|one| one.is_as(&stage.expected, &stage.written))
        }
        Given::Says(said) => state.is_told(&said),
    }
}

#[test]
fn a_member_at_rest_is_handed_out() {
    walk(State::AtRest);
}

#[test]
fn a_member_is_handed_out_only_with_all_of_a_restore_on_it() {
    walk(State::RestorePending);
}

#[test]
fn a_member_is_handed_out_only_merged() {
    walk(State::Unmerged);
}

#[test]
fn a_member_is_handed_out_as_clients_read_it_also_where_nothing_was_written() {
    walk(State::Blank);
}

#[test]
fn a_member_that_is_being_copied_to_is_not_handed_out() {
    walk(State::Copying);
}

#[test]
fn a_member_that_was_removed_is_not_handed_out() {
    walk(State::Removed);
}

#[test]
fn a_suspect_member_is_handed_out_only_if_it_is_accepted_as_that() {
    walk(State::Suspect);
}

#[test]
fn a_member_whose_peer_is_served_in_its_place_is_not_handed_out() {
    walk(State::ServedFromPeer);
}

/// Block devices carry no stamp: nothing but the metadata tells that the first one was removed. What the command says then leads to the
/// bytes that clients read.
#[test]
fn without_stamps_new_metadata_names_the_member_that_counts() {
    let files = TempDir::new();
    let device = |name: &str| LoopDevice::on(&files.file(name, states::SIZE), &[]);
    let Some((first, second)) = device("one").zip(device("two")) else { return };
    let plan = Plan::new("db").only("paris").volume("data", states::SIZE);
    let plan = plan.member("paris", "data", first.path()).mirror("paris", "data", second.path());
    let mut pair = plan.start();
    wait_members(&pair, "paris", ["full", "full"]);
    let [one, two] = [&first, &second].map(|device| device.path().display().to_string());
    pair.helio("paris", &["member", "remove", "db/data", &one]).expect_success();
    let mut client = connect(&pair, "paris");
    client.write(0, &[7; BLOCK], true).expect("it is written");
    client.disconnect().expect("it may go");
    pair.daemon("paris").kill9();
    fs::remove_file(pair.state("paris").join("groups/db.meta")).expect("it is there");
    let config = pair.config().display().to_string();
    let create = ["metadata", "create", "db", "--node", "paris", "--config", &config, "--yes"];
    let told = pair.helio("paris", &create).expect_success();
    assert!(told.contains(&format!("The daemon uses {one}, the first one")), "{told}");
    let text = fs::read_to_string(pair.config()).expect("it is there");
    let [was, will] = [[&one, &two], [&two, &one]].map(|both| format!("{both:?}"));
    assert!(text.contains(&was), "{text}");
    fs::write(pair.config(), text.replace(&was, &will)).expect("there is room");
    pair.start("paris");
    pair.helio("paris", &["promote", "db"]).expect_success();
    let mut read = [0; BLOCK];
    connect(&pair, "paris").read(0, &mut read).expect("it is read");
    assert_eq!(read, [7; BLOCK]);
}

/// With new metadata the stamps of the members that are open do not tell whether the one that is missing is newer.
#[test]
fn with_new_metadata_a_member_that_is_missing_may_be_the_newest_one() {
    let files = TempDir::new();
    let second = files.file("second", states::SIZE);
    let plan = Plan::new("db").only("paris").volume("data", states::SIZE);
    let mut pair = plan.mirror("paris", "data", &second).start();
    wait_members(&pair, "paris", ["full", "full"]);
    let first = pair.member("paris", "data").display().to_string();
    pair.helio("paris", &["member", "remove", "db/data", &first]).expect_success();
    let mut client = connect(&pair, "paris");
    client.write(0, &[7; BLOCK], true).expect("it is written");
    client.disconnect().expect("it may go");
    pair.daemon("paris").kill9();
    fs::remove_file(pair.state("paris").join("groups/db.meta")).expect("it is there");
    let elsewhere = second.with_extension("away");
    fs::rename(&second, &elsewhere).expect("it is there");
    let config = pair.config().display().to_string();
    let create = ["metadata", "create", "db", "--node", "paris", "--config", &config, "--yes"];
    pair.helio("paris", &create).expect_success();
    let told = not_served(&pair);
    let missing =
        format!("the metadata of db/data is new, and {} cannot be opened", second.display());
    assert!(told.contains(&missing), "{told}");
    // Nor does it count if it is the only one that is named.
    let text = fs::read_to_string(pair.config()).expect("it is there");
    let both = format!("{first:?}, {:?}", second.display().to_string());
    assert!(text.contains(&both), "{text}");
    fs::write(pair.config(), text.replace(&both, &format!("{first:?}"))).expect("there is room");
    let told = not_served(&pair);
    assert!(told.contains("which of them is the newest full one"), "{told}");
    fs::write(pair.config(), text).expect("there is room");
    fs::rename(&elsewhere, &second).expect("it is there");
    pair.start("paris");
    pair.helio("paris", &["promote", "db"]).expect_success();
    let mut read = [0; BLOCK];
    connect(&pair, "paris").read(0, &mut read).expect("it is read");
    assert_eq!(read, [7; BLOCK]);
}

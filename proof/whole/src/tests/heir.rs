// SPDX-License-Identifier: Apache-2.0
//! What the model promises of a copy that takes over.

use crate::model::stamp::{Place, SECTOR, stamp};
use crate::model::{Action, Answer, ConnectionId, Heir, Model, Promise, Request};
use helio_units::Extent;

/// A model of one volume of two sectors, with a client.
fn model() -> (Model, ConnectionId) {
    let mut model = Model::new(&[2]);
    let connection = model.connected();
    (model, connection)
}

/// Writes a sector, and is acknowledged. Returns the bytes.
fn write(model: &mut Model, connection: ConnectionId, sector: u64) -> Vec<u8> {
    let extent = Extent::new(sector * SECTOR as u64, SECTOR as u64);
    let action = Action::Write { extent, fua: false };
    let ticket = model.begin(Request { connection, volume: 0, action });
    model.acknowledged(ticket, Answer::Done).expect("it was begun");
    let mut bytes = Vec::new();
    stamp(ticket.0, Place { volume: 0, sector }, 1, &mut bytes);
    bytes
}

const ZEROS: [u8; SECTOR] = [0; SECTOR];

#[test]
fn the_image_of_a_node_that_takes_over_has_what_the_primary_said_its_peer_has() {
    let (mut model, client) = model();
    let first = write(&mut model, client, 0);
    model.peer_is_level();
    write(&mut model, client, 1);
    model.failed_over(Heir::Restarted);
    let lost = model.judge_heir(0, &[ZEROS, ZEROS].concat()).expect_err("the first write is lost");
    assert_eq!(lost.promise, Promise::AtPeer);
    assert_eq!(model.judge_heir(0, &[&first[..], &ZEROS].concat()), Ok(()));
}

#[test]
fn what_the_peer_had_says_nothing_of_another_peer() {
    let (mut model, client) = model();
    write(&mut model, client, 0);
    model.peer_is_level();
    model.peer_changed();
    let mut level = model.clone();
    model.failed_over(Heir::Lived);
    assert_eq!(model.judge_heir(0, &[ZEROS, ZEROS].concat()), Ok(()));
    level.peer_is_level();
    level.failed_over(Heir::Lived);
    assert!(level.judge_heir(0, &[ZEROS, ZEROS].concat()).is_err());
}

#[test]
fn an_image_lacks_the_sectors_in_which_an_acknowledged_write_is_newer() {
    let (mut model, client) = model();
    let old = write(&mut model, client, 0);
    let new = write(&mut model, client, 0);
    let other = write(&mut model, client, 1);
    let missing = |image: [&[u8]; 2]| model.missing_bytes(0, &image.concat()).expect("it is known");
    assert_eq!(missing([&new, &other]), 0);
    assert_eq!(missing([&old, &other]), SECTOR as u64);
    assert_eq!(missing([&old, &ZEROS]), 2 * SECTOR as u64);
    let unknown =
        model.missing_bytes(0, &[[7; SECTOR], ZEROS].concat()).expect_err("never written");
    assert_eq!(unknown.promise, Promise::KnownBytes);
}

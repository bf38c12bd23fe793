// SPDX-License-Identifier: Apache-2.0
//! What a client without I/O of its own has of a connection.

use crate::common::{Desk, inet, settle, two};
use helio_driver::{Address, Buffer, Op, Outcome, Piece};
use helio_world::stream::{Received, Stream};

#[test]
fn a_client_is_connected_to_a_unix_socket_at_once_and_to_another_machine_after_a_while() {
    let (world, paris, tokyo) = two(1);
    let mut desk = Desk::on(&world, &paris);
    for address in [Address::Unix("/nbd.sock".into()), inet(1, 10809)] {
        let listener = desk.host().listen(&address, 4).expect("listening");
        let client_at = if matches!(address, Address::Unix(_)) { &paris } else { &tokyo };
        let mut client = world.connect(client_at, &address);
        assert_eq!(client.is_connected(), matches!(address, Address::Unix(_)));
        let mut bytes = Vec::new();
        assert_eq!(client.receive(&mut bytes, 10), Received::Nothing);
        let outcome = desk.run(Op::Accept { listener });
        let Outcome::Accept(Ok(accepted)) = outcome else { panic!("{outcome:?}") };
        settle(&world);
        assert!(client.is_connected());
        assert_eq!(client.send(b"question"), Ok(8));
        let socket = accepted.socket;
        let (buffer, range) = (Buffer::zeroed(8), 0..8);
        let outcome = desk.run(Op::Recv { socket: socket.clone(), buffer, range });
        assert!(matches!(outcome, Outcome::Recv { result: Ok(count), .. } if count > 0));
        let pieces = vec![Piece::Bytes(b"answer".to_vec())];
        assert_eq!(desk.run(Op::Send { socket: socket.clone(), pieces }).error(), None);
        settle(&world);
        while bytes.len() < 6 {
            assert_eq!(client.receive(&mut bytes, 4), Received::Bytes);
        }
        assert_eq!(bytes, b"answer");
        drop(socket);
        settle(&world);
        let end = client.receive(&mut bytes, 4);
        assert!(matches!(end, Received::End | Received::Reset), "{end:?}");
        client.close();
        assert_eq!(client.send(b"x"), Err(()));
    }
}

#[test]
fn a_client_without_a_listener_and_one_that_resets_are_gone() {
    let (world, paris, _) = two(1);
    let mut desk = Desk::on(&world, &paris);
    let address = Address::Unix("/nbd.sock".into());
    let mut refused = world.connect(&paris, &address);
    assert_eq!(refused.receive(&mut Vec::new(), 1), Received::Reset);
    assert_eq!(refused.send(b"x"), Err(()));
    let listener = desk.host().listen(&address, 4).expect("listening");
    let mut client = world.connect(&paris, &address);
    let outcome = desk.run(Op::Accept { listener });
    let Outcome::Accept(Ok(accepted)) = outcome else { panic!("{outcome:?}") };
    client.reset();
    let (buffer, range) = (Buffer::zeroed(8), 0..8);
    let outcome = desk.run(Op::Recv { socket: accepted.socket, buffer, range });
    assert!(outcome.error().is_some(), "{outcome:?}");
}

// SPDX-License-Identifier: Apache-2.0
//! NBD clients: who they are, and the end of their connections.

use super::{Daemon, accepted, of_refusal};
use crate::control::{Command, Reply};
use crate::shard::{Ask, Closing, NodeAsk};
use helio_api::{ApiError, ClientCloseRequest, ClientList, NbdClient, code};

impl Daemon {
    pub(super) async fn on_clients(&self, command: Command) -> Result<Reply, ApiError> {
        match command {
            Command::ClientClose { wish } => self.close_clients(wish).await,
            _ => self.clients().await.map(Reply::Clients),
        }
    }

    /// All of them; the shard lists some in each turn.
    async fn clients(&self) -> Result<ClientList, ApiError> {
        let mut list = ClientList { node: self.node.clone(), ..ClientList::default() };
        let mut next = Some(0);
        while let Some(from) = next {
            let ask = |reply| Ask::Node(NodeAsk::Clients { from, reply });
            let some = self.shard.answer(ask).await?;
            list.clients.extend(some.clients);
            (list.guests, next) = (some.guests, some.next);
        }
        list.clients = self.blocking(move || with_programs(list.clients)).await?;
        Ok(list)
    }

    async fn close_clients(&self, wish: ClientCloseRequest) -> Result<Reply, ApiError> {
        let which = match wish {
            ClientCloseRequest { number: Some(number), group: None, volume: None } => {
                Closing::Number(number)
            }
            ClientCloseRequest { number: None, group: Some(group), volume } => {
                self.known(&group)?;
                Closing::All { group, volume }
            }
            _ => {
                let text = "the request does not say which clients to disconnect";
                let hint = "send either `number`, or `group` with or without `volume`";
                return Err(ApiError::new(code::BAD_REQUEST, text, hint));
            }
        };
        let ask = |reply| Ask::Node(NodeAsk::CloseClients { which, reply });
        let closed = self.shard.answer(ask).await?.map_err(of_refusal)?;
        Ok(accepted(match closed.len() {
            0 => "there was no NBD client to disconnect".to_owned(),
            count => format!("disconnecting {count} NBD client(s): {}", closed.join(", ")),
        }))
    }
}

/// Adds what the processes are called.
fn with_programs(mut clients: Vec<NbdClient>) -> Vec<NbdClient> {
    for client in &mut clients {
        client.program = client.process.and_then(helio_attach::program);
    }
    clients
}

// SPDX-License-Identifier: Apache-2.0
//! `helio client`: who uses the volumes over NBD, and the end of their connections.

use crate::args::{At, Clients, Named};
use crate::client::Client;
use crate::confirm::Consent;
use crate::verbs::{accepted, print, printed};
use anyhow::Result;
use helio_api::{Accepted, ClientCloseRequest, ClientList, NbdClient, Status, paths};
use std::fmt::Write;
use std::process::ExitCode;

pub(crate) fn clients(at: &At, verb: Clients) -> Result<ExitCode> {
    match verb {
        Clients::List { group, json } => list(at, group.as_deref(), json),
        Clients::Close { number, all, yes, json } => close(at, number, all, Consent { yes, json }),
    }
}

fn list(at: &At, group: Option<&str>, json: bool) -> Result<ExitCode> {
    let client = Client::new(at)?;
    if let Some(group) = group {
        // An unknown group is an error, not one without clients.
        client.get::<Status>(&paths::of_group(paths::GROUP, group))?;
    }
    let mut told: ClientList = client.get(paths::CLIENTS)?;
    told.clients.retain(|client| group.is_none_or(|group| client.group == group));
    told.clients.sort_by(|a, b| (&a.export, a.number).cmp(&(&b.export, b.number)));
    if json {
        return printed(&told);
    }
    print(&text(&told))?;
    Ok(ExitCode::SUCCESS)
}

fn text(told: &ClientList) -> String {
    let ClientList { node, clients, guests } = told;
    let mut out: String = clients.iter().map(row).collect();
    let _ = writeln!(
        out,
        "{} NBD client(s) on {node}, {guests} connection(s) without an export",
        clients.len()
    );
    out
}

fn row(client: &NbdClient) -> String {
    let NbdClient { number, export, connected_ms, requests, held_bytes, .. } = client;
    let (who, closing) = (who(client), if client.closing { "  disconnecting" } else { "" });
    format!(
        "{number}  {export}  {who}  connected {connected_ms}  {requests} request(s) in progress, {held_bytes} held{closing}\n"
    )
}

fn who(client: &NbdClient) -> String {
    let NbdClient { address, process, program, attached, .. } = client;
    match (address, process, program) {
        _ if *attached => "attached by this node".to_owned(),
        (Some(address), ..) => address.clone(),
        (None, Some(process), Some(program)) => format!("{program} (process {process})"),
        (None, Some(process), None) => format!("process {process}, which has ended"),
        (None, None, _) => "unknown to the daemon".to_owned(),
    }
}

fn close(at: &At, number: Option<u32>, all: Option<Named>, consent: Consent) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let (what, wish) = match all {
        Some(Named { group, volume }) => {
            let of = volume.as_ref().map_or_else(|| group.clone(), |it| format!("{group}/{it}"));
            let wish = ClientCloseRequest { group: Some(group), volume, ..Default::default() };
            (format!("all NBD clients of {of}"), wish)
        }
        None => {
            let what = number.map_or_else(String::new, |number| format!("NBD client {number}"));
            (what, ClientCloseRequest { number, ..ClientCloseRequest::default() })
        }
    };
    let stake = "programs get I/O errors if their NBD clients do not connect again";
    consent.get(stake, &format!("disconnect {what}?"))?;
    accepted(&client.post::<Accepted>(paths::CLIENT_CLOSE, &wish)?, consent.json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_units::{Bytes, Items, WallTime};

    #[test]
    fn a_list_shows_who_uses_what() {
        let client = |number: u32, export: &str| NbdClient {
            number,
            group: "db".into(),
            volume: "data".into(),
            export: export.into(),
            connected_ms: WallTime(0),
            ..NbdClient::default()
        };
        let remote = NbdClient {
            address: Some("192.0.2.7:51234".into()),
            requests: Items(2),
            held_bytes: Bytes::mib(1),
            ..client(7, "db/data")
        };
        let local = NbdClient {
            process: Some(812),
            program: Some("qemu-nbd".into()),
            closing: true,
            ..client(9, "db/data:ro")
        };
        let clients = vec![remote, local];
        let told = ClientList { node: "paris".into(), clients, guests: Items(1) };
        assert_eq!(
            text(&told),
            "7  db/data  192.0.2.7:51234  connected 1970-01-01 00:00:00Z  2 request(s) in progress, 1 MiB held\n\
             9  db/data:ro  qemu-nbd (process 812)  connected 1970-01-01 00:00:00Z  0 request(s) in progress, 0 B held  disconnecting\n\
             2 NBD client(s) on paris, 1 connection(s) without an export\n"
        );
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `helio dashboard`: a page in the browser of this host, for the daemons that this command line reaches.

mod forecast;
mod guide;
mod node;
mod simulated;

use crate::args::{At, Dashboard, OtherDaemon};
use crate::client::Client;
use crate::failure::failed;
use crate::signals::{Signals, Waited};
use crate::verbs::{print, status_path};
use anyhow::{Result, anyhow};
use forecast::Planned;
use guide::Commands;
use helio_api::Status;
use helio_play::Play;
use helio_web::{Daemon, Live, Token};
use node::Node;
use std::iter::once;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// How long the pages may take to read that the dashboard ends.
const LAST_WITHIN: Duration = Duration::from_secs(1);
/// Of a simulation for which none is given.
const SEED: u64 = 1;
const LISTEN: &str = "give --listen a free port of 127.0.0.1, or leave it out";

/// Serves the page until a signal ends it.
pub(crate) fn run(at: &At, wish: &Dashboard) -> Result<ExitCode> {
    let planned = wish.forecast.as_deref().map(Planned::read).transpose()?;
    let (daemons, simulation) = match wish.simulate {
        true => {
            let play = Play::start(wish.seed.unwrap_or(SEED));
            let play = play.map_err(failed("the simulation does not start", "try again"))?;
            let (daemons, controls) = simulated::parts(&play);
            (daemons, Some(controls))
        }
        false => (real(at, &wish.with)?, None),
    };
    let live = Live::new(daemons, Box::new(Commands::new(planned)), simulation, wish.interval);
    let token = Token::new().map_err(failed("the kernel gives no random numbers", "try again"))?;
    let mut signals = Signals::catch()?;
    let (stop, stopping) = watch::channel(false);
    let served = async {
        let listener = TcpListener::bind(wish.listen).await;
        let cannot = format!("cannot listen on {}", wish.listen);
        let listener = listener.map_err(failed(cannot, LISTEN))?;
        let address = listener.local_addr()?;
        announce(address, &token)?;
        tokio::spawn(Arc::clone(&live).run());
        helio_web::serve(listener, live, token, stopping).await;
        anyhow::Ok(())
    };
    let mut served = std::pin::pin!(served);
    match signals.within(Duration::MAX, served.as_mut()) {
        Waited::Ended(ended) => ended?,
        Waited::Late => unreachable!("there is no limit"),
        Waited::Signal(_) => {
            stop.send_replace(true);
            // A page that does not read is left.
            if let Waited::Ended(ended) = signals.within(LAST_WITHIN, served) {
                ended?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The daemons that run.
fn real(at: &At, with: &[OtherDaemon]) -> Result<Vec<Arc<dyn Daemon>>> {
    let places: Vec<At> = once(at.clone()).chain(with.iter().map(|place| place.at(at))).collect();
    someone_responds(&places)?;
    let options = once(None).chain(with.iter().map(|place| Some(place.options())));
    let nodes = places.iter().zip(options);
    nodes.map(|(at, options)| Ok(Arc::new(Node::new(at, options)?) as Arc<dyn Daemon>)).collect()
}

/// Checks that a daemon responds, and that no node is named twice. A single daemon that does not respond is shown on the page.
fn someone_responds(places: &[At]) -> Result<()> {
    let (mut failed, mut nodes) = (None, Vec::new());
    for at in places {
        match Client::new(at)?.get::<Status>(&status_path(None)) {
            Ok(Status { node, .. }) if nodes.contains(&node) => {
                return Err(anyhow!(
                    "the command line names node {node} twice\n  hint: name each node once"
                ));
            }
            Ok(Status { node, .. }) => nodes.push(node),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.filter(|_| nodes.is_empty()).map_or(Ok(()), |error| Err(error.into()))
}

fn announce(address: SocketAddr, token: &Token) -> Result<()> {
    print(&format!("http://{address}/{token}/\n"))?;
    eprintln!(
        "open this address in a browser of this host; anyone who has it can run the actions of the page. Ctrl-C ends the dashboard\n\
         from another host: ssh -L {port}:{address} HOST, then open it there",
        port = address.port()
    );
    Ok(())
}

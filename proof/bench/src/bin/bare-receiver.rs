// SPDX-License-Identifier: Apache-2.0
//! The far end of `bare-two-leg`: writes past the page cache what arrives over TCP and returns 64 bytes.

use anyhow::{Context, Result};
use clap::Parser;
use helio_bench::leg::Leg;
use helio_bench::serve::{How, serve};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

/// Receives the second leg.
#[derive(Parser)]
struct Arguments {
    /// Where to listen.
    listen: SocketAddr,
    /// The file to write.
    file: PathBuf,
    /// Look for work so many microseconds before sleeping.
    #[arg(long, default_value_t = 0)]
    spin_us: u64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let how = How { buffered: false, spin: Duration::from_micros(arguments.spin_us) };
    let listener = TcpListener::bind(arguments.listen).context("where to listen")?;
    loop {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        serve::<Leg>(&arguments.file, stream.into(), how)?;
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Writes every target's seeds to folders a fuzzer can begin with: `cargo run -p helio-fuzz --example seeds -- FOLDER`.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| io::Error::other("name a folder to write to"))?;
    for target in helio_fuzz::TARGETS {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder)?;
        for (name, bytes) in (target.seeds)() {
            fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}

// SPDX-License-Identifier: Apache-2.0
//! Commands that risk data or drop clients ask on a terminal. Elsewhere, and with `--json`, they need `--yes`.

use crate::client::{Client, ClientError};
use crate::request::Request;
use anyhow::Result;
use helio_api::{Accepted, ApiError, code};
use std::io::IsTerminal;

/// Whether a command may do what it asks about.
#[derive(Clone, Copy)]
pub(crate) struct Consent {
    /// `--yes`.
    pub(crate) yes: bool,
    /// `--json`: a program reads the output.
    pub(crate) json: bool,
}

impl Consent {
    /// Asks before a command that this program knows to be risky. An error if the answer is not yes.
    pub(crate) fn get(self, stake: &str, question: &str) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        if self.may_ask() {
            eprintln!("at stake: {stake}");
            if asked(question)? {
                return Ok(());
            }
            return Err(declined());
        }
        let error = ApiError::new(
            code::NEEDS_CONFIRMATION,
            format!("nothing was changed: confirmation is missing; at stake: {stake}"),
            "repeat the command with --yes",
        );
        Err(ClientError::Refused(Box::new(error)).into())
    }

    /// Runs a command of which the daemon decides whether it is risky, and what is at stake.
    pub(crate) fn run(
        self,
        question: &str,
        ask: impl Fn(bool) -> Result<Accepted, ClientError>,
    ) -> Result<Accepted> {
        let error = match ask(self.yes) {
            Ok(done) => return Ok(done),
            Err(ClientError::Refused(error)) => error,
            Err(other) => return Err(other.into()),
        };
        if let (Some(stake), false) = (&error.at_stake, self.json) {
            eprintln!("at stake: {}", stake.text);
        }
        if error.code != code::NEEDS_CONFIRMATION || !self.may_ask() {
            return Err(ClientError::Refused(error).into());
        }
        if asked(question)? { Ok(ask(true)?) } else { Err(declined()) }
    }

    /// The same, of a request that is confirmed to the daemon.
    pub(crate) fn request(self, client: &Client, group: &str, wish: &Request) -> Result<Accepted> {
        let Some((confirmed, question)) = wish.confirmed(group) else {
            return Ok(wish.post(client, group)?);
        };
        self.run(&question, |yes| if yes { &confirmed } else { wish }.post(client, group))
    }

    fn may_ask(self) -> bool {
        !self.json && std::io::stdin().is_terminal()
    }
}

fn asked(question: &str) -> Result<bool> {
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn declined() -> anyhow::Error {
    let text = "not confirmed; nothing was changed";
    let error = ApiError::new(code::NEEDS_CONFIRMATION, text, "answer y, or use --yes");
    ClientError::Refused(Box::new(error)).into()
}

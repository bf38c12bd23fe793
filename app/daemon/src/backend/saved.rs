// SPDX-License-Identifier: Apache-2.0
//! Data that is saved before it is discarded or overwritten: saving, listing and deleting it.

use super::{Daemon, accepted};
use crate::control::Reply;
use crate::saved::{self, Place, SaveError, Saved};
use crate::shard::Losing;
use helio_api::{ApiError, AtStake, SavedCopy, SavedDeleteRequest, SavedList, code};
use helio_driver::Host;
use helio_units::Bytes;
use std::io;
use std::path::PathBuf;

impl Daemon {
    fn saved_limit(&self) -> Bytes {
        // A daemon runs as a node of its file.
        self.config().nodes.get(&self.node).map_or(Bytes::ZERO, |node| node.saved_limit)
    }

    /// Saves what would be lost. The limit is for the state directory; a directory that was named has none.
    pub(super) async fn save(
        &self,
        group: &str,
        dir: Option<String>,
        losing: Losing,
        why: &'static str,
    ) -> Result<Saved, ApiError> {
        let limit = dir.is_none().then(|| self.saved_limit());
        let dir = dir.map_or_else(|| self.state.clone(), PathBuf::from);
        let (name, now) = (group.to_owned(), self.clock.wall_now());
        let host = Host::clone(&self.host);
        let save =
            move || saved::save(&host, &Place { dir, limit }, (&name, why), now, &losing.parts);
        self.blocking(save).await?.map_err(|error| {
            let (code, hint) = match error {
                SaveError::NoRoom { .. } => {
                    ("no-room", "free space (`helio saved list`, `helio saved delete NAME`), or name another \
                                 directory with --save")
                }
                SaveError::Limit { .. } => {
                    ("saved-limit", "`helio saved list` and `helio saved delete NAME`; or raise `saved-limit`, or name another directory with --save")
                }
                SaveError::Io { .. } => ("not-saved", "free space, or name another directory with --save"),
            };
            ApiError::new(code, format!("nothing was discarded: {error}"), hint)
        })
    }

    pub(super) async fn list_saved(&self) -> Result<SavedList, ApiError> {
        let (host, dir) = (Host::clone(&self.host), self.state.clone());
        let saved = self.blocking(move || saved::list(&host, &dir)).await?.map_err(unreadable)?;
        let used_bytes = saved.iter().fold(Bytes::ZERO, |sum, copy| sum + saved::bytes_of(copy));
        let limit_bytes = self.saved_limit();
        Ok(SavedList { node: self.node.clone(), used_bytes, limit_bytes, saved })
    }

    /// Shows what would be lost, and deletes it once that was confirmed.
    pub(super) async fn delete_saved(&self, wish: SavedDeleteRequest) -> Result<Reply, ApiError> {
        let SavedDeleteRequest { name, all, confirmed } = wish;
        if name.is_some() == all {
            let hint = "send either `name` or `all`";
            return Err(ApiError::new(
                code::BAD_REQUEST,
                "the request does not say what to delete",
                hint,
            ));
        }
        let mut chosen = self.list_saved().await?.saved;
        chosen.retain(|copy| all || name.as_ref() == Some(&copy.name));
        if let Some(name) = name.filter(|_| chosen.is_empty()) {
            let text = format!("{} has no saved data named {name}", self.node);
            return Err(ApiError::new("unknown-saved", text, "`helio saved list` shows the names"));
        }
        let stake = stake(&chosen);
        if !confirmed && !chosen.is_empty() {
            let text = format!("{} would be deleted; it exists nowhere else", stake.text);
            let hint = "repeat with --yes if it may be lost";
            let mut error = ApiError::new(code::NEEDS_CONFIRMATION, text, hint);
            error.at_stake = Some(stake);
            return Err(error);
        }
        let (host, dir) = (Host::clone(&self.host), self.state.clone());
        let delete = move || chosen.iter().try_for_each(|copy| saved::delete(&host, &dir, copy));
        self.blocking(delete).await?.map_err(unreadable)?;
        let done = format!("deleted {}", stake.text);
        tracing::info!("{done}");
        Ok(accepted(done))
    }
}

/// What would be lost with these.
fn stake(chosen: &[SavedCopy]) -> AtStake {
    let bytes = chosen.iter().fold(Bytes::ZERO, |sum, copy| sum + saved::bytes_of(copy));
    let names: Vec<&str> = chosen.iter().map(|copy| copy.name.as_str()).collect();
    let names = if names.is_empty() { "no saved data".to_owned() } else { names.join(", ") };
    AtStake {
        since_ms: None,
        seconds: None,
        bytes: Some(bytes),
        writes: None,
        unknown: None,
        last_contact_ms: None,
        text: format!("{bytes} of saved data: {names}"),
    }
}

fn unreadable(error: io::Error) -> ApiError {
    ApiError::new("not-saved", format!("saved data: {error}"), "check the state directory")
}

// SPDX-License-Identifier: Apache-2.0
//! Which group or volume a command is about, if its name is omitted.

use crate::args::Named;
use crate::client::{Client, ClientError};
use crate::verbs::one_group;
use anyhow::Result;
use helio_api::{ApiError, Status, paths};

/// The group that is named, or the daemon's only one.
pub(crate) fn group(client: &Client, named: Option<String>) -> Result<String> {
    if let Some(group) = named {
        return Ok(group);
    }
    let status: Status = client.get(paths::STATUS)?;
    let served = status.groups.into_iter().map(|group| group.name);
    let failed = status.failed.into_iter().map(|group| group.name);
    only("which-group", "group", &status.node, served.chain(failed).collect())
}

/// The volume that is named, or the only one of the group.
pub(crate) fn volume(client: &Client, named: Option<Named>) -> Result<(String, String)> {
    let (named, volume) = named.map_or((None, None), |it| (Some(it.group), it.volume));
    let group = group(client, named)?;
    if let Some(volume) = volume {
        return Ok((group, volume));
    }
    let volumes = one_group(client, &group)?.volumes;
    let names = volumes.into_iter().map(|volume| format!("{group}/{}", volume.name)).collect();
    let name = only("which-volume", "volume", &group, names)?;
    let volume = name.split_once('/').map_or(name.as_str(), |(_, volume)| volume).to_owned();
    Ok((group, volume))
}

/// The only name, or a refusal that lists all of them.
fn only(code: &str, what: &str, of: &str, mut names: Vec<String>) -> Result<String> {
    let text = match names.len() {
        1 => return Ok(names.remove(0)),
        0 => format!("{of} has no {what}"),
        count => format!("the command names no {what}, and {of} has {count}"),
    };
    let refusal = ApiError::name_one_of(code, text, &names);
    Err(ClientError::Refused(Box::new(refusal)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_omitted_name_is_the_only_one_or_all_are_listed() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(only("which-group", "group", "paris", names(&["db"])).expect("one"), "db");
        let several = only("which-group", "group", "paris", names(&["db", "mail"]));
        let text = several.expect_err("two").to_string();
        assert!(text.contains("paris has 2\n  hint: name one of: db, mail"), "{text}");
        let none = only("which-group", "group", "paris", Vec::new()).expect_err("none");
        assert!(none.to_string().contains("paris has no group\n  hint: "), "{none}");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Commands of `drbdadm` that helio does not have, and what does the same here. They are no aliases: some of them differ
//! in what they overwrite.

/// The command, and the hint; `{of}` stands for the group, if one was typed.
const TIPS: [(&str, &str); 21] = [
    (
        "up",
        "`systemctl start helio` starts the daemon, which serves every group of its configuration",
    ),
    ("down", "`systemctl stop helio` stops the daemon and all its groups"),
    ("primary", "`helio promote{of}` makes this node primary"),
    ("secondary", "`helio demote{of}` makes this node secondary"),
    ("connect", "nodes connect by themselves; `helio resume{of}` ends a pause"),
    ("disconnect", "`helio pause{of}` stops replication"),
    ("pause-sync", "`helio pause{of}` stops replication"),
    ("resume-sync", "`helio resume{of}` ends a pause and resyncs"),
    (
        "invalidate",
        "to overwrite the secondary: `helio resync{of} --full` on the primary; to overwrite the primary: `helio resync{of} --full --reverse` on the primary",
    ),
    (
        "invalidate-remote",
        "`helio resync{of} --full` on the primary overwrites the secondary where it differs",
    ),
    ("adjust", "`helio apply` applies the changed configuration file"),
    (
        "create-md",
        "a daemon makes metadata at its first start; `helio metadata create --help` replaces metadata that is lost",
    ),
    (
        "dump",
        "`helio check --help` checks the configuration file; `helio status{of} -v` shows what is in effect",
    ),
    ("dump-md", "`helio inspect{of}` shows the metadata of a group"),
    ("cstate", "`helio status{of} -v` shows the connection"),
    ("dstate", "`helio status{of} -v` shows both copies"),
    ("role", "`helio status{of}` shows the roles; `*` marks the primary"),
    (
        "outdate",
        "no command is needed: a node that may not have all writes is promoted only with --force",
    ),
    (
        "new-current-uuid",
        "no command is needed: the first resync sends only what differs; `helio seed --help` uses a shipped disk",
    ),
    ("resize", "a volume keeps its size; copy the data to a larger volume of a new group"),
    ("wait-connect", "`helio status{of} --check` exits with 0 when the copies are in sync"),
];

/// Why a command of `drbdadm` is refused, and what to use.
pub(super) fn refusal(command: &str, group: Option<&str>) -> Option<String> {
    let (_, tip) = TIPS.iter().find(|(name, _)| *name == command)?;
    let tip = tip.replace("{of}", &group.map_or_else(String::new, |group| format!(" {group}")));
    Some(format!("helio has no command `{command}`, which is one of drbdadm\n  hint: {tip}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{args, usage};
    use clap::error::ErrorKind;
    use helio_api::form;
    use std::ffi::OsString;

    fn refused(line: &str) -> helio_api::ApiError {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        usage::error(&args::read(words).expect_err(line), "helio")
    }

    #[test]
    fn a_command_of_drbdadm_is_refused_with_ours() {
        let report = refused("helio --state /a primary db --force");
        assert_eq!(report.error, "helio has no command `primary`, which is one of drbdadm");
        assert_eq!(report.hint.as_deref(), Some("`helio promote db` makes this node primary"));
        assert_eq!(refused("helio adjust").error.matches("adjust").count(), 1);
        assert!(refused("helio role").to_string().contains("`helio status` shows the roles"));
    }

    #[test]
    fn every_tip_names_commands_that_exist_and_takes_no_name_of_ours() {
        for (name, tip) in TIPS {
            let report = refused(&format!("helio {name} db"));
            assert_eq!(form::faults(&report), Vec::<String>::new(), "{report}");
            assert!(args::command().find_subcommand(name).is_none(), "`helio {name}` is a command");
            for command in tip.split('`').filter(|piece| piece.starts_with("helio ")) {
                let line = command.replace("{of}", " db");
                let read = args::read(line.split(' ').map(OsString::from).collect());
                let runs = match read {
                    Err(error) => error.kind() == ErrorKind::DisplayHelp,
                    Ok(asked) => asked.notice.is_none(),
                };
                assert!(runs, "`{line}`");
            }
        }
    }
}

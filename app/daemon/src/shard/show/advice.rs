// SPDX-License-Identifier: Apache-2.0
//! What an operator does next about a group of two nodes, if nothing failed, refused or waits. One table: the first row whose facts
//! hold. Each text must be true for all that its facts leave open: without a connection, the peer may have been promoted since.

use helio_units::{Role, State};

/// The connection to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contact {
    Connected,
    /// There is none. A peer that runs may not have had the time to connect.
    Expected,
    /// There is none, for longer than a peer that runs needs to connect.
    Missing,
}

/// The advice is chosen by these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) role: Role,
    pub(super) state: State,
    pub(super) contact: Contact,
    /// The role of the peer in the last handshake; none since this daemon started.
    pub(super) peer: Option<Role>,
    /// A change of role is in progress.
    pub(super) changing: bool,
    /// This node was primary when it stopped, and is not primary again yet.
    pub(super) returning: bool,
    /// A disk is being shipped to the secondary.
    pub(super) ships: bool,
    /// An operator paused replication.
    pub(super) paused: bool,
    /// A resync starts without an operator.
    pub(super) autosync: bool,
    /// A verify found differences.
    pub(super) differs: bool,
    /// This secondary has the last writes.
    pub(super) ahead: bool,
    /// The peer has the last writes, as it reported last.
    pub(super) peer_ahead: bool,
    /// This node has no copy that counts: there never was one, or an operator discarded it.
    pub(super) new: bool,
    /// The connected peer has none either.
    pub(super) peer_new: bool,
    /// The connected peer is not primary, and has a complete copy.
    pub(super) peer_complete: bool,
    /// A consistent copy is preserved on this node.
    pub(super) preserved: bool,
    /// The connected primary has reported its state.
    pub(super) reported: bool,
    /// This secondary may become primary without its peer's consent.
    pub(super) lease: bool,
}

impl Facts {
    fn connected(&self) -> bool {
        self.contact == Contact::Connected
    }

    /// This is the secondary of a connected primary.
    fn follows(&self) -> bool {
        self.role == Role::Secondary && self.connected() && self.peer == Some(Role::Primary)
    }

    /// The nodes are connected, and neither is primary.
    fn idle(&self) -> bool {
        self.role == Role::Secondary && self.connected() && self.peer != Some(Role::Primary)
    }

    fn leads(&self) -> bool {
        self.role == Role::Primary
    }

    fn is(&self, state: State) -> bool {
        self.state == state
    }
}

/// What is put in place of these words in what a row says.
pub(super) struct Words<'a> {
    pub(super) group: &'a str,
    pub(super) node: &'a str,
    pub(super) peer: &'a str,
    /// The change of role that is in progress.
    pub(super) change: &'a str,
    /// What an operator does about two copies neither of which is known to be complete.
    pub(super) copies: &'a dyn Fn() -> String,
}

/// Label, what must hold, and what is said.
type Row = (&'static str, fn(&Facts) -> bool, &'static str);

const ROWS: [Row; 44] = [
    ("changing", |f| f.changing, "nothing; {node} is {change}"),
    // A primary, connected.
    (
        "ships",
        |f| f.leads() && f.ships,
        "when the shipped disk is in place on {peer}: `helio seed end {group}`",
    ),
    (
        "differs",
        |f| f.leads() && f.connected() && f.is(State::Replicating) && f.differs,
        "`helio resync {group}` copies the differences to {peer}; `helio verify start {group} --repair` looks for more",
    ),
    // A verify waits in that mode.
    (
        "differs-periodic",
        |f| f.leads() && f.connected() && f.is(State::Periodic) && f.differs,
        "`helio resync {group}` copies the differences to {peer}",
    ),
    (
        "replicates",
        |f| f.leads() && f.connected() && (f.is(State::Replicating) || f.is(State::Periodic)),
        "nothing",
    ),
    (
        "catches-up",
        |f| f.leads() && f.connected() && (f.is(State::CatchingUp) || f.is(State::Queuing)),
        "nothing; the group is in sync when the queue is sent",
    ),
    (
        "resyncs",
        |f| f.leads() && f.connected() && f.is(State::Syncing),
        "nothing; the group is in sync when the resync ends",
    ),
    (
        "needs-room",
        |f| f.leads() && f.connected() && f.is(State::NeedsRoom),
        "free space for before-images on {peer}, then `helio resync {group}`; or `helio resync {group} \
             --give-up-safe-copy`",
    ),
    ("paused", |f| f.leads() && f.connected() && f.paused, "`helio resume {group}` ends the pause"),
    ("resync", |f| f.leads() && f.connected(), "`helio resync {group}` copies the dirty regions"),
    // A primary without its peer. What the peer did since is unknown.
    (
        "rival",
        |f| f.leads() && f.peer == Some(Role::Primary),
        "make sure that {peer} serves no clients; it is resynced, or refused, when it returns",
    ),
    (
        "needs-room-and-peer",
        |f| f.leads() && f.is(State::NeedsRoom),
        "connect {peer} and free space for before-images there, then `helio resync {group}`; or, when it is connected, \
             `helio resync {group} --give-up-safe-copy`",
    ),
    ("paused-alone", |f| f.leads() && f.paused, "`helio resume {group}` ends the pause"),
    (
        "queues",
        |f| f.leads() && f.is(State::Queuing),
        "wait for or restore the link; queued writes are then sent, unless {peer} was promoted",
    ),
    (
        "alone",
        |f| f.leads() && f.autosync,
        "wait for or restore the link; a resync then starts, unless {peer} was promoted",
    ),
    ("alone-by-hand", Facts::leads, "restore the link to {peer}, then `helio resync {group}`"),
    // The secondary of a connected primary.
    (
        "ships-here",
        |f| f.follows() && f.ships,
        "when the shipped disk is in place on {node}: `helio seed end {group}` on {peer}",
    ),
    (
        "needs-room-here",
        |f| f.follows() && f.is(State::NeedsRoom),
        "enlarge the file system of the before-images or `safe-copy` on {node}, then `helio resync {group}` on {peer}",
    ),
    (
        "needs-sync",
        |f| f.follows() && f.is(State::NeedsSync),
        "nothing; {peer} completes the resync",
    ),
    ("follows-soon", |f| f.follows() && !f.reported, "nothing; {peer} has just connected"),
    (
        "follows-paused",
        |f| f.follows() && f.is(State::Logging) && f.paused,
        "`helio resume {group}` on {peer} ends the pause",
    ),
    (
        "follows-not",
        |f| f.follows() && f.is(State::Logging),
        "`helio resync {group}` on {peer} copies the dirty regions",
    ),
    (
        "follows-differs",
        |f| f.follows() && f.differs,
        "`helio resync {group}` on {peer} copies the differences to {node}",
    ),
    ("follows", Facts::follows, "nothing"),
    // Two connected secondaries.
    (
        "complete-there",
        |f| f.idle() && f.is(State::NeedsSync) && f.peer_complete,
        "`helio promote {group}` on {peer}, which then completes the resync",
    ),
    ("complete-nowhere", |f| f.idle() && !f.new && f.is(State::NeedsSync), "{copies}"),
    ("returns", |f| f.idle() && f.returning, "nothing; {node} waits for a report of {peer}"),
    ("new-here-nowhere", |f| f.idle() && f.new && !f.peer_complete, "{copies}"),
    (
        "new-pair",
        |f| f.idle() && f.new && f.peer_new,
        "`helio promote {group}` on the node that should be primary; it overwrites the data of the other one",
    ),
    (
        "new-here",
        |f| f.idle() && f.new,
        "`helio promote {group}` on {peer}, which then copies to {node}",
    ),
    ("ahead", |f| f.idle() && f.ahead, "`helio promote {group}` on {node}; do not promote {peer}"),
    (
        "peer-ahead",
        |f| f.idle() && f.peer_ahead,
        "`helio promote {group}` on {peer}; do not promote {node}",
    ),
    (
        "complete-here",
        |f| f.idle() && !f.peer_complete,
        "`helio promote {group}` on {node}, which then copies to {peer}",
    ),
    ("no-primary", Facts::idle, "`helio promote {group}` on the node that should be primary"),
    // A secondary without its peer.
    // A lease ends soon after the time in which a peer that runs connects.
    (
        "lease",
        |f| f.lease,
        "`helio promote {group}` while the lease is held; otherwise restore the link",
    ),
    ("expected", |f| f.contact == Contact::Expected, "wait: {peer} is expected to connect"),
    (
        "inconsistent",
        |f| f.is(State::NeedsSync) && f.preserved,
        "if {peer} is surely down: `helio promote {group} --force --restore`; otherwise connect it, and it completes the \
             resync",
    ),
    (
        "inconsistent-without-copy",
        |f| f.is(State::NeedsSync) && !f.new,
        "connect {peer}: the copy on {node} is inconsistent until {peer} completes the resync",
    ),
    (
        "ahead-alone",
        |f| f.ahead,
        "restore the link, then `helio promote {group}` on {node}; if {peer} is surely down and was not promoted: \
             `helio promote {group} --force`",
    ),
    (
        "peer-ahead-away",
        |f| f.peer_ahead,
        "restore the link, then `helio promote {group}` on {peer}, which has the last writes; if {peer} is lost: \
             `helio promote {group} --force`, without them",
    ),
    (
        "returns-alone",
        |f| f.returning,
        "restore the link: {node} is then primary again, unless {peer} was promoted; if {peer} is surely down and was \
             not promoted: `helio promote {group} --force`",
    ),
    ("new-alone", |f| f.new, "start the daemon of {peer}, or restore the link"),
    (
        "no-report",
        |f| f.peer.is_none(),
        "start the daemon of {peer}, or restore the link; if {peer} is surely down: `helio promote {group} --force`",
    ),
    (
        "lost",
        |_| true,
        "if {peer} is surely down: `helio promote {group} --force`; otherwise restore the link",
    ),
];

/// The advice for these facts.
pub(super) fn of(facts: &Facts, words: &Words<'_>) -> String {
    let &Words { group, node, peer, change, copies } = words;
    let all = [("{group}", group), ("{node}", node), ("{peer}", peer), ("{change}", change)];
    let text = String::from(row(facts).2);
    let text = all.into_iter().fold(text, |text, (word, meaning)| text.replace(word, meaning));
    if text.contains("{copies}") { text.replace("{copies}", &copies()) } else { text }
}

fn row(facts: &Facts) -> &'static Row {
    ROWS.iter().find(|(_, holds, _)| holds(facts)).expect("the last row holds for all facts")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const FLAGS: u32 = 14;

    /// Whether a node can have these facts at once.
    fn exists(f: &Facts) -> bool {
        let (leads, connected) = (f.leads(), f.connected());
        let follows = f.follows();
        let of_secondary = f.returning || f.ahead || f.new || f.preserved || f.lease;
        (!connected || f.peer.is_some())
            && !(leads && (of_secondary || f.is(State::NeedsSync)))
            && (leads || follows || matches!(f.state, State::Logging | State::NeedsSync))
            && (follows || !f.reported)
            && (leads || follows || !(f.ships || f.paused || f.differs))
            && (connected || !(f.peer_new || f.peer_complete))
            && !(f.peer == Some(Role::Primary) && (f.peer_complete || f.peer_ahead))
            && !(f.new && (f.ahead || f.lease || f.preserved || f.returning))
            && !(f.peer_new && f.peer_ahead)
            && (f.is(State::NeedsSync) || follows || !f.preserved)
            && !(f.lease && (f.returning || f.ahead || f.is(State::NeedsSync)))
            && !(f.lease && (connected || f.peer.is_none()))
    }

    /// Every combination of facts that a node can have.
    fn all() -> impl Iterator<Item = Facts> {
        let contacts = [Contact::Connected, Contact::Expected, Contact::Missing];
        let peers = [None, Some(Role::Primary), Some(Role::Secondary)];
        let words = [Role::Primary, Role::Secondary].into_iter().flat_map(move |role| {
            State::ALL.into_iter().flat_map(move |state| {
                contacts.into_iter().flat_map(move |contact| {
                    peers.into_iter().map(move |peer| (role, state, contact, peer))
                })
            })
        });
        words
            .flat_map(|(role, state, contact, peer)| {
                (0..1_u32 << FLAGS).map(move |flags| {
                    let flag = |n: u32| flags & 1 << n != 0;
                    Facts {
                        role,
                        state,
                        contact,
                        peer,
                        changing: flag(0),
                        returning: flag(1),
                        ships: flag(2),
                        paused: flag(3),
                        autosync: flag(4),
                        differs: flag(5),
                        ahead: flag(6),
                        peer_ahead: flag(7),
                        new: flag(8),
                        peer_new: flag(9),
                        peer_complete: flag(10),
                        preserved: flag(11),
                        reported: flag(12),
                        lease: flag(13),
                    }
                })
            })
            .filter(exists)
    }

    #[test]
    fn every_combination_of_facts_has_an_advice_that_is_true_for_it_and_no_row_is_idle() {
        let mut found = BTreeSet::new();
        for facts in all() {
            let (label, _, text) = row(&facts);
            if !found.insert((*label, facts.role == Role::Primary, facts.contact as u8)) {
                continue;
            }
            let has = |words: &str| text.contains(words);
            let (missing, leads) = (facts.contact == Contact::Missing, facts.leads());
            // Force is for a peer that had the time to connect.
            assert!(!has("--force") || (missing && !leads), "{label}");
            assert!(!has("surely down") || missing, "{label}");
            // What happens when the link is back depends on what the peer did.
            let promises = has(" are then sent") || has(" then starts");
            assert!(!promises || has("unless {peer} was promoted"), "{label}");
            assert!(!facts.connected() || !(has(" link") || has("surely")), "{label}");
            // Where there is no peer, something is to be done, or waited for.
            assert!(facts.connected() || facts.changing || !text.starts_with("nothing"), "{label}");
        }
        let found: BTreeSet<&str> = found.into_iter().map(|(label, ..)| label).collect();
        let idle: Vec<&str> =
            ROWS.iter().map(|(label, ..)| *label).filter(|label| !found.contains(label)).collect();
        assert!(idle.is_empty(), "rows that no facts reach: {idle:?}");
    }

    /// A primary in sync; stories change what they are about.
    const CALM: Facts = Facts {
        role: Role::Primary,
        state: State::Replicating,
        contact: Contact::Connected,
        peer: Some(Role::Secondary),
        changing: false,
        returning: false,
        ships: false,
        paused: false,
        autosync: true,
        differs: false,
        ahead: false,
        peer_ahead: false,
        new: false,
        peer_new: false,
        peer_complete: true,
        preserved: false,
        reported: true,
        lease: false,
    };

    fn says(facts: Facts) -> String {
        let (group, node, peer) = ("db", "paris", "lyon");
        of(
            &facts,
            &Words { group, node, peer, change: "handing over", copies: &|| "neither".into() },
        )
    }

    #[test]
    fn a_primary_that_is_cut_off_is_warned_of_a_peer_that_was_primary_in_every_state() {
        let cut = Facts { contact: Contact::Missing, state: State::Queuing, ..CALM };
        assert_eq!(
            says(cut),
            "wait for or restore the link; queued writes are then sent, unless lyon was promoted"
        );
        assert_eq!(
            says(Facts { state: State::Logging, peer: None, ..cut }),
            "wait for or restore the link; a resync then starts, unless lyon was promoted"
        );
        for state in [State::Queuing, State::Logging, State::NeedsRoom] {
            let rival = says(Facts { peer: Some(Role::Primary), state, ..cut });
            assert!(rival.starts_with("make sure that lyon serves no clients; "), "{rival}");
        }
    }

    #[test]
    fn force_is_advised_once_a_peer_that_runs_would_have_connected() {
        let follower = Facts {
            role: Role::Secondary,
            state: State::Logging,
            contact: Contact::Expected,
            peer: Some(Role::Primary),
            ..CALM
        };
        for returning in [false, true] {
            let soon = says(Facts { returning, ..follower });
            assert_eq!(soon, "wait: lyon is expected to connect");
        }
        let missing = Facts { contact: Contact::Missing, ..follower };
        assert_eq!(
            says(missing),
            "if lyon is surely down: `helio promote db --force`; otherwise restore the link"
        );
        let unheard = says(Facts { peer: None, ..missing });
        assert!(
            unheard.ends_with("; if lyon is surely down: `helio promote db --force`"),
            "{unheard}"
        );
        let new = says(Facts { new: true, peer: None, ..missing });
        assert!(!new.contains("--force"), "there is no copy to promote: {new}");
        // It may have been promoted before it went down.
        let returning = says(Facts { returning: true, peer: None, ..missing });
        assert!(
            returning.starts_with("restore the link: paris is then primary again, unless lyon ")
        );
        for contact in [Contact::Expected, Contact::Missing] {
            let held = says(Facts { lease: true, contact, ..missing });
            assert!(held.starts_with("`helio promote db` while the lease is held; "), "{held}");
        }
    }

    #[test]
    fn a_node_with_the_last_writes_is_not_advised_to_ask_a_peer_that_is_away() {
        let idle = Facts { role: Role::Secondary, state: State::Logging, ahead: true, ..CALM };
        assert_eq!(says(idle), "`helio promote db` on paris; do not promote lyon");
        let away = says(Facts { contact: Contact::Missing, ..idle });
        assert!(away.starts_with("restore the link, then `helio promote db` on paris; "), "{away}");
    }

    #[test]
    fn the_first_promotion_says_that_it_overwrites_the_other_node() {
        let new = Facts { role: Role::Secondary, state: State::Logging, new: true, ..CALM };
        let pair = says(Facts { peer_new: true, ..new });
        assert!(pair.ends_with("; it overwrites the data of the other one"), "{pair}");
        assert_eq!(says(new), "`helio promote db` on lyon, which then copies to paris");
    }

    #[test]
    fn of_differences_in_mode_periodic_both_nodes_advise_the_resync_and_no_verify() {
        let differs = Facts { state: State::Periodic, differs: true, ..CALM };
        assert_eq!(says(differs), "`helio resync db` copies the differences to lyon");
        let peer = Some(Role::Primary);
        let there = says(Facts { role: Role::Secondary, peer, ..differs });
        assert_eq!(there, "`helio resync db` on lyon copies the differences to paris");
    }

    #[test]
    fn a_change_of_role_is_waited_for() {
        assert_eq!(says(Facts { changing: true, ..CALM }), "nothing; paris is handing over");
    }
}

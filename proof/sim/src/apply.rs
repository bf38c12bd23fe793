// SPDX-License-Identifier: Apache-2.0
//! `helio apply` in mid-run: a setting changes on both nodes, or on one of them alone; and what a hook says.

use crate::driver::Driver;
use crate::oracle::Oracle;
use crate::scenario::{pick, safe_copy, span};
use core::time::Duration;
use helio_engine::{
    Config, OnError, QUEUE_ITEMS_SNDR, QueueConfig, ResyncConfig, SafeCopy, WhenFull,
};
use helio_netmodel::Dice;
use helio_twin::{Cluster, Side};
use helio_units::{Bytes, Items, Mode, Rate};

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Mode,
    Queue,
    Timeouts,
    Autosync,
    Resync,
    Hold,
    Hook,
    SafeCopy,
    OnError,
}

impl Setting {
    pub(crate) const ALL: [Self; 9] = [
        Self::Mode,
        Self::Queue,
        Self::Timeouts,
        Self::Autosync,
        Self::Resync,
        Self::Hold,
        Self::Hook,
        Self::SafeCopy,
        Self::OnError,
    ];

    /// What the coverage report calls it.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Mode => "apply-mode",
            Self::Queue => "apply-queue",
            Self::Timeouts => "apply-timeouts",
            Self::Autosync => "apply-autosync",
            Self::Resync => "apply-resync",
            Self::Hold => "apply-hold",
            Self::Hook => "apply-hook",
            Self::SafeCopy => "apply-safe-copy",
            Self::OnError => "apply-on-error",
        }
    }

    /// The configuration with another value of it.
    fn changed(self, config: &Config, dice: &mut Dice) -> Config {
        let mut config = config.clone();
        let millis = Duration::from_millis;
        match self {
            Self::Mode => config.mode = pick(dice, &Mode::ALL),
            Self::Queue => {
                let memory =
                    [None, Some(Bytes::kib(16)), Some(Bytes::kib(256)), Some(Bytes::mib(1))];
                let policies = [WhenFull::Block, WhenFull::Log, WhenFull::Fail];
                let few = dice.chance(1, 3);
                config.queue = QueueConfig {
                    memory: pick(dice, &memory),
                    items: if few { Items(2 + dice.below(30)) } else { QUEUE_ITEMS_SNDR },
                    connected: pick(dice, &policies),
                    disconnected: pick(dice, &policies),
                    ..QueueConfig::default()
                };
            }
            Self::Timeouts => {
                config.peer_timeout = span(dice, millis(800), millis(4000));
                config.flush_limit = span(dice, millis(2000), millis(10_000));
                config.member_timeout = span(dice, millis(100), millis(2000));
            }
            Self::Autosync => config.autosync = !config.autosync,
            Self::Resync => {
                config.resync = ResyncConfig {
                    max_rate: dice.chance(1, 2).then(|| Rate(1 << (20 + dice.below(6)))),
                    min_rate: Rate(1 << (16 + dice.below(6))),
                    yields: dice.chance(1, 2),
                };
            }
            // Clocks of a story with leases count at the right speed, of one without they may leap: a lease is not
            // begun, and not given up, in the middle.
            Self::Hold if config.hold.is_zero() => {}
            Self::Hold => config.hold = span(dice, millis(500), config.peer_timeout * 5),
            Self::Hook => config.hook_before_sync = !config.hook_before_sync,
            Self::SafeCopy => config.safe_copy = safe_copy(dice, &config.volumes),
            Self::OnError => {
                config.on_error = match config.on_error {
                    OnError::Pass => OnError::ServeFromPeer,
                    OnError::ServeFromPeer => OnError::Pass,
                };
            }
        }
        config
    }
}

impl Driver {
    /// A setting changes, on that node or on both.
    pub(crate) fn apply(
        &mut self,
        setting: Setting,
        only: Option<Side>,
        cluster: &mut Cluster,
        oracle: &mut Oracle,
    ) {
        let config =
            setting.changed(&cluster.node(only.unwrap_or(Side::Paris)).config, &mut self.dice);
        for side in Side::BOTH.into_iter().filter(|side| only.is_none_or(|only| only == *side)) {
            let old = cluster.node(side).config.clone();
            // The oracle goes by the node's file, which a process that hangs does not read.
            if setting == Setting::SafeCopy && cluster.node(side).hangs(cluster.now()) {
                continue;
            }
            let names = (old.node.clone(), old.peer.clone());
            let mut new = Config { node: names.0, peer: names.1, ..config.clone() };
            // `helio mode` may have changed it since; only an applied mode changes it back.
            if let (Some(engine), true) = (&cluster.node(side).engine, setting != Setting::Mode) {
                new.mode = engine.view().words().mode;
            }
            if (old.safe_copy == SafeCopy::Off) != (config.safe_copy == SafeCopy::Off) {
                oracle.safe_copy_given_up();
                self.keeps_nothing = true;
            }
            if new == old || !cluster.reconfigure(side, new.clone()) {
                continue;
            }
            self.coverage.struck(setting.label());
            if only.is_some() {
                self.coverage.struck("apply-one-node");
            }
            let now = cluster.node(side).clock.read(cluster.now());
            let status = cluster.node(side).engine.as_ref().map(|engine| engine.view().status(now));
            let Some((mode, queue)) = status.and_then(|s| s.queue.map(|queue| (s.mode, queue)))
            else {
                continue;
            };
            if mode != new.mode || queue.bound_items != new.queue.items {
                self.misapplied = Some(format!("{side} goes on with {mode} and {queue:?}"));
            }
        }
    }
}

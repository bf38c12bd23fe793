#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Proves Heliograph's units and its rule for udev under a running systemd, in the guest that boot.sh made: the first boot
# installs them, the second looks at how the first ended and at how it was started itself, and kills the daemon, the third
# looks again. Every line it prints begins with pass or FAIL.
here=$(dirname "$(readlink -f "$0")")
repository=$here/../..
memory=/var/lib/prove
mkdir -p $memory
source "$here/ask.sh"
source "$here/install.sh"
source "$here/boots.sh"
source "$here/kills.sh"

# What is attached, and where each is mounted. The database is there if PostgreSQL is.
volumes="waits fails"
version=$(ls /usr/lib/postgresql 2> /dev/null | sort -n | tail -n 1)
[ -n "$version" ] && volumes="$volumes base"
database=postgresql@$version-main.service

boot=$(cat $memory/boots 2> /dev/null || echo 0)
boot=$((boot + 1))
echo "$boot" > $memory/boots
echo "=== boot $boot: systemd $(systemctl --version | head -n 1 | cut -d' ' -f2), Linux $(uname -r) ==="
timeout 120 systemctl is-system-running --wait > /dev/null
systemd-analyze time | head -n 1
keep_journal
case $boot in
  1)
    install_all || give_up
    stop_machine
    ;;
  2)
    look_at_last_stop
    look_at_start
    kill_daemon
    restart_daemon restarted restart
    restart_daemon stopped stop start
    stop_machine
    ;;
  *)
    look_at_last_stop
    look_at_start
    finish
    ;;
esac

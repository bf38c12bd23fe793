# SPDX-License-Identifier: Apache-2.0
# The daemon is killed under its users, then restarted, stopped and started by its operator; sourced by prove.sh.

kill_daemon() {
  local before waited base
  before=$(property helio.service MainPID)
  waited=$(property writer@waits.service MainPID)
  [ -z "$version" ] || base=$(property "$database" MainPID)
  kill -KILL "$before"
  check "killed: systemd starts the daemon again" eventually 30 another_daemon "$before"
  check "killed: it was started again once" is NRestarts "$(property helio.service NRestarts)" 1
  check "killed: waits: its device came back under its user" eventually 30 goes_on waits
  check "killed: waits: the application only waited" is "its process" "$(property writer@waits.service MainPID)" "$waited"
  check "killed: waits: it is still mounted" mounted waits
  check "killed: waits: systemd's unit of the device stayed" state "$(device_of waits)" active
  if [ -n "$version" ]; then
    check "killed: base: the database answers" write_database
    check "killed: base: it never stopped" is "its process" "$(property "$database" MainPID)" "$base"
  fi
  mend_fails
}

another_daemon() {
  state helio.service active && [ "$(property helio.service MainPID)" != "$1" ] && helio status > /dev/null
}

# Its application is told of more lines.
goes_on() {
  local now
  now=$(cat "$memory/$1")
  eventually 5 grew "$1" "$now"
}

grew() {
  [ "$(cat "$memory/$1")" -gt "$2" ]
}

# Through FUSE there are errors, until the file system is mounted anew from the device of the same name.
mend_fails() {
  local told
  check "killed: fails: the application had an error" eventually 30 state writer@fails.service failed
  told=$(cat $memory/fails)
  check "killed: fails: it is attached anew" eventually 30 another_device fails
  check "killed: fails: it is unmounted" systemctl stop "$(mount_of fails)"
  check "killed: fails: the application is started, and its mount with it" systemctl start writer@fails.service
  check "killed: fails: the file system is on the new device" mounted fails
  check "killed: fails: what the application was told is there" lines_are_there fails "$told"
  check "killed: fails: it goes on" eventually 30 goes_on fails
  check "killed: no unit has failed in the end" nothing_failed
}

# The stable name leads to another device than the one that is mounted.
another_device() {
  local now
  now=$(readlink -f "/dev/heliograph/db/$1")
  [ -b "$now" ] && [ "$now" != "$(findmnt -no SOURCE "$(where "$1")")" ]
}

# What an operator does to a daemon that works, by the words for systemctl behind the name of it. Who uses a device
# through FUSE is stopped for it, and started after the daemon: the unit of the device stays, and does not start it.
restart_daemon() {
  local how=$1 word waited
  shift
  waited=$(property writer@waits.service MainPID)
  check "$how: fails: application and mount are stopped" systemctl stop "$(mount_of fails)"
  for word in "$@"; do
    check "$how: the daemon: systemctl $word" systemctl "$word" helio.service
    check "$how: fails: the unit of its device stays" state "$(attach_of fails)" active
  done
  check "$how: waits: it goes on" eventually 60 goes_on waits
  check "$how: waits: the application only waited" is "its process" "$(property writer@waits.service MainPID)" "$waited"
  check "$how: fails: the application is started, and its mount with it" systemctl start writer@fails.service
  check "$how: fails: it goes on" eventually 60 goes_on fails
  check "$how: nothing had an error" not errors_since_restart
  [ -z "$version" ] || check "$how: base: the database answers" write_database
  check "$how: no unit has failed" nothing_failed
}

# What the kernel and systemd said since the last time that somebody asked systemd to stop the daemon.
errors_since_restart() {
  journalctl -q -b 0 -o short-monotonic --no-pager | tac | sed '/Stopping helio.service/q' |
    grep -E 'I/O error|EXT4-fs error|Failed with result|timed out'
}

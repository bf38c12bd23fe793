# SPDX-License-Identifier: Apache-2.0
# How a boot began and how the last one ended, by systemd's own record of it; sourced by prove.sh.

# Daemon, device, mount and application were started in this order, and all of it works.
look_at_start() {
  local volume
  check "the daemon is started" eventually 60 state helio.service active
  for volume in $volumes; do
    check "$volume: its application is started" eventually 60 state "$(application_of "$volume")" active
    check "$volume: it is attached as recorded" attached "$volume"
    check "$volume: daemon, device, mount, application were started in this order" started_in_order "$volume"
    check "$volume: the file system is on its device" mounted "$volume"
    check "$volume: its data is there" data_is_there "$volume"
    check "$volume: the file system was clean" clean "$volume"
  done
  check "no unit has failed" nothing_failed
}

started_in_order() {
  in_order helio.service "$(attach_of "$1")" && in_order "$(attach_of "$1")" "$(mount_of "$1")" &&
    in_order "$(device_of "$1")" "$(mount_of "$1")" && in_order "$(mount_of "$1")" "$(application_of "$1")" started
}

# One had started before the other one began to.
in_order() {
  echo "$1 before $2:"
  before "$(moment first 0 "$1" started)" "$(moment first 0 "$2" "${3:-starting}")"
}

attached() {
  helio attach --list | tee /dev/stderr | grep -q "^db/$1: /dev/heliograph/db/$1$"
}

mounted() {
  local source
  source=$(findmnt -no SOURCE "$(where "$1")")
  echo "$source is mounted, $(readlink -f "/dev/heliograph/db/$1") is attached"
  [ -n "$source" ] && [ "$(readlink -f "$source")" = "$(readlink -f "/dev/heliograph/db/$1")" ]
}

# What an application was told is durable is there.
data_is_there() {
  if [ "$1" = base ]; then
    is "the number of rows" "$(ask_database 'select count(*) from lines')" "$(cat $memory/rows)"
  else
    lines_are_there "$1" "$(cat "$memory/$1.stopped")"
  fi
}

lines_are_there() {
  is "line $2" "$(sed -n "${2}p" "/srv/$1/lines")" "$2"
}

# Neither the check before the mount nor the mount had anything to mend.
clean() {
  local device checked kernel
  device=$(readlink -f "/dev/heliograph/db/$1")
  checked=$(grep "systemd-fsck.*$device:" $memory/journal0)
  kernel=$(grep -F "EXT4-fs (${device#/dev/})" $memory/journal0)
  echo "$checked"
  echo "$kernel"
  grep -q ': clean, ' <<< "$checked" && grep -q 'mounted filesystem' <<< "$kernel" && ! grep -qi 'recover' <<< "$checked$kernel"
}

nothing_failed() {
  local failed
  failed=$(systemctl list-units --failed --plain --no-legend)
  echo "$failed"
  [ -z "$failed" ]
}

# The boot before was ended in the opposite order, without haste and without errors.
look_at_last_stop() {
  local volume
  for volume in $volumes; do
    check "$volume: application, mount, device, daemon were stopped in this order" stopped_in_order "$volume"
  done
  check "the daemon said goodbye to the other node, which was stopped last" stopped_before helio.service lyon.service
  check "nothing had to be killed or given up" silent_at_last_stop 'timed out|Killing process|Failed with result|Failed unmounting|target is busy'
  check "no device had an error" silent_at_last_stop 'I/O error|EXT4-fs error|Aborting journal'
  check "the daemon was not left waiting for users" silent_at_last_stop 'waiting for devices in use|waits for the next daemon'
}

# What stop_machine writes into the journal.
stop_begins="the proof asks for the reboot"

# Looks from where the stop began: before it the daemon was killed.
silent_at_last_stop() {
  local said
  said=$(sed -n "/$stop_begins/,\$p" $memory/journal-1)
  [ -n "$said" ] || { echo "the journal of the last boot does not say \"$stop_begins\""; return 1; }
  ! grep -E "$1" <<< "$said"
}

stopped_in_order() {
  stopped_before "$(application_of "$1")" "$(mount_of "$1")" &&
    stopped_before "$(mount_of "$1")" "$(attach_of "$1")" &&
    stopped_before "$(attach_of "$1")" helio.service
}

stopped_before() {
  echo "$1 before $2:"
  before "$(moment last -1 "$1" stopped)" "$(moment last -1 "$2" stopping)"
}

# Ends this boot, with all of the units in use.
stop_machine() {
  local volume
  write_database
  # The applications go on meanwhile: what they were told by now is the least that is to be found.
  for volume in waits fails; do cp "$memory/$volume" "$memory/$volume.stopped"; done
  systemd-cat -t prove echo "$stop_begins"
  check "the journal has where the stop begins" eventually 30 journal_has "$stop_begins"
  systemctl --no-block --job-mode=replace-irreversibly start reboot.target
}

journal_has() {
  journalctl -q -b 0 -t prove -o cat --no-pager | grep -F "$1"
}

write_database() {
  [ -n "$version" ] || return 0
  ask_database 'insert into lines values (1)' && ask_database 'select count(*) from lines' > $memory/rows
}

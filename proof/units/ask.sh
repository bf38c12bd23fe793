# SPDX-License-Identifier: Apache-2.0
# How the proof asks and tells; sourced by prove.sh.

# Says whether a command succeeds, under the name of what is promised. What it printed is shown where it fails.
check() {
  local promise=$1 said
  shift
  if said=$("$@" 2>&1); then
    echo "pass: $promise"
  else
    echo "FAIL: $promise"
    echo "  asked: $*"
    [ -z "$said" ] || sed 's/^/  /' <<< "$said"
    echo "$promise" >> $memory/failures
    return 1
  fi
}

# Waits for a command to succeed, for so many seconds.
eventually() {
  local until=$((SECONDS + $1)) said
  shift
  until said=$("$@" 2>&1); do
    [ $SECONDS -lt $until ] || { echo "$said"; return 1; }
    sleep 0.5
  done
}

not() {
  ! "$@"
}

# A property of a unit.
property() {
  systemctl show --value -p "$2" "$1"
}

is() {
  [ "$2" = "$3" ] || { echo "$1 is $2, not $3"; return 1; }
}

state() {
  is "$1" "$(property "$1" ActiveState)" "$2"
}

# The unit of a mount or device.
mount_of() {
  systemd-escape --path --suffix=mount "$(where "$1")"
}

device_of() {
  systemd-escape --path --suffix=device "/dev/heliograph/db/$1"
}

attach_of() {
  systemd-escape --template=helio-attach@.service "db/$1"
}

application_of() {
  if [ "$1" = base ]; then echo "$database"; else echo "writer@$1.service"; fi
}

where() {
  if [ "$1" = base ]; then echo /var/lib/postgresql; else echo "/srv/$1"; fi
}

# Of every volume.
each() {
  local volume
  for volume in $volumes; do "$1" "$volume"; done
}

# Keeps what the journal has of this boot and the last one, as files: asking it takes its time in a guest.
keep_journal() {
  local boot
  # There is none before the first.
  for boot in 0 -1; do
    journalctl -q -b $boot -o short-monotonic --no-pager > "$memory/journal$boot"
    journalctl -q -b $boot -o json --output-fields=UNIT,MESSAGE_ID _PID=1 > "$memory/units$boot"
  done 2> /dev/null
}

# When a boot (0 this one, -1 the last) saw something of a unit first or last, in microseconds: it began to start, had
# started, began to stop, had stopped.
moment() {
  local which=$1 boot=$2 unit=$3 what all
  case $4 in
    starting) what=7d4958e842da4a758f6c1cdc7b36dcc5 ;;
    started) what=39f53479d3a045ac8e11786248231fbf ;;
    stopping) what=de5b426a63be47a7b6ac3eaac82e2f6f ;;
    stopped) what=9d1aaa27d60140bd96365438aad20286 ;;
  esac
  all=$(grep -F "\"UNIT\":\"${unit//\\/\\\\}\"" "$memory/units$boot" | grep -F "\"$what\"" |
    grep -o '"__MONOTONIC_TIMESTAMP":"[0-9]*"' | grep -o '[0-9]*')
  if [ "$which" = first ]; then head -n 1 <<< "$all"; else tail -n 1 <<< "$all"; fi
}

# One moment is known, and is not after the other one.
before() {
  echo "${1:-never}, then ${2:-never}"
  [ -n "$1" ] && [ -n "$2" ] && [ "$1" -le "$2" ]
}

# Ends the guest; the last line says with how many failures.
finish() {
  local failures
  failures=$(cat $memory/failures 2> /dev/null | wc -l)
  if [ "$failures" -gt 0 ]; then
    keep_journal
    sed '1,/Started prove.service/d' "$memory/journal-1"
    cat "$memory/journal0"
  fi
  echo "the tests ended with $((failures > 0))"
  systemctl --no-block --job-mode=replace-irreversibly start poweroff.target
}

give_up() {
  finish
  exit 1
}

# SPDX-License-Identifier: Apache-2.0
# The first boot: everything is put where docs/operate.md and packaging/README.md say; sourced by prove.sh.

install_all() {
  local packaging=$repository/packaging units=/usr/lib/systemd/system drop_in=/etc/systemd/system/postgresql@.service.d
  install -m 755 "$repository/target/release/helio" /usr/bin/helio
  install -D -m 644 "$here/machine/heliograph.toml" /etc/heliograph/heliograph.toml
  install -m 644 "$packaging"/systemd/*.service $units
  install -D -m 644 "$packaging/systemd/postgresql@.service.d/heliograph.conf" $drop_in/heliograph.conf
  install -m 644 "$packaging/udev/90-heliograph.rules" /usr/lib/udev/rules.d
  install -m 755 "$here/machine/writer" /usr/local/bin/writer
  install -m 644 "$here"/machine/*.service /etc/systemd/system
  mkdir -p /srv/members
  truncate -s 256M /srv/members/{paris,lyon}-{waits,fails}
  truncate -s 512M /srv/members/{paris,lyon}-base
  choose_ways
  udevadm control --reload
  echo 0 | tee $memory/waits > $memory/fails
  local volume
  check "the units are enabled" systemctl enable lyon.service helio.service writer@{waits,fails}.service \
    $(each attach_of) || return 1
  check "the daemons start" systemctl start lyon.service helio.service || return 1
  check "this node is promoted" helio promote db || return 1
  check "the volumes are attached" systemctl start $(each attach_of) || return 1
  for volume in $volumes; do
    check "$volume: systemd has a unit of its device" eventually 10 state "$(device_of "$volume")" active || return 1
    make_file_system "$volume" || return 1
  done
  systemctl daemon-reload
  check "they are mounted" systemctl start $(each mount_of) || return 1
  [ -z "$version" ] || make_database || return 1
  check "the applications start" systemctl start $(each application_of) || return 1
  check "waits: it goes on" eventually 30 goes_on waits
  check "fails: it goes on" eventually 30 goes_on fails
  [ -z "$version" ] || check "base: it has a table" ask_database 'create table lines (number bigint)'
}

# Which way each volume is attached, as operate.md says.
choose_ways() {
  local volume way folder
  echo nbd > /etc/modules-load.d/heliograph.conf
  for volume in waits fails base; do
    # Of those that wait User-Mode Linux has this one.
    way=nbd
    [ $volume = fails ] && way=fuse
    folder=/etc/systemd/system/$(attach_of $volume).d
    mkdir -p "$folder"
    printf '[Service]\nEnvironment="OPTIONS=--via %s"\n' $way > "$folder/way.conf"
  done
  systemctl restart systemd-modules-load.service
}

make_file_system() {
  local line
  mke2fs -q -t ext4 "/dev/heliograph/db/$1" || return 1
  # The line that operate.md shows.
  line=$(grep '^/dev/heliograph/db/data ' "$repository/docs/operate.md")
  line=${line//data/$1}
  echo "${line/\/srv\/db/$(where "$1")}" >> /etc/fstab
}

make_database() {
  chown postgres: /var/lib/postgresql
  pg_createcluster "$version" main > /dev/null
}

ask_database() {
  (cd / && setpriv --reuid=postgres --regid=postgres --init-groups psql -h /run/postgresql -qtAc "$1")
}

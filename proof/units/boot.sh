#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# First process of the guest of `cargo xtask uml units`. Over this machine's files, which stay as they are, it lays a
# disk that takes what is written; what is on it survives a reboot. Then it goes on as systemd.
# The kernel's command line gives SCRATCH, the disk with an ext4 on it, and GUEST, the folder with what was fetched for
# guests.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
here=$(dirname "$0")
version=$(uname -r)

# Ends the guest.
give_up() {
  echo "FAIL: $1"
  poweroff -f
  exit 1
}

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /run
modules=/usr/lib/uml/modules/$version
insmod "$modules/kernel/fs/overlayfs/overlay.ko"

mkdir /run/disk /run/root
# A damaged one is not made anew: the proof would begin again, and never end.
mount -t ext4 "$SCRATCH" /run/disk || give_up "the disk is mounted"
mkdir -p /run/disk/upper /run/disk/work
mount -t overlay root -o lowerdir=/,upperdir=/run/disk/upper,workdir=/run/disk/work /run/root ||
  give_up "the disk is laid over this machine's files"
cd /run/root || give_up "the files can be entered"

if [ ! -e etc/systemd/system/prove.service ]; then
  # udev as it is packaged, where this machine does without.
  [ -e usr/bin/udevadm ] || [ -e bin/udevadm ] || for place in bin lib usr etc; do
    # Releases of Debian differ in which of them there are.
    [ ! -d "$GUEST/udev/$place" ] || cp -a "$GUEST/udev/$place/." "$place/"
  done
  # It is a machine of its own, and it is called as its node is.
  rm -rf .dockerenv etc/postgresql/*
  echo paris > etc/hostname
  : > etc/fstab
  # The repository may lie where the machine clears up at its start.
  mkdir -p etc/tmpfiles.d etc/systemd/system-generators var/log/journal usr/lib/modules
  ln -sfn /dev/null etc/tmpfiles.d/tmp.conf
  ln -sfn "$modules" "usr/lib/modules/$version"
  # What has no part in it and takes time: every process is slow to start in a guest.
  for unit in systemd-{timesyncd,logind,binfmt,update-utmp,update-utmp-runlevel}.service e2scrub_reap.service \
    getty.target timers.target; do
    ln -sfn /dev/null "etc/systemd/system/$unit"
  done
  for generator in $(ls usr/lib/systemd/system-generators | grep -v -e fstab -e postgresql); do
    ln -sfn /dev/null "etc/systemd/system-generators/$generator"
  done
  cp "$here/prove.service" etc/systemd/system/
  sed -i "s|HERE|$here|" etc/systemd/system/prove.service
  ln -sfn ../prove.service etc/systemd/system/multi-user.target.wants/prove.service
fi
for place in proc sys dev; do mount --move "/$place" "$place"; done
mount --move . /
exec chroot . /lib/systemd/systemd --unit=multi-user.target --show-status=false

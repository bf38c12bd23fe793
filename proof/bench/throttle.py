# SPDX-License-Identifier: Apache-2.0
"""Stores of one limited read rate: loop devices with direct I/O, whose reads by the processes of a control group the
kernel limits (`blkio.throttle.read_iops_device` of cgroup v1). Needs root. Ends with the stage's processes."""
import os, subprocess
from stage import Failed, wait_for

BLKIO = "/sys/fs/cgroup/blkio"


class Throttle:
    def __init__(self, stage, images, reads):
        """A loop device for each image, each with at most `reads` reads per second for processes in the group."""
        self.images = images
        self.group = os.path.join(BLKIO, os.path.basename(stage.dir))
        stage.undo.append(self.remove)
        limits = os.path.join(self.group, "blkio.throttle.read_iops_device")
        try:
            os.mkdir(self.group)
            if not os.path.exists(limits):
                raise Failed(f"{limits} does not exist: throttled stores need cgroup v1 with blkio throttling")
            self.devices = [self.attach(image) for image in images]
            for device in self.devices:
                number = os.stat(device).st_rdev
                with open(limits, "w") as out:
                    out.write(f"{os.major(number)}:{os.minor(number)} {reads}\n")
        except OSError as why:
            raise Failed(f"throttled stores need root, loop devices and {BLKIO}: {why}") from why

    def attach(self, image):
        argv = ["losetup", "--find", "--show", "--direct-io=on", image]
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"losetup: {done.stderr.strip()}")
        return done.stdout.strip()

    def enter(self):
        """What a command begins with so that its processes are in the group."""
        return ["sh", "-c", f'echo $$ > {self.group}/cgroup.procs && exec "$@"', "sh"]

    def remove(self):
        """Detaches the devices and removes the group, whatever of it there is."""
        for image in self.images:
            listed = subprocess.run(["losetup", "--associated", image, "--noheadings", "--output", "NAME"],
                                    capture_output=True, text=True).stdout.split()
            for device in listed:
                subprocess.run(["losetup", "--detach", device], check=False)
        if os.path.isdir(self.group):
            wait_for("the end of the control group", self.is_removed)

    def is_removed(self):
        os.rmdir(self.group)
        return True

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an attached volume costs beside the least FUSE file there can be, each under a loop device with direct I/O.

Both are up at once, over files of the same file system, and are asked in turns: 4 KiB random reads and writes of fio, one
and sixteen at a time. The volume's group keeps marks only, so that no peer has a part in it. Nothing is pinned. The
ratio is the median of the ratios of neighbours in time. Needs root, /dev/fuse, loop devices and fio. Build first:
cargo build --release -p helio && cargo build --release -p helio-attach --example trivial
"""
import argparse, json, os, statistics, subprocess, sys
from stage import Failed, Stage
from systems import Helio, Options

JOBS = {"r1": ("randread", 1), "w1": ("randwrite", 1), "r16": ("randread", 16), "w16": ("randwrite", 16)}
SYSTEMS = ("attached", "trivial")
FIGURES = ("p50", "p99", "iops")


class Devices:
    """Both devices over the stage's two images."""

    def __init__(self, stage, args):
        self.stage = stage
        os.makedirs(stage.path("dev"))
        options = Options(os.path.abspath(args.programs), 0, f'devices = "{stage.path("dev")}"', "", "")
        self.helio = Helio(stage, options)
        self.helio.alone()
        example = os.path.join(args.programs, "examples", "trivial")
        self.trivial = stage.start("primary", [example, stage.b, stage.path("file")], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        self.of = {"attached": self.helio.ask("attach", "db/data").strip(),
                   "trivial": self.trivial.stdout.readline().decode().strip()}
        for system, device in self.of.items():
            if not device:
                raise Failed(f"no device: {system}: {stage.log()}")

    def end(self):
        self.helio.ask("detach", "db/data", "--force", "--yes")
        self.trivial.stdin.close()
        self.trivial.wait(20)


def fio(device, job, seconds):
    rw, depth = JOBS[job]
    told = subprocess.run(["fio", "--name=job", "--ioengine=libaio", "--direct=1", "--bs=4k", f"--rw={rw}",
                           f"--iodepth={depth}", "--time_based", f"--runtime={seconds}", f"--filename={device}",
                           "--output-format=json"], capture_output=True, text=True, check=True)
    side = json.loads(told.stdout)["jobs"][0]["read" if rw == "randread" else "write"]
    percentile = side["clat_ns"]["percentile"]
    return {"p50": percentile["50.000000"] / 1e3, "p99": percentile["99.000000"] / 1e3, "iops": side["iops"]}


def clear(folder):
    """What a failure left below the folder, the devices before what they lie on."""
    told = subprocess.run(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"], capture_output=True, text=True)
    for line in told.stdout.splitlines():
        if folder in line:
            subprocess.run(["losetup", "--detach", line.split()[0]])
    with open("/proc/self/mountinfo") as table:
        places = [line.split()[4] for line in table]
    for place in places:
        if place.startswith(folder):
            subprocess.run(["umount", "--lazy", place])


def measure(devices, args):
    found = {(job, system): [] for job in args.jobs for system in SYSTEMS}
    for number in range(args.rounds):
        for job in args.jobs:
            for system in SYSTEMS if number % 2 else reversed(SYSTEMS):
                found[job, system].append(fio(devices.of[system], job, args.seconds))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    return found


def report(found, jobs):
    print("| job | attached: p50, p99 µs, IOPS | trivial: p50, p99 µs, IOPS | p50 to p50: median, least, most |")
    print("|---|---|---|---|")
    for job in jobs:
        cells = [", ".join(f"{statistics.median(f[figure] for f in found[job, system]):.0f}" for figure in FIGURES)
                 for system in SYSTEMS]
        ratios = [one["p50"] / other["p50"] for one, other in zip(found[job, "attached"], found[job, "trivial"])]
        spread = ", ".join(f"{value:.2f}" for value in (statistics.median(ratios), min(ratios), max(ratios)))
        print(f"| {job} | {cells[0]} | {cells[1]} | {spread} |")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", default="/var/tmp", help="a folder on the file system to measure")
    parser.add_argument("--programs", default=os.path.join(here, "../../target/release"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--size", type=int, default=1024, help="MiB")
    parser.add_argument("--jobs", type=lambda text: text.split(","), default=list(JOBS))
    parser.add_argument("--json", help="keep every measurement there")
    args = parser.parse_args()
    stage = Stage(args.dir, args.size << 20)
    stage.cpus = dict.fromkeys(stage.cpus, f"0-{os.cpu_count() - 1}")
    devices = None
    try:
        stage.clean()
        devices = Devices(stage, args)
        found = measure(devices, args)
        report(found, args.jobs)
        if args.json:
            with open(args.json, "w") as out:
                json.dump({" ".join(cell): figures for cell, figures in found.items()}, out)
    finally:
        if devices:
            devices.end()
        clear(stage.dir)
        stage.remove()


if __name__ == "__main__":
    try:
        main()
    except Failed as why:
        sys.exit(str(why))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a recording of requests costs: the same primary with and without one, in turns.

The primary is alone and keeps marks only, so that as little as possible stands beside a request's recording: 4 KiB random
writes of fio over NBD, and what they cost the daemon in CPU, its writer of the trace included. The ratio is the median of
the ratios of neighbours in time. Needs fio with its NBD engine. Build first: cargo build --release -p helio
"""
import argparse, os, statistics, sys
from clients import Job, fio
from stage import Failed, Stage
from systems import Helio, Options

JOBS = {"w1": Job("4 KiB random write, depth 1", 1), "w32": Job("4 KiB random write, depth 32", 32)}
FIGURES = ("iops", "p50_us", "server_cpu_us")


def one(stage, helio, target, job, args, recorded, number):
    trace = stage.path(f"{number}.trace")
    if recorded and not helio.ask("trace", "start", "db", "--file", trace):
        raise Failed(f"no recording began: {stage.log()}")
    figures = stage.measure(lambda: fio(stage, None, target, job, args, number))
    if recorded:
        helio.ask("trace", "stop", "db")
        figures["bytes_each"] = os.path.getsize(trace) / figures["ops"]
        os.unlink(trace)
    return figures


def report(found, jobs):
    print("| job | without: IOPS, p50 µs, CPU µs | recorded: IOPS, p50 µs, CPU µs | CPU: median ratio, least, most | bytes a request |")
    print("|---|---|---|---|---|")
    for job in jobs:
        cells = [", ".join(f"{statistics.median(f[figure] for f in found[job, way]):.1f}" for figure in FIGURES)
                 for way in (False, True)]
        ratios = [w["server_cpu_us"] / o["server_cpu_us"] for w, o in zip(found[job, True], found[job, False])]
        spread = ", ".join(f"{value:.3f}" for value in (statistics.median(ratios), min(ratios), max(ratios)))
        each = statistics.median(f["bytes_each"] for f in found[job, True])
        print(f"| {job} | {cells[0]} | {cells[1]} | {spread} | {each:.1f} |")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", default="/var/tmp", help="a folder on the file system to measure")
    parser.add_argument("--programs", default=os.path.join(here, "../../target/release"))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--size", type=int, default=256, help="MiB")
    parser.add_argument("--jobs", type=lambda text: text.split(","), default=list(JOBS))
    args = parser.parse_args()
    stage = Stage(args.dir, args.size << 20)
    stage.cpus = dict.fromkeys(stage.cpus, f"0-{os.cpu_count() - 1}")
    try:
        stage.clean()
        helio = Helio(stage, Options(os.path.abspath(args.programs), 0, "", "", ""))
        target = helio.alone()
        found = {(job, way): [] for job in args.jobs for way in (False, True)}
        for number in range(args.rounds):
            for job in args.jobs:
                for way in (False, True) if number % 2 else (True, False):
                    found[job, way].append(one(stage, helio, target, JOBS[job], args, way, number))
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
        report(found, args.jobs)
    finally:
        stage.remove()


if __name__ == "__main__":
    try:
        main()
    except Failed as why:
        sys.exit(str(why))

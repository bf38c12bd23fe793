#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Heliograph beside its peers and its ceilings, in one interleaved run. README.md beside this file says what each is.

Every server and client is pinned. Placement `one`: all on CPU 0. Placement `two`: client and primary on CPU 0, the
secondary (and a relay before it) on CPU 1. Each round measures every system in every placement, in an order that is
rotated per round; medians, smallest and largest are printed. Needs fio, nbdkit and QEMU's tools for their systems, root for
throttled stores; build first: cargo build --release -p helio -p helio-bench.
"""
import argparse, os, platform, signal, statistics, sys, time
import wan
from clients import JOBS, measure
from report import FOREIGN, Results, close, is_flagged, ratios, tables
from stage import PLACEMENTS, Failed, Stage
from systems import ON_REQUEST, ONLY_JOBS, SYSTEMS, WRITES, Options


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda text: [name for name in text.split(",") if name]
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="per measurement")
    parser.add_argument("--systems", type=names, metavar="A,B",
                        default=[s for s in SYSTEMS if s not in ON_REQUEST],
                        help=", ".join(SYSTEMS) + "; all but " + ", ".join(ON_REQUEST))
    parser.add_argument("--jobs", type=names, default=list(JOBS), metavar="A,B",
                        help=", ".join(JOBS) + "; or wan alone: helio-sync over emulated links")
    parser.add_argument("--links", type=names, metavar="RTT:RATE,...", help="of the job wan",
                        default=["10ms:100Mbit/s", "10ms:1Gbit/s", "50ms:100Mbit/s", "50ms:1Gbit/s"])
    parser.add_argument("--line", choices=["relay", "tun"], default="relay",
                        help="of the job wan: helio lab relay, or helio lab wan, which shows TCP's own windows and needs root")
    parser.add_argument("--placements", type=names, default=list(PLACEMENTS), metavar="A,B")
    parser.add_argument("--client", choices=["own", "fio"], default="own")
    parser.add_argument("--client-spin-us", type=int, default=0)
    parser.add_argument("--spin-us", type=int, default=0, help="of the ceilings' servers and of bare-two-leg")
    parser.add_argument("--helio-config", default="", metavar="TOML", help=r"lines for every [node.X]; \n parts them")
    parser.add_argument("--size-mib", type=int, default=1024, help="of the volume")
    parser.add_argument("--limit", default="100Mbit/s", help="the link's rate of helio-async-limited")
    parser.add_argument("--queue", default="2GiB", help="its queue, which the run must not fill")
    parser.add_argument("--before", default="", metavar="HELIO", help="an older helio program, for helio-local-before, helio-sync-before")
    parser.add_argument("--reads", type=int, default=3000, help="the most reads per second of each throttled store")
    parser.add_argument("--quiet-only", action="store_true",
                        help=f"medians without measurements during which others took more than {FOREIGN} of the CPUs or of the disk")
    parser.add_argument("--dir", default="/var/tmp", help="where the images lie: the store that is measured")
    parser.add_argument("--programs", default="target/release", metavar="DIR")
    parser.add_argument("--json", metavar="FILE", help="every measurement, for the record")
    args = parser.parse_args()
    legal = {"systems": SYSTEMS, "jobs": [*JOBS, "wan"], "placements": PLACEMENTS}
    for option, known in legal.items():
        for name in getattr(args, option):
            if name not in known:
                parser.error(f"--{option}: `{name}` is none of {', '.join(known)}")
    if "wan" in args.jobs and len(args.jobs) > 1:
        parser.error("--jobs: wan stands alone")
    return args


def one_system(stage, options, args, results, n, placement, system):
    """One system in one placement: from clean files through all its jobs."""
    stage.cpus = PLACEMENTS[placement]
    measured = []
    stage.clean()
    try:
        target = SYSTEMS[system](stage, options)
        for job in args.jobs:
            if job not in ONLY_JOBS.get(system, WRITES):
                continue
            stage.settle()
            figures = measure(stage, options, target, JOBS[job], args, seed=1 + n)
            figures["round"] = n
            results.add(placement, job, system, figures)
            measured.append(figures)
    finally:
        stage.stop()
    return measured


def compare(stage, options, args):
    results = Results(args.quiet_only)
    plan = [(placement, system) for system in args.systems for placement in args.placements]
    for n in range(args.rounds):
        # Rotated by a step that shares no factor with the plan's usual lengths, so that neighbours change too.
        turn = n * 7 % len(plan)
        order = plan[turn:] + plan[:turn]
        measured = []
        for placement, system in order if n % 2 == 0 else reversed(order):
            told = f"round {n + 1}/{args.rounds}, {system}, placement {placement}"
            try:
                measured += one_system(stage, options, args, results, n, placement, system)
            except Failed as why:
                print(f"{told}: {why}", file=sys.stderr, flush=True)
                args.failures.append(f"{told}: {why}")
        for what, key in (("CPU", "foreign"), ("disk", "foreign_disk")):
            if shares := [f[key] for f in measured]:
                print(f"round {n + 1}: foreign {what} share median {statistics.median(shares):.2f}, largest "
                      f"{max(shares):.2f}", file=sys.stderr, flush=True)
        print(f"round {n + 1}: {sum(map(is_flagged, measured))} of {len(measured)} measurements flagged: above {FOREIGN}",
              file=sys.stderr, flush=True)
    return results


def main():
    args = arguments()
    args.failures = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    options = Options(os.path.abspath(args.programs), args.spin_us, args.helio_config, args.limit, args.queue,
                      args.before and os.path.abspath(args.before), args.reads)
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    stage = Stage(args.dir, args.size_mib << 20)
    try:
        if args.jobs == ["wan"]:
            text, cells = wan.run(stage, options, args)
        else:
            results = compare(stage, options, args)
            text = tables(results, args.placements, args.jobs, args.systems) + "\n" + ratios(results, args.placements)
            cells = [{"placement": p, "job": j, "system": s, "measured": m} for (p, j, s), m in results.cells.items()]
    except KeyboardInterrupt:
        sys.exit("interrupted")
    finally:
        stage.remove()
    kernel, cpus = platform.release(), os.cpu_count()
    print(f"# {args.rounds} rounds of {args.seconds:g} s, {began}\n\nLinux {kernel}, {cpus} CPUs; client {args.client}; "
          f"volume {args.size_mib} MiB in {args.dir}; ceilings spin {args.spin_us} us, client {args.client_spin_us} us; "
          f"helio nodes: `{args.helio_config or 'defaults'}`. Cells: median (smallest..largest). Flagged: measurements "
          f"during which others took more than {FOREIGN} of the CPUs in use, or of the bytes the disk took"
          f"{', left out of the medians' if args.quiet_only else ''}.")
    print(text)
    return close(args, began, cells, args.failures)


if __name__ == "__main__":
    sys.exit(main())

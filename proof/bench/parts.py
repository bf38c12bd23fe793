# SPDX-License-Identifier: Apache-2.0
"""A bench of several parts, each of which gives named figures: its command line, its rounds and its table."""
import argparse, os, platform, time
from report import close, spread
from stage import PLACEMENTS, Stage, measure
from systems import Options

JOBS = ["w1", "w16"]


def turned(kinds, n):
    """Another order in each round."""
    at = n % len(kinds)
    order = kinds[at:] + kinds[:at]
    return order if n % 2 == 0 else order[::-1]


def parser(doc, parts, seconds, size_mib):
    """The options that all of them have. `seconds`, `size_mib`: the defaults."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda text: [name for name in text.split(",") if name]
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=seconds, help="of load")
    parser.add_argument("--parts", type=names, default=parts, metavar="A,B", help=", ".join(parts))
    parser.add_argument("--jobs", type=names, default=JOBS, metavar="A,B")
    parser.add_argument("--size-mib", type=int, default=size_mib, help="of the volume")
    parser.add_argument("--placement", choices=list(PLACEMENTS), default="two")
    parser.add_argument("--helio-config", default="", metavar="TOML", help=r"lines for every [node.X]; \n parts them")
    parser.add_argument("--dir", default="/var/tmp", help="where the images lie: a file system with holes")
    parser.add_argument("--programs", default="target/release", metavar="DIR")
    parser.add_argument("--json", metavar="FILE", help="every measurement, for the record")
    return parser


def read(parser, parts):
    """The command line; an unknown part or job is refused."""
    args = parser.parse_args()
    for given, known in ((args.parts, parts), (args.jobs, JOBS)):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"`{unknown[0]}` is none of {', '.join(known)}")
    args.client_spin_us = 0
    return args


def table(cells):
    out = []
    for part, rounds in cells.items():
        out += [f"\n## {part}\n", "| figure | median (smallest..largest) |", "|---|---|"]
        keys = [key for key, value in rounds[0].items() if isinstance(value, (int, float)) and key != "round"]
        for key in sorted(keys):
            values = [figures[key] for figures in rounds]
            out.append(f"| {key} | {spread(values, 3 if max(values) < 100 else 0)} |")
    return "\n".join(out)


def run(title, args, size, bench_of, note):
    """Measures and prints. `size`: bytes of the images; `bench_of(stage, options)` makes the bench. Returns the exit code."""
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    stage = Stage(args.dir, size)
    stage.cpus = PLACEMENTS[args.placement]
    bench = bench_of(stage, Options(os.path.abspath(args.programs), 0, args.helio_config, "", ""))
    cells, failures = measure(args.rounds, stage, lambda _: args.parts, bench.run)
    print(f"# {title}, {args.rounds} rounds, {began}\n\nLinux {platform.release()}, {os.cpu_count()} CPUs; members in "
          f"{args.dir}; placement {args.placement}; {note}")
    print(table({part: rounds for part, rounds in cells.items() if rounds}))
    return close(args, began, cells, failures)

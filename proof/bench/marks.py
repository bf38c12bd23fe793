#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What remembering costs: metadata writes per data write, the time of a restart, memory per GiB of volume.

  hot-4gib, hot-1tib  4 KiB random writes at depth 16 over a sparse volume, replicating in mode async; writes and
                      flushes of either node's metadata file per 100 data writes, and of a primary that only logs
  restart             a 10 TiB sparse volume: from the start of the primary's daemon to the first read and write served,
                      its peer being there, after a clean stop and after SIGKILL
  memory              the daemon of a primary that logs, once its pair was level (before that one word stands for all
                      marks): 10 TiB against 1 GiB, without a mark and with one in every 2032 MiB, so that every page
                      of marks is there

Metadata writes are what `helio status --json` counts (`metadata`). Where a sparse pair does not become level within
--patience seconds, its figures are those of logging alone, and the table says so. Build first:
cargo build --release -p helio -p helio-bench
"""
import argparse, os, platform, signal, statistics, sys, time
from clients import JOBS, own
from door import Control, Nbd, is_level
from report import close, spread, verdict
from stage import PLACEMENTS, Failed, Stage, measure, resident, wait_for
from systems import Helio, Options

GIB = 1 << 30
LARGE = 10 << 40


class Bench:
    def __init__(self, stage, options, args):
        self.stage, self.options, self.args = stage, options, args
        self.controls = {}

    def images(self, size):
        """Two files that are one hole."""
        self.stage.size = size
        for image in (self.stage.a, self.stage.b):
            with open(image, "wb") as out:
                out.truncate(size)

    def control(self, node):
        path = self.stage.path(f"{node}/control.sock")
        wait_for(node, lambda: os.path.exists(path))
        return self.controls.setdefault(node, Control(path))

    def pair(self, size):
        """Paris is primary of a sparse pair; whether it became level."""
        self.images(size)
        self.helio = Helio(self.stage, self.options, sparse=True)
        self.helio.configure("async")
        self.paris = self.helio.daemon("paris", "primary")
        self.helio.daemon("lyon", "secondary")
        paris, _ = self.control("paris"), self.control("lyon")
        paris.wait("the peer", lambda group: group["peer"]["connection"] == "connected", 30)
        self.helio.ask("promote", "db")
        try:
            paris.wait("the first copy", is_level, self.args.patience, 0.05)
        except Failed as why:
            print(f"{size >> 30} GiB: {why}", file=sys.stderr, flush=True)
            return False
        return True

    def alone(self, size):
        """Paris is primary and logs; nobody else is there."""
        self.images(size)
        self.helio = Helio(self.stage, self.options, sparse=True)
        target = self.helio.alone()
        self.paris = self.stage.running[0]
        self.control("paris")
        return target

    def load(self, target, nodes):
        """Random writes; what the metadata files took per 100 of them."""
        before = {node: self.controls[node].group() for node in nodes}
        figures = own(self.stage, self.options, target, JOBS["w16"], self.args, 1)
        after = {node: self.controls[node].group() for node in nodes}
        told = {"iops": figures["iops"], "ops": figures["ops"], "state": after["paris"]["state"]}
        for node in nodes:
            for key in ("writes", "flushes"):
                if "metadata" not in after[node]:
                    raise Failed("this helio does not count its metadata writes")
                count = after[node]["metadata"][key] - before[node]["metadata"][key]
                told[f"{node} {key}"] = count * 100 / figures["ops"]
        return told

    def hot(self, size):
        figures = {}
        if self.pair(size):
            figures["replicating"] = self.load(self.helio.target(), ["paris", "lyon"])
        self.stop()
        figures["logging"] = self.load(self.alone(size), ["paris"])
        return figures

    def first_served(self):
        """Seconds from the daemon's start to the first read and write."""
        began = time.monotonic()
        self.paris = self.helio.daemon("paris", "primary")

        def served():
            client = Nbd(self.stage.path("paris/nbd.sock"), "db/data")
            try:
                client.read(self.stage.size // 2, 4096)
                client.write_all([(self.stage.size // 2, bytes(4096))])
                return True
            finally:
                client.close()
        wait_for("a restarted primary", served, 120)
        return time.monotonic() - began

    def restart(self):
        level = self.pair(LARGE)
        figures = {"level": level}
        for how, number in (("clean", signal.SIGTERM), ("killed", signal.SIGKILL)):
            self.paris.send_signal(number)
            self.paris.wait(60)
            self.stage.running.remove(self.paris)
            figures[how] = self.first_served()
            if level:
                self.control("paris").wait("level again", is_level, 60, 0.05)
        return figures

    def memory(self):
        figures = {}
        for name, size in (("small", GIB), ("large", LARGE)):
            if not self.pair(size):
                raise Failed(f"{size >> 30} GiB did not become level: give it more --patience")
            self.helio.ask("pause", "db")
            self.control("paris").wait("logging", lambda group: group["state"] == "logging", 30)
            figures[f"{name} fresh"] = resident(self.paris)
            client = Nbd(self.stage.path("paris/nbd.sock"), "db/data")
            client.write_all((at, b"x" * 4096) for at in range(0, size, 2032 << 20))
            client.close()
            figures[f"{name} written"] = resident(self.paris)
            self.stop()
        for state in ("fresh", "written"):
            more = figures[f"large {state}"] - figures[f"small {state}"]
            figures[f"per GiB {state}"] = more / ((LARGE - GIB) / GIB)
        return figures

    def stop(self):
        for control in self.controls.values():
            control.close()
        self.controls = {}
        for process in self.stage.running:
            process.kill()  # a clean stop would try to drain first
        self.stage.stop()

    def run(self, part):
        try:
            return {"hot-4gib": lambda: self.hot(4 * GIB), "hot-1tib": lambda: self.hot(1024 * GIB),
                    "restart": self.restart, "memory": self.memory}[part]()
        finally:
            self.stop()


PARTS = ["hot-4gib", "hot-1tib", "restart", "memory"]


def judged(cells):
    """What, its values, unit, relation, target."""
    for part in ("hot-4gib", "hot-1tib"):
        for state in ("replicating", "logging"):
            told = [f[state] for f in cells.get(part, []) if state in f]
            for key in told[0] if told else []:
                if isinstance(told[0][key], float):
                    bound = ("<", 1) if part == "hot-4gib" and key.endswith("writes") else (None, None)
                    what = "writes/s" if key == "iops" else f"metadata of {key} per 100"
                    yield f"{part}, {state}: {what}", [f[key] for f in told], "", *bound
    for how in ("clean", "killed"):
        yield f"restart of 10 TiB, {how}", [f[how] for f in cells.get("restart", [])], "s", "<", 2
    for state in ("fresh", "written"):
        values = [f[f"per GiB {state}"] / 1024 for f in cells.get("memory", [])]
        yield f"memory per GiB, {state}", values, "KiB", "<=", 2.1


def table(cells):
    out = ["| figure | median (smallest..largest) | target | |", "|---|---|---|---|"]
    for what, values, unit, relation, target in judged(cells):
        if values:
            said = verdict(statistics.median(values), "<=", target) if relation else ""
            out.append(f"| {what} | {spread(values, 0 if what.endswith('writes/s') else 3)} {unit} | "
                       f"{f'{relation} {target} {unit}' if relation else ''} | {said} |")
    if any(not f["level"] for f in cells.get("restart", [])):
        out.append("\nrestart: the pair was not level; its first copy went on.")
    if any("replicating" not in f for part in ("hot-4gib", "hot-1tib") for f in cells.get(part, [])):
        out.append("\nwhere replicating is missing, the pair did not become level in time.")
    return "\n".join(out)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of load")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=PARTS, metavar="A,B", help=", ".join(PARTS))
    parser.add_argument("--patience", type=float, default=30, metavar="SECONDS", help="for a sparse pair to become level")
    parser.add_argument("--placement", choices=list(PLACEMENTS), default="two")
    parser.add_argument("--helio-config", default="", metavar="TOML", help=r"lines for every [node.X]; \n parts them")
    parser.add_argument("--dir", default="/var/tmp", help="where the images lie: a file system with holes and files of 10 TiB")
    parser.add_argument("--programs", default="target/release", metavar="DIR")
    parser.add_argument("--json", metavar="FILE", help="every measurement, for the record")
    args = parser.parse_args()
    if unknown := [part for part in args.parts if part not in PARTS]:
        parser.error(f"--parts: `{unknown[0]}` is none of {', '.join(PARTS)}")
    args.client_spin_us = 0
    return args


def main():
    args = arguments()
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    stage = Stage(args.dir, GIB)
    stage.cpus = PLACEMENTS[args.placement]
    bench = Bench(stage, Options(os.path.abspath(args.programs), 0, args.helio_config, "", ""), args)
    order = lambda n: args.parts if n % 2 == 0 else reversed(args.parts)
    cells, failures = measure(args.rounds, stage, order, lambda part, _: bench.run(part))
    print(f"# Marks, {args.rounds} rounds, {began}\n\nLinux {platform.release()}, {os.cpu_count()} CPUs; members in "
          f"{args.dir}; placement {args.placement}; {args.seconds:g} s of load\n")
    print(table(cells))
    return close(args, began, cells, failures)


if __name__ == "__main__":
    sys.exit(main())

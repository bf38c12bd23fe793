#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What point-in-time copies cost: the stall of a cut, the first change of each chunk, no copy at all, and memory.

  cut     4 KiB random writes on a pair in mode sync, of which nearly every one is the first to its chunk: without a copy
          (none), with a snapshot from before all writes (first), and with one that is refreshed on both nodes every
          --every ms (cuts). first and cuts differ by the cuts alone
  touch   one node alone: what a chunk preserved costs in reads, writes and flushes of the before-image file, and in
          bytes read and written by the daemon; and what a write waits for it (none, first)
  absent  one node alone, without a copy: with `safe-copy` on and off, and with a before-image file in which a
          snapshot was deleted. Every write is measured
  memory  one node alone: anonymous memory of the daemon per chunk preserved, from a fourth of --chunks to all of them, in
          the order of the chunks; without a copy (none), with one snapshot, ten that are older than all writes, and ten of which
          each preserves a tenth of the chunks, scattered (spread)

The measurements of a round are interleaved, in another order each round. Build first:
cargo build --release -p helio -p helio-bench
"""
import json, statistics, sys, threading, time
import parts
from clients import JOBS, own
from door import Control, Nbd
from parts import turned
from stage import Failed, resident
from systems import Helio

CHUNK = 64 << 10
COPIES = 10
MIB = 1 << 20
TIB = 1 << 40


class Refresher(threading.Thread):
    """Refreshes the snapshot again and again, and notes how long each took."""

    def __init__(self, control, every):
        super().__init__()
        self.control, self.every, self.ends, self.took, self.failed = control, every, threading.Event(), [], None

    def run(self):
        while not self.ends.wait(self.every):
            began = time.monotonic()
            try:
                snapshot(self.control, "create", "s0", refresh=True)
            except Failed as why:
                self.failed = why
                return
            self.took.append((time.monotonic() - began) * 1e3)

    def stop(self):
        self.ends.set()
        self.join()
        if self.failed:
            raise self.failed
        return self.took


def snapshot(control, what, name, **more):
    control.request("POST", f"/v2/groups/db/snapshots/{what}", json.dumps({"name": name, **more}),
                    {"Content-Type": "application/json"})
    answer = control.getresponse()
    if (said := answer.read()) and answer.status >= 300:
        raise Failed(f"snapshot {name}: {said.decode(errors='replace')}")


class Bench:
    def __init__(self, stage, options, args):
        self.stage, self.options, self.args, self.seed, self.round = stage, options, args, 0, 0

    def up(self, pair=False, sparse=False, lines=""):
        self.helio = Helio(self.stage, self.options, sparse=sparse, group_lines=lines)
        self.target = self.helio.pair("sync") if pair else self.helio.alone()
        self.daemon = self.stage.running[0]
        self.control = Control(self.stage.path("paris/control.sock"))
        self.stage.settle()

    def down(self):
        if control := getattr(self, "control", None):
            control.close()
        for process in self.stage.running:
            process.kill()  # a clean stop would try to drain first
        self.stage.stop()

    def load(self, job):
        self.seed += 1
        return own(self.stage, self.options, self.target, JOBS[job], self.args, self.seed)

    def preserved(self):
        """Bytes in the before-image file, of all copies."""
        listed = self.helio.ask("snapshot", "list", "db", "--json")
        if not listed or json.loads(listed)["missing"]:
            raise Failed(f"a snapshot ended: --dir needs more space: {listed}")
        return json.loads(listed)["preserved_bytes"]

    def cut(self):
        figures = {}
        for job in self.args.jobs:
            for kind in turned(["none", "first", "cuts"], self.round):
                self.up(pair=True)
                if kind != "none":
                    snapshot(self.control, "create", "s0")
                refresher = Refresher(self.control, self.args.every / 1e3)
                if kind == "cuts":
                    refresher.start()
                told = self.load(job)
                if kind == "cuts":
                    figures[f"{job} refresh ms"] = statistics.median(took := refresher.stop())
                    figures[f"{job} refreshes"] = len(took)
                figures |= {f"{job} {kind} {key}": told[key] for key in ("iops", "p50_us", "p99_us", "max_us")}
                self.down()
        return figures

    def touch(self):
        figures = {}
        for job in self.args.jobs:
            for kind in turned(["none", "first"], self.round):
                self.up()
                if kind == "first":
                    snapshot(self.control, "create", "s0")
                before = self.seen()
                told = self.load(job)
                figures |= {f"{job} {kind} {key}": told[key] for key in ("iops", "p50_us", "p99_us", "max_us")}
                if kind == "first":
                    spent = {key: value - before[key] for key, value in self.seen().items()}
                    chunks = self.preserved() / CHUNK
                    figures |= {f"{job} chunks": chunks, f"{job} share of first": chunks / told["ops"]}
                    figures |= {f"{job} {key} per chunk": spent[key] / chunks for key in ("reads", "writes", "flushes")}
                    figures |= {f"{job} metadata {key} per chunk": spent[f"metadata {key}"] / chunks
                                for key in ("writes", "flushes")}
                    figures[f"{job} bytes read per chunk"] = spent["read_bytes"] / chunks
                    figures[f"{job} bytes written per chunk"] = (spent["write_bytes"] - 4096 * told["ops"]) / chunks
                self.down()
        return figures

    def seen(self):
        """Counts of the files, and bytes of the daemon's I/O."""
        group = self.control.group()
        counts = dict(group["before_images"]) | {f"metadata {key}": value for key, value in group["metadata"].items()}
        with open(f"/proc/{self.daemon.pid}/io") as io:
            fields = (line.split(": ") for line in io)
            return counts | {key: int(value) for key, value in fields if key in ("read_bytes", "write_bytes")}

    def absent(self):
        figures = {}
        kinds = {"on": "", "off": 'safe-copy = "off"\n', "deleted": ""}
        for job in self.args.jobs:
            for kind in turned(list(kinds), self.round):
                self.up(lines=kinds[kind])
                if kind == "deleted":
                    snapshot(self.control, "create", "s0")
                    snapshot(self.control, "delete", "s0")
                told = self.stage.measure(lambda: self.load(job))
                figures |= {f"{job} {kind} {key}": told[key] for key in ("iops", "p50_us", "p99_us", "server_cpu_us")}
                self.down()
        return figures

    def memory(self):
        figures = {}
        for kind in turned(["none", "one", "ten", "spread"], self.round):
            for image in (self.stage.a, self.stage.b):
                with open(image, "wb") as out:
                    out.truncate(self.stage.size)
            self.up(sparse=True)
            for n in range({"none": 0, "ten": COPIES}.get(kind, 1)):
                snapshot(self.control, "create", f"s{n}")
            chunks, steps = self.args.chunks, []
            order = list(range(chunks))
            if kind == "spread":
                # Each tenth of the writes, the first of which a copy precedes, touches every tenth chunk.
                order = [chunk for n in range(COPIES) for chunk in range(n, chunks, COPIES)]
            client = Nbd(self.stage.path("paris/nbd.sock"), "db/data")
            step = chunks // (COPIES if kind == "spread" else 4)
            for begin in range(0, chunks, step):
                if kind == "spread" and begin:
                    snapshot(self.control, "create", f"s{begin}")
                client.write_all((chunk * CHUNK, b"x" * 4096) for chunk in order[begin:begin + step])
                written = min(begin + step, chunks)
                if kind != "none" and self.preserved() != written * CHUNK:
                    raise Failed(f"{self.preserved()} bytes are preserved after writes to {written} chunks")
                steps.append((written, resident(self.daemon)))
            client.close()
            (few, less), (all_of_them, more) = steps[0], steps[-1]
            figures[f"{kind} chunks"] = all_of_them
            figures[f"{kind} resident MiB"] = more / MIB
            figures[f"{kind} bytes per chunk"] = (more - less) / (all_of_them - few)
            figures[f"{kind} MiB per TiB"] = figures[f"{kind} bytes per chunk"] * (TIB / CHUNK) / MIB
            figures[f"{kind} steps"] = steps
            self.down()
        return figures

    def run(self, part, n):
        self.round = n
        self.stage.size = self.args.chunks * CHUNK if part == "memory" else self.args.size_mib * MIB
        try:
            if part != "memory":
                self.stage.clean()  # the blocks are stored: a write allocates none
            return getattr(self, part)()
        finally:
            self.down()


PARTS = ["cut", "touch", "absent", "memory"]


def arguments():
    parser = parts.parser(__doc__, PARTS, 2, 1 << 10)
    parser.add_argument("--every", type=float, default=250, metavar="MS", help="time between two refreshes of the part cut")
    parser.add_argument("--chunks", type=int, default=128 << 10, help="of the sparse volume of the part memory; each takes 68 KiB under --dir")
    return parts.read(parser, PARTS)


def main():
    args = arguments()
    bench_of = lambda stage, options: Bench(stage, options, args)
    return parts.run("Copies", args, MIB, bench_of, f"{args.seconds:g} s of load")


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a resync costs: in bytes on the wire and in time, beside the link, the store and QEMU's mirror.

Over helio lab relay at --rtt and --rate:
  scattered  one in a hundred 4 KiB blocks changed at random while logging, then `helio resync`
  identical  a full sync of a secondary that forgot its history and has the same bytes
  random     the same of one whose bytes all differ
On loopback, in one round:
  raw        one image read and the other written at the same time, past the page cache: the store's own rate
  initial    the first copy of a new pair, promotion to replicating
  mirror     qemu-storage-daemon's blockdev-mirror, sync=full, to qemu-nbd
  safe       everything changed while logging, then an update of the consistent secondary

Bytes on the wire are what the primary's `helio status` counts as sent and received, frames and all, TCP's headers not.
Parts are interleaved and pinned as in peers.py; medians, smallest and largest are printed. Build first:
cargo build --release -p helio
"""
import argparse, json, os, platform, random, statistics, sys, time
from door import Control, Nbd, is_level
from report import FOREIGN, close, is_flagged, spread, verdict
from stage import PLACEMENTS, Failed, Stage, measure, wait_for
from systems import Helio, Options, mirror, qemu_storage
from wan import bytes_per_second

BLOCK, PIECE = 4096, 1 << 20


class Bench:
    def __init__(self, stage, options, args):
        self.stage, self.options, self.args = stage, options, args
        self.patience = 60 + stage.size / 2e6
        self.rtt = float(args.rtt.removesuffix("ms")) / 1e3
        self.link = bytes_per_second(args.rate)
        self.control = None

    def fill(self, *images):
        """The same fresh random bytes into every image, past the page cache."""
        buffer = self.stage.block
        opened = [os.open(image, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600) for image in images]
        try:
            for at in range(0, self.stage.size, PIECE):
                buffer.seek(0)
                buffer.write(os.urandom(PIECE))
                for fd in opened:
                    os.pwrite(fd, buffer, at)
            for fd in opened:
                os.fsync(fd)
        finally:
            for fd in opened:
                os.close(fd)

    def start(self, relayed=False):
        """Two new nodes that know each other; paris is not yet promoted."""
        self.helio = Helio(self.stage, self.options, relayed=relayed)
        self.helio.configure("async")
        self.helio.daemon("paris", "primary")
        self.lyon = self.helio.daemon("lyon", "secondary")
        wait_for("paris", lambda: os.path.exists(self.stage.path("paris/control.sock")))
        self.control = Control(self.stage.path("paris/control.sock"))
        self.until("the peer", lambda group: group["peer"]["connection"] == "connected")

    def until(self, what, wanted):
        return self.control.wait(what, wanted, self.patience)

    def ask(self, *argv):
        if not self.helio.ask(*argv):
            raise Failed(f"helio {' '.join(argv)} was refused: {self.stage.log()}")

    def level(self):
        """Makes paris primary, and waits for the first copy."""
        self.ask("promote", "db")
        self.until("the first copy", is_level)

    def logging(self):
        self.ask("pause", "db")
        self.until("marks only", lambda group: group["state"] == "logging")

    def shape(self):
        self.helio.line.shape(self.args.rtt, self.args.rate)

    def figures(self, before, after, seconds):
        sent, received = (after["counters"][key] - before["counters"][key] for key in ("sent_bytes", "received_bytes"))
        return {"ops": self.stage.size // PIECE, "seconds": seconds, "sent": sent, "received": received,
                "rate": self.stage.size / seconds, "safe_copy": after.get("safe_copy")}

    def update(self):
        """`helio resync`, from the command to replicating."""
        before, began = self.control.group(), time.monotonic()
        self.ask("resync", "db")
        after, ended = self.until("the update", is_level)
        return self.figures(before, after, ended - began)

    def forget(self):
        """The secondary stops and forgets its history; then the link becomes long."""
        self.lyon.terminate()
        self.lyon.wait(30)
        self.stage.running.remove(self.lyon)
        os.unlink(self.stage.path("lyon/groups/db.meta"))
        self.until("the loss", lambda group: group["peer"]["connection"] != "connected")
        self.shape()

    def full(self):
        """It comes back: everything is compared or copied."""
        before = self.control.group()
        self.lyon = self.helio.daemon("lyon", "secondary")
        _, began = self.until("the copy", lambda group: group["state"] == "syncing" or is_level(group))
        after, ended = self.until("the full sync", is_level)
        return self.figures(before, after, ended - began)

    # The parts. Each begins with a stage without processes.

    def scattered(self):
        self.fill(self.stage.a, self.stage.b)
        self.start(relayed=True)
        self.level()
        self.logging()
        blocks = random.sample(range(self.stage.size // BLOCK), self.stage.size // BLOCK // 100)
        client = Nbd(self.stage.path("paris/nbd.sock"), "db/data")
        client.write_all((block * BLOCK, os.urandom(BLOCK)) for block in blocks)
        client.close()
        self.shape()
        figures = self.stage.measure(self.update)
        changed = len(blocks) * BLOCK
        return figures | {"changed": changed, "allowed": 1.3 * changed / self.link + 5 * self.rtt}

    def identical(self):
        self.fill(self.stage.a, self.stage.b)
        self.start(relayed=True)
        self.level()
        self.forget()
        return self.stage.measure(self.full)

    def random(self):
        self.fill(self.stage.a, self.stage.b)
        self.start(relayed=True)
        self.level()
        self.forget()
        self.fill(self.stage.b)
        return self.stage.measure(self.full)

    def apart(self):
        """Both images full of other bytes, so that a copy finds nothing to skip and allocates nothing."""
        self.fill(self.stage.a)
        self.fill(self.stage.b)

    def raw(self):
        self.apart()
        cpus = f"{self.stage.cpus['primary']},{self.stage.cpus['secondary']}"
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rawcopy.py")
        argv = [sys.executable, program, self.stage.a, self.stage.b, "--cpus", cpus]
        run = lambda: json.loads(self.stage.run_client(argv, self.patience)) | {"ops": self.stage.size // PIECE}
        figures = self.stage.measure(run)
        return figures | {"rate": self.stage.size / figures["seconds"]}

    def initial(self):
        self.apart()
        self.start()

        def copy():
            before, began = self.control.group(), time.monotonic()
            self.ask("promote", "db")
            after, ended = self.until("the first copy", is_level)
            return self.figures(before, after, ended - began)
        return self.stage.measure(copy)

    def mirror(self):
        self.apart()
        _, monitor = qemu_storage(self.stage, True)

        def copy():
            began = time.monotonic()
            mirror(monitor, sync="full")
            seconds = time.monotonic() - began
            return {"ops": self.stage.size // PIECE, "seconds": seconds, "rate": self.stage.size / seconds}
        return self.stage.measure(copy)

    def safe(self):
        self.fill(self.stage.a, self.stage.b)
        self.start()
        self.level()
        self.logging()
        client = Nbd(self.stage.path("paris/nbd.sock"), "db/data")
        client.write_all(((at, os.urandom(PIECE)) for at in range(0, self.stage.size, PIECE)), depth=4)
        client.close()
        return self.stage.measure(self.update)

    def run(self, part):
        try:
            return getattr(self, part)()
        finally:
            if self.control:
                self.control.close()
            self.stage.stop()


PARTS = ["scattered", "identical", "random", "raw", "initial", "mirror", "safe"]


def judged(cells, bench):
    """What, its values, unit, relation, target."""
    def each(part, value):
        return [value(f) for f in cells.get(part, [])]

    def ratio(part, other):
        """Of the same round, since the store's rate is not every minute's."""
        below = {f["round"]: f["rate"] for f in cells.get(other, [])}
        return [f["rate"] / below[f["round"]] for f in cells.get(part, []) if f["round"] in below]

    size, link = bench.stage.size, bench.link
    shipped = lambda f: (f["sent"] + f["received"])
    yield "scattered: seconds", each("scattered", lambda f: f["seconds"]), "s", "<=", \
        statistics.median(each("scattered", lambda f: f["allowed"]) or [0])
    yield "scattered: bytes on the wire / bytes changed", each("scattered", lambda f: shipped(f) / f["changed"]), "", "<=", 1.3
    yield "identical: bytes on the wire / volume", each("identical", lambda f: shipped(f) / size), "", "<=", 0.005
    yield "identical: seconds", each("identical", lambda f: f["seconds"]), "s", None, None
    yield "random: of the link", each("random", lambda f: f["rate"] / link), "", ">=", 0.9
    yield "initial / raw read+write rate", ratio("initial", "raw"), "", ">=", 0.85
    yield "initial / QEMU's mirror", ratio("initial", "mirror"), "", ">", 1.0
    yield "safe / raw read+write rate", ratio("safe", "raw"), "", ">=", 0.4
    for part in ("raw", "initial", "mirror", "safe"):
        yield f"{part}: rate", [value / 1e6 for value in each(part, lambda f: f["rate"])], "MB/s", None, None


def table(cells, bench):
    out = ["| figure | median (smallest..largest) | target | |", "|---|---|---|---|"]
    for what, values, unit, relation, target in judged(cells, bench):
        if values:
            digits = 1 if unit == "MB/s" else 4 if not unit and target and target < 0.1 else 2
            goal = f"{relation} {target:.4g} {unit}" if relation else ""
            said = verdict(statistics.median(values), relation, target)
            out.append(f"| {what} | {spread(values, digits)} {unit} | {goal} | {said} |")
    kept = {str(f["safe_copy"]) for f in cells.get("safe", []) if f["safe_copy"]}
    if "safe" in cells:
        out.append(f"\nsafe: the status told of the secondary's safe copy: {', '.join(kept) or 'nothing'}.")
    flagged = {part: sum(map(is_flagged, cell)) for part, cell in cells.items()}
    out.append(f"\nflagged (others took more than {FOREIGN} of the CPUs or of the disk): " + ", ".join(
        f"{part} {count} of {len(cells[part])}" for part, count in flagged.items()))
    return "\n".join(out)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size-mib", type=int, default=1024, help="of the volume; 64 for a quick look")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=PARTS, metavar="A,B", help=", ".join(PARTS))
    parser.add_argument("--rtt", default="50ms")
    parser.add_argument("--rate", default="100Mbit/s")
    parser.add_argument("--placement", choices=list(PLACEMENTS), default="two")
    parser.add_argument("--helio-config", default="", metavar="TOML", help=r"lines for every [node.X]; \n parts them")
    parser.add_argument("--dir", default="/var/tmp", help="where the images lie: the store that is measured")
    parser.add_argument("--programs", default="target/release", metavar="DIR")
    parser.add_argument("--json", metavar="FILE", help="every measurement, for the record")
    args = parser.parse_args()
    if unknown := [part for part in args.parts if part not in PARTS]:
        parser.error(f"--parts: `{unknown[0]}` is none of {', '.join(PARTS)}")
    return args


def main():
    args = arguments()
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    options = Options(os.path.abspath(args.programs), 0, args.helio_config, "", "")
    stage = Stage(args.dir, args.size_mib << 20)
    stage.cpus = PLACEMENTS[args.placement]
    bench = Bench(stage, options, args)
    turned = lambda turn: args.parts[turn:] + args.parts[:turn]
    cells, failures = measure(args.rounds, stage, lambda n: turned(n % len(args.parts)), lambda part, _: bench.run(part))
    print(f"# Resync, {args.rounds} rounds, {began}\n\nLinux {platform.release()}, {os.cpu_count()} CPUs; volume "
          f"{args.size_mib} MiB in {args.dir}; link {args.rtt}, {args.rate}; placement {args.placement}\n")
    print(table({part: cell for part, cell in cells.items() if cell}, bench))
    return close(args, began, cells, failures)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What many sets cost on one node: time of a start, memory, CPU while idle, file descriptors.

  one      a single volume with one member: what the others are compared with
  single   10,000 volumes with one member each, in groups of 64
  multi    500 disks in volumes of --members members each, in groups of 64

Members are sparse files of 1 MiB. The peer never runs. The daemon is started with new members, stopped and started again.
`first start` and `start`: from the start of the daemon to the first status with every group; `copies`: after the first
start, until every member is full; `stop`: from SIGTERM to the end of the daemon; `promotion`: of all groups by force, one
after the other, to the first read of the last volume of the last group. CPU, memory, threads and descriptors are those of
the second daemon after that; memory at the end of the idle time. Build first: cargo build --release -p helio
"""
import argparse, http.client, json, os, platform, signal, statistics, subprocess, sys, time
from door import Control, Nbd
from report import close, spread, verdict
from stage import Failed, Stage, free_port, wait_for

MEMBER, IN_A_GROUP = 1 << 20, 64
PATIENCE = 300  # seconds for each step


class Bench:
    def __init__(self, stage, args):
        self.stage, self.args = stage, args
        self.helio = os.path.join(os.path.abspath(args.programs), "helio")
        self.sets = {"one": (1, 1), "single": (args.sets, 1), "multi": (args.disks // args.members, args.members)}
        self.control = None

    def configure(self, sets, members):
        """A new node with so many volumes; their count by group."""
        os.makedirs(self.stage.path("d"))
        groups = [min(IN_A_GROUP, sets - first) for first in range(0, sets, IN_A_GROUP)]
        with open(self.stage.path("helio.toml"), "w") as out:
            out.write(f'[node.paris]\naddress = "127.0.0.1:{free_port()}"\n[node.lyon]\naddress = "127.0.0.1:{free_port()}"\n')
            for g, volumes in enumerate(groups):
                out.write(f'[group.g{g}]\nnodes = ["paris", "lyon"]\n')
                for v in range(volumes):
                    paths = [self.stage.path(f"d/{g}-{v}-{m}") for m in range(members)]
                    for path in paths:
                        with open(path, "wb") as member:
                            member.truncate(MEMBER)
                    out.write(f'[group.g{g}.volume.v{v}]\nsize = "{MEMBER}B"\nsparse = true\n'
                              f'members.paris = {json.dumps(paths)}\nmembers.lyon = ["{self.stage.path("absent")}/{g}-{v}"]\n')
        return groups

    def start(self):
        argv = [self.helio, "daemon", "--node", "paris", "--config", self.stage.path("helio.toml"),
                "--state", self.stage.path("paris")]
        daemon = self.stage.start("primary", argv)
        self.control = Control(self.stage.path("paris/control.sock"))
        return daemon

    def groups(self):
        """What the node reports of its groups; nothing before it does."""
        self.stage.server_cpu()  # fails if the daemon has ended
        try:
            self.control.request("GET", "/v2/status")
            return json.loads(self.control.getresponse().read())["groups"]
        except (OSError, http.client.HTTPException, KeyError):
            self.control.close()
            return []

    def wait(self, what, count, wanted=lambda group: True):
        """Waits for `count` groups that are as wanted."""
        wait_for(what, lambda: sum(map(wanted, self.groups())) == count, PATIENCE)

    def promote(self, count):
        for g in range(count):
            try:
                self.control.request("POST", f"/v2/groups/g{g}/promote", json.dumps({"force": True, "confirmed": True}),
                                     {"Content-Type": "application/json"})
                response = self.control.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException) as why:
                raise Failed(f"the promotion of g{g} was not answered: {why}") from why
            if response.status >= 300:
                raise Failed(f"the promotion of g{g} was refused: {answer.decode(errors='replace')}")

    def halt(self, daemon):
        self.control.close()
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(PATIENCE)
        except subprocess.TimeoutExpired as slow:
            raise Failed(f"the daemon did not stop within {PATIENCE} s") from slow
        self.stage.running.remove(daemon)

    def served(self, volume):
        client = Nbd(self.stage.path("paris/nbd.sock"), volume)
        try:
            return client.read(0, 4096)
        finally:
            client.close()

    def run(self, part):
        groups = self.configure(*self.sets[part])
        count, last = len(groups), f"g{len(groups) - 1}/v{groups[-1] - 1}"
        figures, moments = {"sets": sum(groups), "groups": count}, [time.monotonic()]

        def ended(what):
            moments.append(time.monotonic())
            figures[what] = moments[-1] - moments[-2]
        daemon = self.start()
        self.wait("all groups", count)
        ended("first start")
        self.wait("full members", count, all_full)
        ended("copies")
        self.halt(daemon)
        ended("stop")
        daemon = self.start()
        self.wait("all groups again", count)
        ended("start")
        self.promote(count)
        wait_for("the last volume", lambda: self.served(last), PATIENCE)
        ended("promotion")
        before, began = self.stage.server_cpu(), time.monotonic()
        time.sleep(self.args.idle)
        spent, wall = self.stage.server_cpu() - before, time.monotonic() - began
        return figures | {"idle": 100 * spent / wall} | sizes(daemon.pid)


def all_full(group):
    """Whether nothing is copied or merged in a group."""
    return all(not volume["unmerged_bytes"] and all(member["state"] == "full" for member in volume.get("members", []))
               for volume in group["volumes"])


def sizes(pid):
    """Memory in KiB, threads and descriptors of a process."""
    with open(f"/proc/{pid}/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    kib = lambda name: int(fields[name].split()[0])
    return {"resident": kib("VmRSS"), "anonymous": kib("RssAnon"), "peak": kib("VmHWM"), "threads": kib("Threads"),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}


def judged(cells):
    """Part, what, its values, unit, digits, relation, target."""
    one = {f["round"]: f for f in cells.get("one", [])}
    for part, cell in cells.items():
        each = lambda key: [f[key] for f in cell]
        for key in ("first start", "start"):
            yield part, key, each(key), "s", 2, "<=", 30
        for key in ("copies", "stop", "promotion"):
            yield part, key, each(key), "s", 2, None, None
        yield part, "CPU while idle", each("idle"), "% of one CPU", 2, "<=", 2
        for key in ("resident", "anonymous", "peak"):
            yield part, f"{key} memory", [kib / 1024 for kib in each(key)], "MiB", 1, None, None
        yield part, "descriptors", each("descriptors"), "", 0, None, None
        yield part, "threads", each("threads"), "", 0, None, None
        pairs = [(f, one[f["round"]]) for f in cell if f["round"] in one and f["sets"] > 1]
        more = lambda key: [(f[key] - base[key]) / (f["sets"] - base["sets"]) for f, base in pairs]
        yield part, "resident memory per further set", more("resident"), "KiB", 1, None, None
        yield part, "descriptors per further set", more("descriptors"), "", 2, None, None


def table(cells):
    out = ["| part | figure | median (smallest..largest) | target | |", "|---|---|---|---|---|"]
    for part, what, values, unit, digits, relation, target in judged(cells):
        if values:
            goal = f"{relation} {target} {unit}" if relation else ""
            said = verdict(statistics.median(values), relation, target)
            measured = f"{spread(values, digits)} {unit}".rstrip()
            out.append(f"| {part} | {what} | {measured} | {goal} | {said} |")
    return "\n".join(out)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda text: [name for name in text.split(",") if name]
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", type=names, default=["one", "single", "multi"], metavar="A,B", help="one, single, multi")
    parser.add_argument("--sets", type=int, default=10_000, help="volumes of the part single")
    parser.add_argument("--disks", type=int, default=500, help="members of the part multi")
    parser.add_argument("--members", type=int, default=2, choices=range(2, 7), metavar="2..6", help="of each of its volumes")
    parser.add_argument("--idle", type=float, default=20, help="seconds during which the CPU of the idle daemon is counted")
    parser.add_argument("--cpus", default="0,1", metavar="LIST", help="the CPUs that the daemon is pinned to")
    parser.add_argument("--dir", default="/var/tmp", help="where the members and the state directory are")
    parser.add_argument("--programs", default="target/release", metavar="DIR")
    parser.add_argument("--json", metavar="FILE", help="every measurement, for the record")
    args = parser.parse_args()
    if unknown := [part for part in args.parts if part not in ("one", "single", "multi")]:
        parser.error(f"--parts: `{unknown[0]}` is none of one, single, multi")
    return args


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    cells, failures, sets = {part: [] for part in args.parts}, [], {}
    for n in range(args.rounds):
        turn = n % len(args.parts)
        for part in args.parts[turn:] + args.parts[:turn]:
            stage = Stage(args.dir, 0)
            stage.cpus = {"primary": args.cpus}
            try:
                bench = Bench(stage, args)
                sets = bench.sets
                cells[part].append(bench.run(part) | {"round": n})
                print(f"round {n + 1}, {part}: {cells[part][-1]}", file=sys.stderr, flush=True)
            except KeyboardInterrupt:
                sys.exit("interrupted")
            except Failed as why:
                failures.append(f"round {n + 1}, {part}: {why}")
                print(failures[-1], file=sys.stderr, flush=True)
            finally:
                stage.remove()
    shapes = "; ".join(f"{part}: {sets[part][0]} sets of {sets[part][1]}" for part in args.parts)
    print(f"# Many sets, {args.rounds} rounds, {began}\n\nLinux {platform.release()}, {os.cpu_count()} CPUs, the daemon on CPUs "
          f"{args.cpus}; members in {args.dir}; {shapes}; idle for {args.idle:g} s\n")
    print(table(cells))
    return close(args, began, cells, failures)


if __name__ == "__main__":
    sys.exit(main())

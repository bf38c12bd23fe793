#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs to be watched: the shard's time for a status, the dashboard's CPU, and the latencies of clients meanwhile.

  status  one node with 1, 16 and 64 groups: CPU time of the shard's thread for one status of all groups (its wakeup
          included), and for one status of one group, less what the thread takes in the same time without requests
  cpu     a pair under --load writes per second, and a dashboard of both nodes whose page one reader follows: CPU of the
          dashboard, and of the daemons with and without it; and the same with one node that has 20 groups (many)
  data    4 KiB random writes on a pair in mode sync, with a dashboard that a page follows (open) and without (none)

The measurements of a round are interleaved, in another order each round. Build first:
cargo build --release -p helio -p helio-bench
"""
import os, re, shutil, socket, subprocess, sys, threading, time
import parts
from clients import JOBS, own
from door import Control, Nbd
from parts import turned
from stage import Failed, free_port, wait_for
from systems import Helio

MIB = 1 << 20
GROUPS = [1, 16, 64]
MANY = 20
REQUESTS = 400


class Page(threading.Thread):
    """A page that follows a dashboard, without a browser."""

    def __init__(self, url):
        super().__init__()
        host, port, token = re.fullmatch(r"http://(.*):(\d+)/(\w+)/", url).groups()
        self.socket = socket.create_connection((host, int(port)))
        self.socket.sendall(f"GET /{token}/live HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        self.views, self.bytes = 0, 0

    def run(self):
        # A page that is closed ends with an error here.
        try:
            while told := self.socket.recv(1 << 16):
                self.views += told.count(b"event: view")
                self.bytes += len(told)
        except OSError:
            pass

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.join()
        self.socket.close()


class Bench:
    def __init__(self, stage, options, args):
        self.stage, self.options, self.args, self.seed, self.round = stage, options, args, 0, 0
        self.helio = os.path.join(options.programs, "helio")

    def down(self):
        for process in self.stage.running:
            process.kill()  # a clean stop would try to drain first
        self.stage.stop()

    def pair(self, mode):
        system = Helio(self.stage, self.options)
        self.target = system.pair(mode)

    def dashboard(self, node, *others):
        """A dashboard of these nodes, and a page that follows it."""
        argv = [self.helio, "dashboard", "--state", self.stage.path(node)]
        argv += [word for other in others for word in ("--with", self.stage.path(other))]
        process = self.stage.start("secondary", argv, stdout=subprocess.PIPE)
        page = Page(process.stdout.readline().decode().strip())
        page.start()
        wait_for("a view", lambda: page.views > 0)
        return process, page

    def status(self):
        figures = {}
        for count in GROUPS:
            self.groups(count)
            control, shard = Control(self.stage.path("one/control.sock")), shard_of(self.stage.running[0])
            for what, path in (("all", "/v2/status"), ("one", "/v2/groups/g0")):
                request(control, path)
                began, before = time.monotonic(), runtime(shard)
                for _ in range(REQUESTS):
                    request(control, path)
                took, spent = time.monotonic() - began, runtime(shard) - before
                before = runtime(shard)
                time.sleep(took)
                figures[f"{count} groups, status of {what}, us"] = (spent - (runtime(shard) - before)) / REQUESTS / 1e3
            control.close()
            self.down()
        return figures

    def groups(self, count):
        """One node with so many groups of its own."""
        lines = [f'[node.one]\naddress = "127.0.0.1:{free_port()}"\n']
        for n in range(count):
            image = self.stage.path(f"g{n}.img")
            if os.path.exists(image):
                os.unlink(image)
            with open(image, "wb") as out:
                out.truncate(MIB)
            lines.append(f'[group.g{n}]\nnodes = ["one"]\n[group.g{n}.volume.data]\nsize = "1MiB"\nmembers.one = ["{image}"]\n')
        with open(self.stage.path("many.toml"), "w") as out:
            out.write("\n".join(lines))
        shutil.rmtree(self.stage.path("one"), ignore_errors=True)
        self.stage.start("primary", [self.helio, "daemon", "--node", "one", "--config", self.stage.path("many.toml"),
                                     "--state", self.stage.path("one")])
        wait_for("the node", lambda: Control(self.stage.path("one/control.sock")).connect() or True)
        time.sleep(1)  # what follows the start

    def cpu(self):
        figures = {}
        for kind in turned(["none", "open", "many"], self.round):
            if kind == "many":
                self.groups(MANY)
                nodes, exports = ["one"], [f"g{n}/data" for n in range(MANY)]
            else:
                self.pair("async")
                nodes, exports = ["paris", "lyon"], ["db/data"]
            watched = dict(zip(nodes, list(self.stage.running)))
            socket = self.stage.path(f"{nodes[0]}/nbd.sock")
            writers = [Writer(socket, export, self.args.load / len(exports)) for export in exports]
            page = None
            if kind != "none":
                watched["dashboard"], page = self.dashboard(*nodes)
            before, began = {name: cpu_of(process) for name, process in watched.items()}, time.monotonic()
            time.sleep(self.args.span)
            took = time.monotonic() - began
            for name, process in watched.items():
                figures[f"{kind}, {name}, % of a core"] = (cpu_of(process) - before[name]) / took * 100
            if page:
                figures[f"{kind}, bytes of a view"] = page.bytes / max(1, page.views)
                page.close()
            for writer in writers:
                writer.close()
            self.down()
        return figures

    def data(self):
        figures = {}
        for job in self.args.jobs:
            for kind in turned(["none", "open"], self.round):
                self.stage.clean()
                self.pair("sync")
                page = self.dashboard("paris", "lyon")[1] if kind == "open" else None
                self.seed += 1
                told = own(self.stage, self.options, self.target, JOBS[job], self.args, self.seed)
                figures |= {f"{job} {kind} {key}": told[key] for key in ("iops", "p50_us", "p99_us")}
                if page:
                    page.close()
                self.down()
            for key in ("p50_us", "p99_us"):
                figures[f"{job} {key} open / none"] = figures[f"{job} open {key}"] / figures[f"{job} none {key}"]
        return figures

    def run(self, part, n):
        self.round = n
        try:
            return getattr(self, part)()
        finally:
            self.down()


class Writer(threading.Thread):
    """Writes so many blocks per second."""

    def __init__(self, path, export, rate):
        super().__init__()
        self.client, self.rate, self.ends = Nbd(path, export), rate, threading.Event()
        self.start()

    def run(self):
        for n in range(1 << 40):
            if self.ends.wait(1 / self.rate):
                return
            self.client.write_all([(n % 256 * 4096, b"x" * 4096)])

    def close(self):
        self.ends.set()
        self.join()
        self.client.close()


def request(control, path):
    control.request("GET", path)
    answer = control.getresponse()
    if answer.status != 200 or not answer.read():
        raise Failed(f"{path}: status {answer.status}")


def shard_of(process):
    """The thread of a daemon that serves its groups."""
    tasks = f"/proc/{process.pid}/task"
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/comm") as comm:
            if comm.read().strip() == "shard-0":
                return f"{tasks}/{task}"
    raise Failed("the daemon has no thread shard-0")


def runtime(thread):
    """Nanoseconds that a thread ran."""
    with open(f"{thread}/schedstat") as stat:
        return int(stat.read().split()[0])


def cpu_of(process):
    """Seconds of CPU of a process and its threads, to the nanosecond."""
    tasks = f"/proc/{process.pid}/task"
    return sum(runtime(f"{tasks}/{task}") for task in os.listdir(tasks)) / 1e9


PARTS = ["status", "cpu", "data"]


def arguments():
    parser = parts.parser(__doc__, PARTS, 3, 256)
    parser.add_argument("--span", type=float, default=20, metavar="SECONDS", help="of the part cpu")
    parser.add_argument("--load", type=int, default=200, metavar="WRITES", help="per second, of the part cpu")
    return parts.read(parser, PARTS)


def main():
    args = arguments()

    def bench_of(stage, options):
        stage.clean()
        return Bench(stage, options, args)

    return parts.run("Watched", args, args.size_mib * MIB, bench_of, "a status each second")


if __name__ == "__main__":
    sys.exit(main())

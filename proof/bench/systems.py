# SPDX-License-Identifier: Apache-2.0
"""The systems: each is brought up on a stage and tells what a client writes to."""
import json, os, re, shutil, statistics, subprocess, time
from dataclasses import dataclass, field
from stage import Failed, Qmp, connects, connects_tcp, free_port, wait_for
from throttle import Throttle


@dataclass
class Target:
    """What a client uses: ("raw", file), ("two-local", file, file), ("nbd", socket, export) or ("two-leg", file, port)."""
    kind: str
    where: str
    name: str = ""
    # Called after each measurement; refuses one that did not measure what it should.
    check: object = field(default=lambda: None)


@dataclass
class Options:
    programs: str  # the folder with helio, bare-nbd and the others
    spin_us: int   # of the ceilings
    helio_config: str  # lines for every [node.X]
    limit: str     # the rate of helio-async-limited
    queue: str     # and its queue
    before: str = ""  # an older helio, for helio-local-before and helio-sync-before
    reads: int = 0  # the most reads per second of a throttled store


def spin(options):
    return ["--spin-us", str(options.spin_us)]


def raw(stage, _options):
    return Target("raw", stage.a)


def bare_two_local(stage, _options):
    return Target("two-local", stage.a, stage.b)


def bare_nbd(stage, options, buffered=False):
    sock = stage.fresh_path("bare.sock")
    argv = [os.path.join(options.programs, "bare-nbd"), sock, stage.a] + spin(options)
    stage.start("primary", argv + (["--buffered"] if buffered else []))
    wait_for("bare-nbd", lambda: connects(sock))
    return Target("nbd", sock)


def bare_two_leg(stage, options):
    port = free_port()
    receiver = os.path.join(options.programs, "bare-receiver")
    stage.start("secondary", [receiver, f"127.0.0.1:{port}", stage.b] + spin(options))
    wait_for("bare-receiver", lambda: connects_tcp(port))
    return Target("two-leg", stage.a, str(port))


def nbdkit_file(stage, _options):
    sock = stage.fresh_path("nbdkit.sock")
    program = "nbdkit" if shutil.which("nbdkit") else "/usr/sbin/nbdkit"
    stage.start("primary", [program, "-f", "-U", sock, "file", stage.a])
    wait_for("nbdkit", lambda: connects(sock))
    return Target("nbd", sock)


def qemu(stage, mirrored):
    sock, monitor = qemu_storage(stage, mirrored)
    if mirrored:
        mirror(monitor, sync="none", **{"copy-mode": "write-blocking"})
    return Target("nbd", sock)


def mirror(monitor, **how):
    """Mirrors node a to node b; returns when the job says that it is ready."""
    monitor = Qmp(monitor)
    try:
        monitor.ask("blockdev-mirror", **{"job-id": "j", "device": "a", "target": "b", **how})
        wait_for("the mirror", lambda: all(j["ready"] for j in monitor.ask("query-block-jobs")), 600)
    finally:
        monitor.close()


def quorum(stage, _options):
    """QEMU's mirror of two local files: its quorum driver, which writes both and reads the first."""
    sock = stage.fresh_path("q.sock")
    both = {"driver": "quorum", "node-name": "q", "children": ["a", "b"], "vote-threshold": 2, "read-pattern": "fifo"}
    serve_qemu(stage, sock, "q", qemu_image("a", stage.a) + qemu_image("b", stage.b) + ["--blockdev", json.dumps(both)])
    return Target("nbd", sock)


def qemu_image(node, image):
    return ["--blockdev", f"driver=file,node-name=f{node},filename={image},cache.direct=on,aio=io_uring",
            "--blockdev", f"driver=raw,node-name={node},file=f{node}"]


def serve_qemu(stage, sock, node, options):
    """Starts QEMU's storage daemon; it exports a node."""
    stage.start("primary", ["qemu-storage-daemon", *options, "--nbd-server", f"addr.type=unix,addr.path={sock}",
                            "--export", f"type=nbd,id=e,node-name={node},name=,writable=on"])
    wait_for("qemu-storage-daemon", lambda: connects(sock))


def qemu_storage(stage, mirrored):
    """QEMU's storage daemon with node a, and node b over loopback TCP where it is to be mirrored."""
    sock, monitor = stage.fresh_path("q.sock"), stage.fresh_path("q.mon")
    options = ["--chardev", f"socket,id=m,path={monitor},server=on,wait=off", "--monitor", "chardev=m"]
    options += qemu_image("a", stage.a)
    if mirrored:
        port = free_port()
        stage.start("secondary", ["qemu-nbd", "-f", "raw", "-t", "-e", "8", "--cache=none", "--aio=io_uring",
                                  "-b", "127.0.0.1", "-p", str(port), stage.b])
        wait_for("qemu-nbd", lambda: connects_tcp(port))
        options += ["--blockdev",
                    f"driver=nbd,node-name=b,server.type=inet,server.host=127.0.0.1,server.port={port},export="]
    serve_qemu(stage, sock, "a", options)
    return sock, monitor


class Line:
    """A long line: `helio lab relay` before whoever listens on port `to`."""

    def __init__(self, stage, options, to):
        self.port = free_port()
        argv = [os.path.join(options.programs, "helio"), "lab", "relay", "--listen", f"127.0.0.1:{self.port}",
                "--to", f"127.0.0.1:{to}"]
        self.process = stage.start("secondary", argv, stdin=subprocess.PIPE)
        wait_for("the relay", lambda: connects_tcp(self.port))

    def shape(self, rtt=None, rate=None):
        """What the line is like from now on; at first it adds nothing."""
        orders = ([f"rtt {rtt}"] if rtt else []) + ([f"rate {rate}"] if rate else [])
        self.process.stdin.write("".join(order + "\n" for order in orders).encode())
        self.process.stdin.flush()


class Tun:
    """A long line below TCP: `helio lab wan` between two network namespaces; needs root."""

    def __init__(self, stage, options):
        argv = [os.path.join(options.programs, "helio"), "lab", "wan"]
        self.process = stage.start("secondary", argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ends = {}
        while len(self.ends) < 2:
            line = self.process.stdout.readline().decode()
            if not line:
                raise Failed("helio lab wan ended: it needs root and /dev/net/tun")
            if told := re.match(r"(left|right): network namespace (\S+) .*, ([0-9.]+)$", line.strip()):
                self.ends[told[1]] = (told[3], ["nsenter", f"--net=/run/netns/{told[2]}"])

    shape = Line.shape

    def ping(self):
        """Median seconds of a packet there and back."""
        (_, enter), (far, _) = self.ends["left"], self.ends["right"]
        told = subprocess.run(enter + ["ping", "-c", "21", "-i", "0.05", far], capture_output=True, text=True, check=True)
        return statistics.median(float(t) for t in re.findall(r"time=([0-9.]+)", told.stdout)) / 1e3


class Helio:
    """A node pair, or the primary alone; paris is the primary, lyon dials it."""

    def __init__(self, stage, options, io="direct", relayed=False, queue=None, keyed=False, tun=None, sparse=False,
                 members=None, enter=(), program=None, group_lines=""):
        self.stage, self.options, self.io, self.queue, self.keyed = stage, options, io, queue, keyed or tun is not None
        self.tun, self.sparse, self.enter, self.group_lines = tun, sparse, list(enter), group_lines
        # The members of paris. If there are others than the first image, lyon never runs.
        self.members = members or [stage.a]
        self.helio = program or os.path.join(options.programs, "helio")
        self.lyon, self.paris = free_port(), free_port()
        self.line = Line(stage, options, self.paris) if relayed else None
        for name in ("lyon", "paris"):
            shutil.rmtree(stage.path(name), ignore_errors=True)
        stage.strip(*filter(os.path.exists, (stage.a, stage.b)))

    def configure(self, mode):
        extra = self.options.helio_config.replace("\\n", "\n")
        dialled = self.line.port if self.line else self.paris
        queue = f'queue = {{ memory = "{self.queue}" }}\n' if self.queue else ""
        keys = {name: self.key(name) if self.keyed else "" for name in ("lyon", "paris")}
        paris = ", ".join(f'"{member}"' for member in self.members)
        lyon = self.stage.path("absent.img") if self.members != [self.stage.a] else self.stage.b
        here, there = (self.tun.ends[end][0] if self.tun else "127.0.0.1" for end in ("left", "right"))
        with open(self.stage.path("helio.toml"), "w") as out:
            out.write(f'[node.lyon]\naddress = "{there}:{self.lyon}"\n{keys["lyon"]}\n{extra}\n'
                      f'[node.paris]\naddress = "{here}:{dialled}"\nlisten = "{here}:{self.paris}"\n'
                      f'{keys["paris"]}\n{extra}\n'
                      f'[group.db]\nnodes = ["lyon", "paris"]\nmode = "{mode}"\n{queue}{self.group_lines}'
                      f'[group.db.volume.data]\nsize = "{self.stage.size}B"\nio = "{self.io}"\nsparse = {str(self.sparse).lower()}\n'
                      f'members.paris = [{paris}]\nmembers.lyon = ["{lyon}"]\n')

    def key(self, name):
        """A key of the node's own; the line for its section."""
        return subprocess.run([self.helio, "key", "new", "--state", self.stage.path(name)], capture_output=True, text=True,
                              check=True).stdout.strip()

    def daemon(self, name, part):
        enter = self.tun.ends["left" if name == "paris" else "right"][1] if self.tun else self.enter
        return self.stage.start(part, enter + [self.helio, "daemon", "--node", name, "--config", self.stage.path("helio.toml"),
                                       "--state", self.stage.path(name)])

    def ask(self, *argv):
        done = subprocess.run([self.helio, *argv, "--state", self.stage.path("paris")], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else ""

    def group(self):
        self.stage.server_cpu()  # says so if a daemon is gone
        return json.loads(self.ask("status", "--json") or "{}").get("groups", [{}])[0]

    def target(self, check=lambda: None):
        time.sleep(0.2)  # the flush that ends the copy
        return Target("nbd", self.stage.path("paris/nbd.sock"), "db/data", check)

    def alone(self):
        self.configure("async")
        self.daemon("paris", "primary")
        wait_for("helio", lambda: self.group().get("role"))
        self.ask("promote", "db", "--force", "--yes")
        wait_for("the primary", lambda: self.group().get("role") == "primary")
        self.ask("pause", "db")
        wait_for("marks only", lambda: self.group().get("state") == "logging")
        wait_for("full members", self.has_full_members, 120)
        return self.target()

    def pair(self, mode):
        self.configure(mode)
        self.daemon("paris", "primary")
        self.daemon("lyon", "secondary")
        wait_for("helio", lambda: self.group().get("role"))
        wait_for("the peer", lambda: self.group()["peer"]["connection"] == "connected")
        if not self.ask("promote", "db"):
            wait_for("the promotion", lambda: self.ask("promote", "db"))
        wait_for("replication", self.is_level, 120)
        return self.target()

    def with_snapshots(self, count):
        """What each write overwrites for the first time is preserved, for all of them."""
        for n in range(count):
            if not self.ask("snapshot", "create", f"db@s{n}"):
                raise Failed(f"snapshot {n} of {count} cannot be created")
        return self.target(lambda: self.still_has(count))

    def still_has(self, count):
        held = len(json.loads(self.ask("snapshot", "list", "db", "--json"))["snapshots"])
        if held < count:
            raise Failed(f"{count - held} of {count} snapshots ended: --dir needs more space")

    def has_full_members(self):
        """Whether nothing is copied or merged between the members, if there are several."""
        volume = self.group()["volumes"][0]
        settled = all(member["state"] == "full" for member in volume.get("members", []))
        return settled and not volume.get("unmerged_bytes")

    def is_level(self):
        group = self.group()
        return group.get("state") == "replicating" and group["mode"]["effective"] == group["mode"]["requested"]

    def was_never_full(self):
        group = self.group()
        queue, waited = group["queue"], int(group["throttle"]["count"])
        high, bound = (int(queue[key]) for key in ("bytes_high_water", "bound_bytes"))
        if group["state"] not in ("replicating", "catching-up") or waited or high >= bound:
            raise Failed(f"the queue was full ({high} of {bound} bytes, {waited} writes waited, {group['state']}): "
                         "fewer seconds or a larger queue")


def helio_limited(stage, options):
    helio = Helio(stage, options, relayed=True, queue=options.queue)
    target = helio.pair("async")
    helio.line.shape(rate=options.limit)
    target.check = helio.was_never_full
    return target


def throttled(stage, options, images):
    """One node whose members are throttled stores."""
    throttle = Throttle(stage, images, options.reads)
    return Helio(stage, options, members=throttle.devices, enter=throttle.enter()).alone()


def snapshots(stage, options, count):
    helio = Helio(stage, options)
    helio.alone()
    return helio.with_snapshots(count)


def before(stage, options):
    """The older program."""
    if not options.before:
        raise Failed("--before names no program")
    return Helio(stage, options, program=options.before)


SYSTEMS = {
    "raw": raw,
    "bare-nbd": bare_nbd,
    "bare-nbd-buffered": lambda s, o: bare_nbd(s, o, buffered=True),
    "bare-two-leg": bare_two_leg,
    "bare-two-local": bare_two_local,
    "nbdkit-file": nbdkit_file,
    "qemu-local": lambda s, o: qemu(s, False),
    "qemu-sync": lambda s, o: qemu(s, True),
    "quorum": quorum,
    "helio-local": lambda s, o: Helio(s, o).alone(),
    "helio-local-buffered": lambda s, o: Helio(s, o, io="buffered").alone(),
    "helio-sync": lambda s, o: Helio(s, o).pair("sync"),
    "helio-sync-keys": lambda s, o: Helio(s, o, keyed=True).pair("sync"),
    "helio-async": lambda s, o: Helio(s, o).pair("async"),
    "helio-async-limited": helio_limited,
    "helio-local-before": lambda s, o: before(s, o).alone(),
    "helio-sync-before": lambda s, o: before(s, o).pair("sync"),
    "helio-set2": lambda s, o: Helio(s, o, members=[s.a, s.b]).alone(),
    "helio-snapshot": lambda s, o: snapshots(s, o, 1),
    "helio-snapshots10": lambda s, o: snapshots(s, o, 10),
    "helio-throttled": lambda s, o: throttled(s, o, [s.a]),
    "helio-set2-throttled": lambda s, o: throttled(s, o, [s.a, s.b]),
}
# What a run without --systems leaves out: it needs an option, or root.
ON_REQUEST = ("helio-snapshot", "helio-snapshots10", "helio-local-before", "helio-sync-before", "helio-throttled", "helio-set2-throttled")
WRITES = ("w1", "w16", "wf1", "seq4")
# Large blocks would fill any queue; flushes wait for nothing there. Throttled stores are throttled for reads alone.
ONLY_JOBS = {"helio-async-limited": ("w1", "w16"), "helio-throttled": ("r32",), "helio-set2-throttled": ("r32",)}

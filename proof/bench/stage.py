# SPDX-License-Identifier: Apache-2.0
"""Where systems are measured: the folder with the two images, the processes, their CPUs and their CPU time."""
import ctypes, json, mmap, os, resource, shutil, signal, socket, subprocess, sys, tempfile, time

TICKS = os.sysconf("SC_CLK_TCK")
# Where the parts of a system run. A relay stands for the line and runs with the secondary.
PLACEMENTS = {
    "one": {"client": 0, "primary": 0, "secondary": 0},
    "two": {"client": 0, "primary": 0, "secondary": 1},
}
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Failed(Exception):
    """A system could not be brought up or measured."""


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Stage:
    """One folder, one system at a time."""

    def __init__(self, folder, size):
        self.dir = tempfile.mkdtemp(prefix="helio-bench-", dir=folder)
        self.size = size
        self.running = []
        self.undo = []  # what is called, the last first, when the processes have ended
        self.cpus = PLACEMENTS["one"]
        self.a, self.b = self.path("a.img"), self.path("b.img")
        # Random, so that nothing on the way finds zeroes to skip or bytes to compress.
        self.block = mmap.mmap(-1, 1 << 20)
        self.block.write(os.urandom(1 << 20))

    def path(self, name):
        return os.path.join(self.dir, name)

    def fresh_path(self, name):
        """A socket's path, with nothing there."""
        path = self.path(name)
        if os.path.exists(path):
            os.unlink(path)
        return path

    def clean(self):
        """Gives both images their first content again, in place, on disk and out of the page cache."""
        for image in (self.a, self.b):
            fd = os.open(image, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
            try:
                for at in range(0, self.size, len(self.block)):
                    os.pwrite(fd, self.block, at)
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)

    def strip(self, *images):
        """Removes the identities of members: helio refuses one whose metadata is gone."""
        for image in images:
            for name in os.listxattr(image):
                os.removexattr(image, name)

    def settle(self):
        """Writes out what the last job left in the page cache, which the next would pay for."""
        for image in (self.a, self.b):
            fd = os.open(image, os.O_RDWR)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def pin(self, part):
        return ["taskset", "-c", str(self.cpus[part])]

    def start(self, part, argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL):
        """Starts a server process on the CPU of `part`."""
        with open(self.path("log"), "ab") as log:
            process = subprocess.Popen(self.pin(part) + argv, stdin=stdin, stdout=stdout, stderr=log,
                                       start_new_session=True, preexec_fn=die_with_parent)
        self.running.append(process)
        return process

    def log(self):
        with open(self.path("log"), "rb") as log:
            return log.read()[-2000:].decode(errors="replace")

    def stop(self):
        """Stops every server, the last started first."""
        for process in reversed(self.running):
            if process.stdin:
                process.stdin.close()
            process.terminate()
        for process in self.running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.running = []
        while self.undo:
            self.undo[-1]()
            self.undo.pop()

    def remove(self):
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def server_cpu(self):
        """Seconds of CPU of all servers and their threads, the kernel's workers for their I/O included."""
        total = 0
        for process in self.running:
            if process.poll() is not None:
                raise Failed(f"a server ended with {process.returncode}: {self.log()}")
            with open(f"/proc/{process.pid}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICKS

    def busy(self):
        """Seconds the CPUs of this placement were not idle, by whomever, steal included."""
        wanted = {f"cpu{cpu}" for cpu in self.cpus.values()}
        total = 0
        with open("/proc/stat") as stat:
            for line in stat:
                name, *fields = line.split()
                if name in wanted:
                    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
                    total += user + nice + system + irq + softirq + steal
        return total / TICKS

    def server_written(self):
        """Bytes the servers gave to the store, or to its page cache."""
        total = 0
        for process in self.running:
            with open(f"/proc/{process.pid}/io") as io:
                total += next(int(line.split()[1]) for line in io if line.startswith("write_bytes"))
        return total

    def disk_written(self):
        """Bytes the disk under the images took from everybody; none where the kernel counts none for it."""
        device = os.stat(self.dir).st_dev
        with open("/proc/diskstats") as stats:
            for line in stats:
                fields = line.split()
                if (int(fields[0]), int(fields[1])) == (os.major(device), os.minor(device)):
                    return int(fields[9]) * 512
        return 0

    def run_client(self, argv, timeout):
        """Runs a client to its end; its standard output."""
        process = subprocess.Popen(self.pin("client") + argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True,
                                   preexec_fn=die_with_parent)
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
        if process.returncode:
            raise Failed(f"{' '.join(argv)} failed: {err[-1000:]} {self.log()}")
        return out

    def seen(self):
        """What a measurement begins and ends with."""
        clients = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {"wall": time.monotonic(), "busy": self.busy(), "servers": self.server_cpu(),
                "client": clients.ru_utime + clients.ru_stime, "disk": self.disk_written(),
                "own": self.server_written() + clients.ru_oublock * 512}

    def measure(self, client):
        """Runs `client()`, which returns its figures, and adds the CPU per operation and what others did meanwhile."""
        before = self.seen()
        figures = client()
        spent = {key: value - before[key] for key, value in self.seen().items()}
        ops = max(1, figures["ops"])
        figures["server_cpu_us"] = spent["servers"] * 1e6 / ops
        figures["client_cpu_us"] = spent["client"] * 1e6 / ops
        foreign = spent["busy"] - spent["servers"] - spent["client"]
        figures["foreign"] = max(0.0, foreign / spent["wall"] / len(set(self.cpus.values())))
        figures["foreign_disk"] = max(0.0, 1 - spent["own"] / spent["disk"]) if spent["disk"] else 0.0
        return figures


def resident(process):
    """Bytes of anonymous memory."""
    with open(f"/proc/{process.pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))


def measure(rounds, stage, order, run):
    """Runs each part of `order(n)` in round n; `run(part, n)` returns its figures. Removes the stage at the end, however it ends.
    Returns the figures of each part, and what failed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    cells, failures = {}, []
    try:
        for n in range(rounds):
            for part in order(n):
                try:
                    cells.setdefault(part, []).append(run(part, n) | {"round": n})
                except Failed as why:
                    failures.append(f"round {n + 1}, {part}: {why}")
                    print(failures[-1], file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        sys.exit("interrupted")
    finally:
        stage.remove()
    return cells, failures


def wait_for(what, probe, seconds=30):
    """Asks again and again, since processes of others raise no event here."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if answer := probe():
                return answer
        except OSError:
            pass
        time.sleep(0.02)
    raise Failed(f"{what} did not come within {seconds} s")


def connects(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        return True


def connects_tcp(port):
    with socket.create_connection(("127.0.0.1", port)):
        return True


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Qmp:
    """QEMU's monitor."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.talk = self.socket.makefile("rw")
        self.talk.readline()
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        self.talk.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.talk.flush()
        while "return" not in (answer := json.loads(self.talk.readline())):
            if "error" in answer:
                raise Failed(f"qemu: {command}: {answer['error']}")
        return answer["return"]

    def close(self):
        self.talk.close()
        self.socket.close()

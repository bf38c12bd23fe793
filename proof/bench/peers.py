#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Heliograph beside its peers, through fio's NBD engine, in one interleaved run.

usage: peers.py [--rounds 5] [--seconds 3] [--cpus 0,1] [--dir DIR] [SYSTEM ...]

Systems: raw (fio straight on the file, O_DIRECT), qemu-local (qemu-storage-daemon's own export), qemu-sync (its
mirror, write-blocking, to qemu-nbd over loopback TCP), helio-local (logging: marks only), helio-sync, helio-async.
Every process runs on the CPUs given. Order is reversed every other round; medians are printed, with the CPU time of
the servers per operation. Needs fio and qemu-utils; build helio first (cargo build --release -p helio).
"""
import argparse, json, os, shutil, signal, socket, statistics, subprocess, sys, tempfile, time

TICKS = os.sysconf("SC_CLK_TCK")
JOBS = {
    "4k write depth 1": ["--rw=randwrite", "--bs=4k", "--iodepth=1"],
    "4k write depth 16": ["--rw=randwrite", "--bs=4k", "--iodepth=16"],
    "4k write+flush depth 1": ["--rw=randwrite", "--bs=4k", "--iodepth=1", "--fsync=1"],
    "1m write depth 4": ["--rw=write", "--bs=1M", "--iodepth=4"],
}
SIZE = 1 << 30


class Bench:
    def __init__(self, args):
        self.dir = tempfile.mkdtemp(prefix="helio-bench-", dir=args.dir)
        self.pin = ["taskset", "-c", args.cpus]
        self.seconds = args.seconds
        self.running = []
        self.a, self.b = (os.path.join(self.dir, name) for name in ("a.img", "b.img"))
        for image in (self.a, self.b):
            with open("/dev/urandom", "rb") as source, open(image, "wb") as out:
                block = source.read(1 << 20)
                for _ in range(SIZE >> 20):
                    out.write(block)
                os.fsync(out.fileno())

    def start(self, argv):
        process = subprocess.Popen(self.pin + argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=open(os.path.join(self.dir, "log"), "a"), start_new_session=True)
        self.running.append(process)
        return process

    def stop(self):
        for process in self.running:
            process.terminate()
        for process in self.running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.running = []

    def path(self, name):
        return os.path.join(self.dir, name)

    def cpu(self):
        total = 0
        for process in self.running:
            fields = open(f"/proc/{process.pid}/stat").read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICKS

    def fio(self, job, target):
        argv = self.pin + ["fio", "--name=x", f"--size={SIZE}", "--time_based", f"--runtime={self.seconds}",
                           "--randrepeat=0", "--output-format=json"] + target + job
        out = subprocess.run(argv, capture_output=True, text=True)
        result = json.loads(out.stdout[out.stdout.index("{"):])["jobs"][0]
        if result["error"]:
            sys.exit(f"fio failed: {result['error']} {out.stderr[-300:]}")
        return result["write"]


def wait_for(what, probe, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        try:
            if probe():
                return
        except OSError:
            pass
        time.sleep(0.05)
    sys.exit(f"{what} did not come within {seconds} s")


def connects(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        return True


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def nbd(path, export=""):
    return ["--ioengine=nbd", f"--uri=nbd+unix:///{export}?socket={path}"]


def raw(bench):
    return ["--ioengine=io_uring", "--direct=1", f"--filename={bench.a}"]


def qemu(bench, mirrored):
    sock, monitor = bench.path("q.sock"), bench.path("q.mon")
    for stale in (sock, monitor):
        if os.path.exists(stale):
            os.unlink(stale)
    argv = ["qemu-storage-daemon", "--chardev", f"socket,id=m,path={monitor},server=on,wait=off", "--monitor", "chardev=m",
            "--blockdev", f"driver=file,node-name=fa,filename={bench.a},cache.direct=on,aio=io_uring",
            "--blockdev", "driver=raw,node-name=a,file=fa"]
    if mirrored:
        port = free_port()
        bench.start(["qemu-nbd", "-f", "raw", "-t", "-e", "8", "--cache=none", "--aio=io_uring", "-b", "127.0.0.1",
                     "-p", str(port), bench.b])
        wait_for("qemu-nbd", lambda: socket.create_connection(("127.0.0.1", port)).close() is None)
        argv += ["--blockdev", f"driver=nbd,node-name=b,server.type=inet,server.host=127.0.0.1,server.port={port},export="]
    argv += ["--nbd-server", f"addr.type=unix,addr.path={sock}", "--export", "type=nbd,id=e,node-name=a,name=,writable=on"]
    bench.start(argv)
    wait_for("qemu-storage-daemon", lambda: connects(sock))
    if mirrored:
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(monitor)
            talk = s.makefile("rw")
            talk.readline()
            mirror = {"job-id": "j", "device": "a", "target": "b", "sync": "none", "copy-mode": "write-blocking"}
            for command in ({"execute": "qmp_capabilities"}, {"execute": "blockdev-mirror", "arguments": mirror}):
                talk.write(json.dumps(command) + "\n")
                talk.flush()
                while "return" not in (answer := json.loads(talk.readline())):
                    if "error" in answer:
                        sys.exit(f"qemu: {answer}")
        time.sleep(0.3)
    return nbd(sock)


def helio(bench, mode, binary):
    lyon, paris = free_port(), free_port()
    config = bench.path("helio.toml")
    for name in ("lyon", "paris"):
        shutil.rmtree(bench.path(name), ignore_errors=True)
    with open(config, "w") as out:
        out.write(f'[node.lyon]\naddress = "127.0.0.1:{lyon}"\n[node.paris]\naddress = "127.0.0.1:{paris}"\n[group.db]\n'
                  f'nodes = ["lyon", "paris"]\nmode = "{"async" if mode == "local" else mode}"\n'
                  f'[group.db.volume.data]\nsize = "1GiB"\n'
                  f'members.paris = ["{bench.a}"]\nmembers.lyon = ["{bench.b}"]\n')
    for name in ("paris", "lyon") if mode != "local" else ("paris",):
        bench.start([binary, "daemon", "--node", name, "--config", config, "--state", bench.path(name)])

    def ask(*argv):
        return subprocess.run([binary, *argv, "--state", bench.path("paris")], capture_output=True, text=True)

    def group():
        return json.loads(ask("status", "--json").stdout or "{}").get("groups", [{}])[0]

    wait_for("helio", lambda: group().get("role"))
    if mode == "local":
        ask("promote", "db", "--force", "--yes")
        ask("log", "db")
        wait_for("primary", lambda: group().get("role") == "primary")
    else:
        wait_for("the peer", lambda: group()["peer"]["connection"] == "connected")
        ask("promote", "db")
        wait_for("replicating", lambda: group().get("state") == "replicating", 60)
    return nbd(bench.path("paris/nbd.sock"), "db/data")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--cpus", default="0,1")
    parser.add_argument("--dir", default="/var/tmp")
    parser.add_argument("--helio", default="target/release/helio")
    parser.add_argument("systems", nargs="*")
    args = parser.parse_args()
    binary = os.path.abspath(args.helio)
    systems = {
        "raw": raw,
        "qemu-local": lambda b: qemu(b, False),
        "qemu-sync": lambda b: qemu(b, True),
        "helio-local": lambda b: helio(b, "local", binary),
        "helio-sync": lambda b: helio(b, "sync", binary),
        "helio-async": lambda b: helio(b, "async", binary),
    }
    chosen = args.systems or list(systems)
    bench = Bench(args)
    rows = {}
    try:
        for n in range(args.rounds):
            for name in chosen if n % 2 == 0 else reversed(chosen):
                target = systems[name](bench)
                for job, flags in JOBS.items():
                    before = bench.cpu()
                    write = bench.fio(flags, target)
                    spent = (bench.cpu() - before) * 1e6 / max(1, write["total_ios"])
                    p = write["clat_ns"]["percentile"]
                    rows.setdefault((job, name), []).append(
                        (write["iops"], p["50.000000"] / 1e3, p["99.000000"] / 1e3, spent))
                bench.stop()
    finally:
        bench.stop()
        shutil.rmtree(bench.dir, ignore_errors=True)
    print(f"medians of {args.rounds} rounds of {args.seconds:g} s, all on CPUs {args.cpus}")
    for job in JOBS:
        print(f"\n| {job} | writes/s | p50 us | p99 us | server CPU us per write |\n|---|---|---|---|---|")
        for name in chosen:
            columns = zip(*rows[job, name])
            iops, p50, p99, cpu = (statistics.median(c) for c in columns)
            print(f"| {name} | {iops:.0f} | {p50:.0f} | {p99:.0f} | {cpu:.1f} |")


if __name__ == "__main__":
    main()

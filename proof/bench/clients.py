# SPDX-License-Identifier: Apache-2.0
"""The jobs, and the clients that run them: our own, or fio."""
import json, os
from dataclasses import dataclass
from stage import Failed


@dataclass(frozen=True)
class Job:
    title: str
    depth: int
    block: int = 4096
    mix: str = "write"


JOBS = {
    "w1": Job("4 KiB random write, depth 1", 1),
    "w16": Job("4 KiB random write, depth 16", 16),
    "wf1": Job("4 KiB random write + flush, depth 1", 1, mix="write-flush"),
    "seq4": Job("1 MiB sequential write, depth 4", 4, block=1 << 20, mix="sequential"),
    "r32": Job("4 KiB random read, depth 32", 32, mix="read"),
}


def measure(stage, options, target, job, args, seed):
    """One job on one system: ops, iops, p50_us, p99_us, mean_us, server_cpu_us, client_cpu_us, foreign, foreign_disk."""
    # Our own client only writes.
    with_fio = job.mix == "read" or args.client == "fio" and target.kind in ("raw", "nbd")
    run = fio if with_fio else own
    figures = stage.measure(lambda: run(stage, options, target, job, args, seed))
    target.check()
    if job.mix == "read":
        figures["foreign_disk"] = 0.0  # counts bytes written
    return figures


def own(stage, options, target, job, args, seed):
    program = "bare-two-leg" if target.kind == "two-leg" else "bench-client"
    argv = [os.path.join(options.programs, program)]
    argv += {"raw": ["raw", target.where],
             "two-local": ["raw", target.where, "--mirror", target.name],
             "nbd": ["nbd", target.where, "--export", target.name],
             "two-leg": [target.where, f"127.0.0.1:{target.name}"]}[target.kind]
    argv += ["--depth", str(job.depth), "--block", str(job.block), "--mix", job.mix, "--seconds", str(args.seconds),
             "--seed", str(seed)]
    # The writer of the two legs stands for the primary and spins as it does.
    argv += ["--spin-us", str(options.spin_us if target.kind == "two-leg" else args.client_spin_us)]
    out = stage.run_client(argv, args.seconds + 60)
    return json.loads(out)


def fio(stage, _options, target, job, args, seed):
    where = {"raw": ["--ioengine=io_uring", "--direct=1", f"--filename={target.where}"],
             "nbd": ["--ioengine=nbd", f"--uri=nbd+unix:///{target.name}?socket={target.where}"]}[target.kind]
    argv = ["fio", "--name=x", f"--size={stage.size}", "--time_based", f"--runtime={args.seconds}",
            f"--randseed={seed}", "--output-format=json", f"--bs={job.block}", f"--iodepth={job.depth}",
            "--rw=" + {"sequential": "write", "read": "randread"}.get(job.mix, "randwrite")] + where
    if job.mix == "write-flush":
        argv.append("--fsync=1")
    out = stage.run_client(argv, args.seconds + 60)
    result = json.loads(out[out.index("{"):])["jobs"][0]
    if result["error"]:
        raise Failed(f"fio: error {result['error']}")
    done, sync = result["read" if job.mix == "read" else "write"], result["sync"]
    p = done["clat_ns"]["percentile"]
    figures = {"ops": done["total_ios"], "seconds": done["runtime"] / 1e3, "iops": done["iops"],
               "p50_us": p["50.000000"] / 1e3, "p99_us": p["99.000000"] / 1e3, "mean_us": done["lat_ns"]["mean"] / 1e3}
    if job.mix == "write-flush":
        # fio knows the two apart only; the sum of medians stands for the median of sums.
        q = sync["lat_ns"]["percentile"]
        figures["p50_us"] += q["50.000000"] / 1e3
        figures["p99_us"] += q["99.000000"] / 1e3
    return figures

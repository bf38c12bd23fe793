# SPDX-License-Identifier: Apache-2.0
"""Tables and ratios out of measurements: {(placement, job, system): [figures, ...]}."""
import json, operator, os, platform, statistics
from clients import JOBS
from stage import PLACEMENTS

FOREIGN = 0.15  # of the CPUs in use, or of the bytes the disk took; above it a measurement is flagged


def is_flagged(figures):
    """Whether others took enough of the machine to spoil it."""
    return max(figures["foreign"], figures["foreign_disk"]) > FOREIGN


class Results:
    def __init__(self, quiet_only=False):
        self.cells = {}
        self.quiet_only = quiet_only
        self.asked = []  # the cells figures were taken from since `noisy` was asked

    def add(self, placement, job, system, figures):
        self.cells.setdefault((placement, job, system), []).append(figures)

    def used(self, placement, job, system):
        """The measurements medians are taken of."""
        self.asked.append((placement, job, system))
        cell = self.cells.get((placement, job, system), [])
        quiet = [f for f in cell if not is_flagged(f)]
        return quiet if self.quiet_only else cell

    def median(self, placement, job, system, figure):
        values = [f[figure] for f in self.used(placement, job, system)]
        return statistics.median(values) if values else None

    def cpu(self, placement, job, system):
        """Median CPU per operation of everybody who works on it: servers, and the writer of bare-two-leg."""
        keys = ("server_cpu_us", "client_cpu_us") if system == "bare-two-leg" else ("server_cpu_us",)
        values = [sum(f[k] for k in keys) for f in self.used(placement, job, system)]
        return statistics.median(values) if values else None

    def noisy(self):
        """Whether a cell asked for since the last time has more flagged measurements in its median than others."""
        cells, self.asked = self.asked, []
        flagged = [[is_flagged(f) for f in self.used(*cell)] for cell in cells]
        self.asked = []
        return any(sum(cell) * 2 > len(cell) for cell in flagged)


def close(args, began, cells, failures):
    """What stands below a table: what failed, and the file of `--json`. Returns the exit code."""
    for failure in failures:
        print(f"\nfailed: {failure}")
    if args.json:
        with open(args.json, "w") as out:
            head = {"began": began, "kernel": platform.release(), "cpus": os.cpu_count(), "arguments": vars(args)}
            json.dump(head | {"cells": cells}, out, indent=1)
    return 1 if failures else 0


def spread(values, digits=0):
    """Median, smallest and largest."""
    if not values:
        return "–"
    text = f"{statistics.median(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f}..{max(values):.{digits}f})"


def tables(results, placements, jobs, systems):
    out = []
    for placement in placements:
        cpus = ", ".join(f"{part} on CPU {cpu}" for part, cpu in PLACEMENTS[placement].items())
        out += [f"\n## Placement {placement}: {cpus}"]
        for job in jobs:
            rows = [s for s in systems if (placement, job, s) in results.cells]
            if not rows:
                continue
            out += [f"\n### {JOBS[job].title}\n",
                    "| system | ops/s | p50 us | p99 us | server CPU us/op | client CPU us/op | flagged |",
                    "|---|---|---|---|---|---|---|"]
            for system in rows:
                cell, used = results.cells[placement, job, system], results.used(placement, job, system)
                flagged = sum(map(is_flagged, cell))
                column = lambda key, digits=0: spread([f[key] for f in used], digits)
                out.append(f"| {system} | {column('iops')} | {column('p50_us')} | {column('p99_us')} | "
                           f"{column('server_cpu_us', 1)} | {column('client_cpu_us', 1)} | {flagged} of {len(cell)} |")
    return "\n".join(out)


def judged(results, placement):
    """Every figure the project holds itself to: what, its value, unit, relation, target. A ceiling has no target."""
    p50 = lambda job, system: results.median(placement, job, system, "p50_us")
    iops = lambda job, system: results.median(placement, job, system, "iops")
    cpu = lambda job, system: results.cpu(placement, job, system)

    def minus(figure, job, x, y):
        x, y = figure(job, x), figure(job, y)
        return None if x is None or y is None else x - y

    def over(figure, job, x, y):
        x, y = figure(job, x), figure(job, y)
        return None if x is None or not y else x / y

    local, sync = "helio-local", "helio-sync"
    yield "local p50@1 - raw", minus(p50, "w1", local, "raw"), "us", "<=", 30
    yield "local p50@1 - qemu-local", minus(p50, "w1", local, "qemu-local"), "us", "<=", 0
    yield "local IOPS@16 / raw", over(iops, "w16", local, "raw"), "", ">=", 0.75
    yield "local IOPS@16 / bare-nbd", over(iops, "w16", local, "bare-nbd"), "", ">=", 0.95
    for job, text in (("w1", "buffered p50@1"), ("wf1", "buffered write+flush p50@1")):
        yield f"{text} / nbdkit", over(p50, job, "helio-local-buffered", "nbdkit-file"), "", "<=", 1.25
    yield "sync p50@1 / qemu-sync", over(p50, "w1", sync, "qemu-sync"), "", "<=", 0.6
    yield "sync p50@1 - bare-two-leg", minus(p50, "w1", sync, "bare-two-leg"), "us", "<=", 60
    yield "sync IOPS@16 / qemu-sync", over(iops, "w16", sync, "qemu-sync"), "", ">=", 2
    yield "sync IOPS@16 / bare-two-leg", over(iops, "w16", sync, "bare-two-leg"), "", ">=", 0.6
    for mode in ("sync", "local"):
        for job, depth in (("w1", 1), ("w16", 16)):
            ratio = over(cpu, job, f"helio-{mode}", f"qemu-{mode}")
            yield f"{mode} CPU/op@{depth} / qemu-{mode}", ratio, "", "<=", 0.7
    one, two, both = "helio-local", "helio-set2", "quorum"
    yield "two members p50@1 - bare-two-local", minus(p50, "w1", two, "bare-two-local"), "us", "<=", 30
    yield "two members p50@1 - quorum", minus(p50, "w1", two, both), "us", "<", 0
    yield "two members IOPS@16 / quorum", over(iops, "w16", two, both), "", ">=", 1
    yield "two members IOPS@16 / one", over(iops, "w16", two, one), "", ">=", 0.8
    yield "bare-two-local IOPS@16 / raw", over(iops, "w16", "bare-two-local", "raw"), "", None, None
    yield "one member p50@1 / before", over(p50, "w1", one, "helio-local-before"), "", "<=", 1.05
    yield "one member IOPS@16 / before", over(iops, "w16", one, "helio-local-before"), "", ">=", 0.95
    yield "sync p50@1 / before", over(p50, "w1", sync, "helio-sync-before"), "", "<=", 1.05
    yield "sync IOPS@16 / before", over(iops, "w16", sync, "helio-sync-before"), "", ">=", 0.95
    yield "throttled reads@32, two members / one", over(iops, "r32", "helio-set2-throttled", "helio-throttled"), "", ">", 1
    yield "async on a limited link p50@1 / local", over(p50, "w1", "helio-async-limited", local), "", "<=", 1.05


RELATIONS = {"<": operator.lt, "<=": operator.le, ">=": operator.ge, ">": operator.gt}


def verdict(value, relation, target):
    if not relation:
        return ""
    return "PASS" if RELATIONS[relation](value, target) else "short"


def ratios(results, placements):
    rows = {}
    results.noisy()
    for placement in placements:
        for what, value, unit, relation, target in judged(results, placement):
            unit, noisy = f" {unit}" if unit else "", results.noisy()
            goal = f"{relation} {target}{unit}" if relation else ""
            row = rows.setdefault(f"{what} | {goal}", [])
            said = " ".join(filter(None, [verdict(value, relation, target), "*" if noisy else ""])) if value is not None else ""
            row.append("–" if value is None else f"{value:.{1 if unit else 3}f}{unit} {said}".rstrip())
    out = ["\n## Ratios of medians\n",
           f"`*`: others took more than {FOREIGN} of the CPUs or of the disk during most measurements of a system in it.\n",
           "| figure | target | " + " | ".join(placements) + " |", "|---|---|" + "---|" * len(placements)]
    out += [f"| {what} | " + " | ".join(row) + " |" for what, row in rows.items() if set(row) != {"–"}]
    return "\n".join(out)

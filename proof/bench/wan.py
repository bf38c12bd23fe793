# SPDX-License-Identifier: Apache-2.0
"""Sync over an emulated link: how much of what the round trip and the rate allow is reached."""
import re, socket, statistics, threading, time
from clients import JOBS, measure
from report import is_flagged, spread
from stage import PLACEMENTS, Failed
from systems import Helio, Line, Target, Tun

PINGS = 21

def bytes_per_second(rate):
    number, prefix = re.fullmatch(r"([0-9.]+) ?([kMG]?)bit/s", rate).groups()
    return float(number) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[prefix] / 8


class Echo:
    """Returns what it gets, so that an idle line can be timed."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while got := connection.recv(64):
                    connection.sendall(got)

    def close(self):
        # Closing alone would not wake the accept.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def ping(port):
    """Median seconds of a 64-byte message there and back."""
    took = []
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(PINGS):
            began = time.monotonic()
            s.sendall(bytes(64))
            got = 0
            while got < 64:
                if not (more := len(s.recv(64 - got))):
                    raise Failed("the line for pings hung up")
                got += more
            took.append(time.monotonic() - began)
    return statistics.median(took)


def over_relay(stage, options, rtt, rate, echo):
    """A pair over the relay, and the idle ping through another of the same shape."""
    pinged = Line(stage, options, echo.port)
    pinged.shape(rtt, rate)
    helio = Helio(stage, options, relayed=True)
    target = helio.pair("sync")
    helio.line.shape(rtt, rate)
    return target, ping(pinged.port)


def over_tun(stage, options, rtt, rate, _echo):
    """A pair at the two ends of a line below TCP, with keys, and the idle ping of that very line."""
    line = Tun(stage, options)
    # The round trip is there from the start: bbr remembers the shortest it saw for ten seconds.
    line.shape(rtt)
    target = Helio(stage, options, tun=line).pair("sync")
    line.shape(rate=rate)
    return target, line.ping()


LINES = {"relay": over_relay, "tun": over_tun}


def one_link(stage, options, args, rtt, rate, n):
    """A round on one link; its figures, the ideal beside each."""
    stage.clean()
    echo = Echo()
    try:
        raw = measure(stage, options, Target("raw", stage.a), JOBS["w16"], args, 1 + n)
        target, idle = LINES[args.line](stage, options, rtt, rate, echo)
        small = measure(stage, options, target, JOBS["w16"], args, 1 + n)
        large = measure(stage, options, target, JOBS["seq4"], args, 1 + n)
    finally:
        stage.stop()
        echo.close()
    depth, block, limit = JOBS["seq4"].depth, JOBS["seq4"].block, bytes_per_second(rate)
    return {"round": n, "ping_us": idle * 1e6, "raw": raw, "small": small, "large": large,
            "ideal_iops": JOBS["w16"].depth / (idle + raw["p50_us"] / 1e6),
            "rate": large["iops"] * block, "link": limit,
            # Four blocks under way fill the link only if its round trip is short enough.
            "depth_allows": min(limit, depth * block / (idle + block / limit)),
            "flagged": any(map(is_flagged, (raw, small, large)))}


def run(stage, options, args):
    cells = {}
    plan = [(placement, *link.split(":")) for link in args.links for placement in args.placements]
    for n in range(args.rounds):
        turn = n % len(plan)
        for placement, rtt, rate in plan[turn:] + plan[:turn]:
            stage.cpus = PLACEMENTS[placement]
            try:
                cells.setdefault((placement, rtt, rate), []).append(one_link(stage, options, args, rtt, rate, n))
            except Failed as why:
                args.failures.append(f"round {n + 1}, {rtt}, {rate}, placement {placement}: {why}")
    return table(cells), [{"placement": p, "rtt": rtt, "rate": rate, "measured": m} for (p, rtt, rate), m in cells.items()]


def table(cells):
    control = open("/proc/sys/net/ipv4/tcp_congestion_control").read().strip()
    out = [f"\n## helio-sync over a link (congestion control {control})\n",
           "Ideal writes/s: 16 / (idle median ping + raw p50 at depth 16). What depth 4 allows: 4 MiB per idle ping and "
           "one block's time on the link, at most the link's rate.\n",
           "| round trip, rate | placement | idle ping ms | writes/s @16 | of ideal | 1 MiB @4 MB/s | of the link | "
           "of what depth 4 allows | flagged |", "|---|---|---|---|---|---|---|---|---|"]
    for (placement, rtt, rate), cell in cells.items():
        figures = lambda value: [value(f) for f in cell]
        out.append(f"| {rtt}, {rate} | {placement} | {spread(figures(lambda f: f['ping_us'] / 1e3), 2)} | "
                   f"{spread(figures(lambda f: f['small']['iops']))} | "
                   f"{spread(figures(lambda f: f['small']['iops'] / f['ideal_iops']), 2)} | "
                   f"{spread(figures(lambda f: f['rate'] / 1e6), 1)} | "
                   f"{spread(figures(lambda f: f['rate'] / f['link']), 2)} | "
                   f"{spread(figures(lambda f: f['rate'] / f['depth_allows']), 2)} | "
                   f"{sum(f['flagged'] for f in cell)} of {len(cell)} |")
    return "\n".join(out)

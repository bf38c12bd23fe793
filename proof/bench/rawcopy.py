#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The store's own rate: one file is read and another written at the same time, past the page cache. Prints seconds."""
import argparse, json, mmap, os, threading, time


def work(fd, transfer, places, cpu, block, failures):
    os.sched_setaffinity(0, {cpu})  # of this thread alone
    buffer = mmap.mmap(-1, block)
    buffer.write(os.urandom(block))
    try:
        while True:
            try:
                at = next(places)
            except StopIteration:
                return
            if transfer(fd, [buffer], at) != block:
                raise OSError(f"short at {at}")
    except OSError as why:
        failures.append(why)


class Places:
    """Offsets for several threads."""

    def __init__(self, size, block):
        self.places, self.lock = iter(range(0, size - size % block, block)), threading.Lock()

    def __next__(self):
        with self.lock:
            return next(self.places)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--block", type=int, default=1 << 20)
    parser.add_argument("--depth", type=int, default=4, help="of either")
    parser.add_argument("--cpus", default="0,1", help="of the readers, of the writers")
    args = parser.parse_args()
    source = os.open(args.source, os.O_RDONLY | os.O_DIRECT)
    target = os.open(args.target, os.O_RDWR | os.O_DIRECT)
    size, failures, threads = os.fstat(source).st_size, [], []
    for fd, transfer, cpu in zip((source, target), (os.preadv, os.pwritev), map(int, args.cpus.split(","))):
        places = Places(size, args.block)
        threads += [threading.Thread(target=work, args=(fd, transfer, places, cpu, args.block, failures))
                    for _ in range(args.depth)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.fdatasync(target)
    if failures:
        raise failures[0]
    print(json.dumps({"seconds": time.monotonic() - began}))


if __name__ == "__main__":
    main()

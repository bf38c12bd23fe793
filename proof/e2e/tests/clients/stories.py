# SPDX-License-Identifier: Apache-2.0
"""Stories for libnbd: `stories.py STORY URI`. A failed assertion ends with an exit code of its own."""

import errno
import sys

import nbd

KIB = 1024
MIB = 1024 * KIB


def connect(uri, structured=True):
    """A connection; libnbd checks nothing on its own, so that the server must."""
    handle = nbd.NBD()
    handle.set_request_structured_replies(structured)
    handle.set_strict_mode(0)
    handle.connect_uri(uri)
    return handle


def replies(uri):
    """The same bytes by either kind of reply."""
    for structured in (True, False):
        handle = connect(uri, structured)
        assert handle.get_structured_replies_negotiated() == structured
        data = bytes([7 + structured]) * (256 * KIB)
        handle.pwrite(data, 64 * KIB)
        assert handle.pread(256 * KIB, 64 * KIB) == data
        handle.zero(4 * KIB, 64 * KIB)
        handle.trim(4 * KIB, 68 * KIB)
        assert handle.pread(12 * KIB, 64 * KIB) == bytes(8 * KIB) + data[: 4 * KIB]
        handle.shutdown()


def fua(uri):
    """Every request that takes FUA, with it."""
    handle = connect(uri)
    assert handle.can_fua()
    handle.pwrite(b"\x5a" * (64 * KIB), 0, nbd.CMD_FLAG_FUA)
    handle.zero(8 * KIB, 8 * KIB, nbd.CMD_FLAG_FUA)
    handle.zero(8 * KIB, 24 * KIB, nbd.CMD_FLAG_FUA | nbd.CMD_FLAG_NO_HOLE)
    handle.trim(8 * KIB, 40 * KIB, nbd.CMD_FLAG_FUA)
    written, zero = b"\x5a" * (8 * KIB), bytes(8 * KIB)
    expected = (written + zero) * 3 + written * 2
    assert handle.pread(64 * KIB, 0) == expected
    handle.shutdown()


def several_connections(uri):
    """Written on some, flushed on another, read on all."""
    handles = [connect(uri) for _ in range(4)]
    flusher = handles.pop()
    assert all(handle.can_multi_conn() for handle in handles)
    for number, handle in enumerate(handles):
        handle.pwrite(bytes([number + 1]) * (128 * KIB), number * MIB)
    flusher.flush()
    for handle in handles + [flusher]:
        for number in range(len(handles)):
            assert handle.pread(128 * KIB, number * MIB) == bytes([number + 1]) * (128 * KIB)
    for handle in handles + [flusher]:
        handle.shutdown()


def many_at_once(uri):
    """Hundreds of writes under way, then as many reads, each with bytes of its own."""
    handle = connect(uri)
    pieces = [(n * 8 * KIB, (n % 251 + 1).to_bytes(1, "big") * (8 * KIB)) for n in range(1024)]

    def finish(cookies):
        for cookie in cookies:
            while not handle.aio_command_completed(cookie):
                handle.poll(-1)

    sources = [(offset, nbd.Buffer.from_bytearray(bytearray(data))) for offset, data in pieces]
    finish([handle.aio_pwrite(source, offset) for offset, source in sources])
    buffers = [(nbd.Buffer(len(data)), offset, data) for offset, data in pieces]
    finish([handle.aio_pread(buffer, offset) for buffer, offset, _ in buffers])
    for buffer, _, data in buffers:
        assert buffer.to_bytearray() == data
    handle.shutdown()


def refusals(uri):
    """Requests no server should take, and one it should."""
    handle = connect(uri)
    size = handle.get_size()

    def refused(number, request):
        try:
            request()
        except nbd.Error as error:
            assert error.errnum == number, (error.errnum, number, error)
        else:
            raise AssertionError("it was not refused")

    refused(errno.ENOSPC, lambda: handle.pwrite(bytes(4 * KIB), size))
    refused(errno.EINVAL, lambda: handle.pread(4 * KIB, size))
    refused(errno.EINVAL, lambda: handle.trim(4 * KIB, size - KIB))
    handle.pwrite(b"\x33" * (4 * KIB), size - 4 * KIB)
    assert handle.pread(4 * KIB, size - 4 * KIB) == b"\x33" * (4 * KIB)
    handle.shutdown()


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])

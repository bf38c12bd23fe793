# SPDX-License-Identifier: Apache-2.0
"""Checks made with libnbd: `checks.py CHECK URI`. A failed assertion ends with an exit code of its own.

Exports may have any content at first; what a check needs it writes.
"""

import errno
import os
import socket
import ssl
import struct
import sys

import nbd

KIB = 1024
MIB = 1024 * KIB
ALLOCATION, MARKS, CHANGED = "base:allocation", "heliograph:marks", "heliograph:changed"
CHUNK = 64 * KIB
HOLE, ZERO = 1, 2
LIST, STARTTLS = 3, 5


def connect(uri, structured=True, contexts=()):
    """A connection; libnbd checks nothing on its own, so that the server must."""
    handle = nbd.NBD()
    handle.set_request_structured_replies(structured)
    handle.set_strict_mode(0)
    for context in contexts:
        handle.add_meta_context(context)
    handle.connect_uri(uri)
    return handle


def negotiating(uri):
    """A connection that haggles still."""
    handle = nbd.NBD()
    handle.set_opt_mode(True)
    handle.connect_uri(uri)
    return handle


def refused(request, *numbers):
    """The request fails with one of these errors; its text comes back."""
    try:
        request()
    except nbd.Error as error:
        assert error.errnum in numbers, (error.errnum, numbers, str(error))
        return str(error)
    raise AssertionError("it was not refused")


def told(handle, context, length, offset, flags=0):
    """What block status says of one context: lengths and flags."""
    found = []

    def heard(name, start, entries, error):
        assert start == offset
        if name == context:
            found.extend(zip(entries[::2], entries[1::2]))

    handle.block_status(length, offset, heard, flags)
    return found


def extents(handle, context, length, offset=0):
    """As `told`, asking again until all is told, neighbours joined."""
    found, end = [], offset + length
    while offset < end:
        for size, flags in told(handle, context, end - offset, offset):
            if found and found[-1][1] == flags:
                found[-1][0] += size
            else:
                found.append([size, flags])
            offset += size
    return found


def chunks(handle, count, offset, flags=0):
    """A read, as it arrived: place, length and status of each chunk, and the bytes."""
    arrived = []

    def heard(data, start, status, error):
        arrived.append((start, len(data), status))

    got = handle.pread_structured(count, offset, heard, flags)
    return sorted(arrived), bytes(got)


def information(uri):
    """INFO and GO agree; the name, the description and the block sizes come where they are asked for."""
    handle = negotiating(uri)
    handle.set_full_info(True)
    handle.opt_info()
    first = (handle.get_size(), handle.is_read_only(), handle.get_export_description())
    assert handle.get_canonical_export_name() == handle.get_export_name()
    sizes = [handle.get_block_size(kind) for kind in (nbd.SIZE_MINIMUM, nbd.SIZE_PREFERRED, nbd.SIZE_MAXIMUM)]
    assert sizes == [512, 4096, 32 * MIB], sizes
    handle.set_export_name("db/nothing")
    # libnbd knows no errno for each refusal.
    refused(handle.opt_info, errno.ENOENT)
    handle.set_export_name("db/data")
    handle.opt_go()
    assert (handle.get_size(), handle.is_read_only(), handle.get_export_description()) == first
    handle.shutdown()


def contexts(uri):
    """Contexts are listed all, by name and by namespace, and chosen by name."""
    for asked, expected in [
        ([], [ALLOCATION, MARKS]),
        (["base:"], [ALLOCATION]),
        (["heliograph:"], [MARKS]),
        ([MARKS, "qemu:dirty-bitmap:none", "x-unknown:"], [MARKS]),
        (["base:nothing"], []),
    ]:
        handle, found = negotiating(uri), []
        for context in asked:
            handle.add_meta_context(context)
        handle.opt_list_meta_context(found.append)
        assert found == expected, (asked, found)
        handle.opt_abort()
    for asked in [[ALLOCATION], [MARKS], [ALLOCATION, MARKS, "x-unknown:context"]]:
        handle = connect(uri, contexts=asked)
        for context in [ALLOCATION, MARKS]:
            assert handle.can_meta_context(context) == (context in asked)
        handle.shutdown()
    # Without structured replies there is none, and block status is refused.
    handle = connect(uri, structured=False, contexts=[ALLOCATION])
    assert not handle.can_meta_context(ALLOCATION)
    refused(lambda: told(handle, ALLOCATION, 4 * KIB, 0), errno.EINVAL, errno.ENOTSUP)
    handle.shutdown()


def holes(uri):
    """A read of half zeroes comes as data and a hole; as one chunk with DF; simple where nothing else was agreed on."""
    handle = connect(uri)
    data = os.urandom(512 * KIB)
    handle.pwrite(data, 0)
    handle.pwrite(bytes(512 * KIB), 512 * KIB)
    arrived, got = chunks(handle, MIB, 0)
    assert got == data + bytes(512 * KIB)
    assert [chunk for chunk in arrived if chunk[2] == nbd.READ_DATA] == [(0, 512 * KIB, nbd.READ_DATA)], arrived
    zero = [chunk for chunk in arrived if chunk[2] == nbd.READ_HOLE]
    assert sum(chunk[1] for chunk in zero) == 512 * KIB, arrived
    whole, got = chunks(handle, MIB, 0, nbd.CMD_FLAG_DF)
    assert whole == [(0, MIB, nbd.READ_DATA)] and got == data + bytes(512 * KIB)
    assert handle.can_df()
    handle.shutdown()
    simple = connect(uri, structured=False)
    assert not simple.can_df()
    assert simple.pread(MIB, 0) == data + bytes(512 * KIB)
    refused(lambda: simple.pread(4 * KIB, 0, nbd.CMD_FLAG_DF), errno.EINVAL)
    simple.shutdown()


def allocation(uri, sparse):
    """What was trimmed is a hole on a sparse member and zero on an allocated one; data is data."""
    empty = HOLE | ZERO if sparse == "sparse" else ZERO
    handle = connect(uri, contexts=[ALLOCATION])
    size = handle.get_size()
    handle.trim(size, 0)
    handle.flush()
    if sparse == "sparse":
        assert extents(handle, ALLOCATION, size) == [[size, empty]]
    handle.pwrite(b"\x11" * MIB, 8 * MIB)
    handle.flush()
    found = extents(handle, ALLOCATION, size)
    assert sum(length for length, _ in found) == size
    at = 0
    for length, flags in found:
        assert flags in (0, empty), found
        if flags:
            # What is said to be zero reads as zero, and the data is not among it.
            assert at + length <= 8 * MIB or at >= 9 * MIB, found
            assert handle.pread(4 * KIB, at) == bytes(4 * KIB)
        at += length
    if sparse == "sparse":
        assert found == [[8 * MIB, empty], [MIB, 0], [size - 9 * MIB, empty]], found
    one = told(handle, ALLOCATION, size, 0, nbd.CMD_FLAG_REQ_ONE)
    assert len(one) == 1 and one[0][0] <= size, one
    refused(lambda: told(handle, ALLOCATION, 4 * KIB, size), errno.EINVAL)
    refused(lambda: told(handle, ALLOCATION, 4 * KIB, 0, nbd.CMD_FLAG_DF), errno.EINVAL)
    handle.shutdown()


def unmarked(uri):
    """Nothing is marked."""
    handle = connect(uri, contexts=[MARKS])
    assert extents(handle, MARKS, handle.get_size()) == [[handle.get_size(), 0]]
    handle.shutdown()


def marked(uri):
    """What is written while the queue is off is marked, and nothing far from it."""
    handle = connect(uri, contexts=[ALLOCATION, MARKS])
    handle.pwrite(b"\x77" * (64 * KIB), 16 * MIB)
    found, at = extents(handle, MARKS, handle.get_size()), 0
    for length, flags in found:
        if at <= 16 * MIB < at + length:
            assert flags == 1, found
            assert length <= 2 * MIB, found
        at += length
    assert [flags for _, flags in found] == [0, 1, 0], found
    handle.shutdown()


def scatter(uri, seed, *places):
    """Writes at these places, each START+LENGTH in KiB, with bytes that the seed names."""
    handle = connect(uri)
    for number, place in enumerate(places):
        start, length = (int(part) * KIB for part in place.split("+"))
        handle.pwrite((seed + str(number)).encode().ljust(512, b"-") * (length // 512), start)
    handle.shutdown()


def clear(uri, zeroed, trimmed):
    """Zeroes one chunk and trims another."""
    handle = connect(uri)
    handle.zero(4 * KIB, int(zeroed) * CHUNK)
    handle.trim(CHUNK, int(trimmed) * CHUNK)
    handle.flush()
    handle.shutdown()


def changed_chunks(handle):
    """The chunks that changed since a snapshot."""
    found, at = set(), 0
    for length, flags in extents(handle, CHANGED, handle.get_size()):
        assert flags in (0, 1) and length % CHUNK == 0, (length, flags)
        if flags:
            found.update(range(at // CHUNK, (at + length) // CHUNK))
        at += length
    assert at == handle.get_size()
    return found


def changed(uri, *chunks):
    """Exactly these chunks changed."""
    handle = connect(uri, contexts=[ALLOCATION, CHANGED])
    assert handle.can_meta_context(CHANGED) and handle.can_meta_context(ALLOCATION)
    assert changed_chunks(handle) == {int(chunk) for chunk in chunks}, changed_chunks(handle)
    # One stretch, no longer than asked, from the middle of a chunk.
    for chunk in chunks:
        start = int(chunk) * CHUNK + 4 * KIB
        assert told(handle, CHANGED, 8 * KIB, start, nbd.CMD_FLAG_REQ_ONE) == [(8 * KIB, 1)]
    assert extents(handle, ALLOCATION, handle.get_size()) == [[handle.get_size(), 0]]
    handle.shutdown()


def everything(handle):
    """All bytes of an export."""
    size = handle.get_size()
    return bytearray(b"".join(handle.pread(MIB, at) for at in range(0, size, MIB)))


def incremental(older, newer):
    """A backup of one snapshot becomes one of the newer export if what changed since is copied, and nothing else."""
    base, source = connect(older, contexts=[CHANGED]), connect(newer)
    backup = everything(base)
    chunks = changed_chunks(base)
    for chunk in chunks:
        backup[chunk * CHUNK : (chunk + 1) * CHUNK] = source.pread(CHUNK, chunk * CHUNK)
    expected = everything(source)
    wrong = [at for at in range(0, len(backup), CHUNK) if backup[at : at + CHUNK] != expected[at : at + CHUNK]]
    assert not wrong, wrong
    assert 0 < len(chunks) < 20, chunks
    base.shutdown()
    source.shutdown()


def over_tls(host, port, folder, ciphers):
    """A connection that chose TLS 1.2 with one of these suites, and what the server says to LIST."""
    context = ssl.create_default_context(cafile=folder + "/ca-cert.pem")
    context.load_cert_chain(folder + "/client-cert.pem", folder + "/client-key.pem")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(ciphers)
    with socket.create_connection((host, int(port))) as plain:
        assert plain.recv(18, socket.MSG_WAITALL).startswith(b"NBDMAGICIHAVEOPT")
        plain.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", STARTTLS, 0))
        assert struct.unpack(">QIII", plain.recv(20, socket.MSG_WAITALL))[2] == 1
        with context.wrap_socket(plain, server_hostname=host) as sealed:
            sealed.sendall(struct.pack(">8sII", b"IHAVEOPT", LIST, 0))
            return sealed.version(), struct.unpack(">QIII", sealed.recv(20))[1]


def tls_1_2(host, port, folder):
    """OpenSSL with TLS 1.2 is served with ECDHE and AEAD, and refused with anything else."""
    for ciphers in ["ECDHE+AESGCM", "ECDHE+CHACHA20"]:
        assert over_tls(host, port, folder, ciphers) == ("TLSv1.2", LIST), ciphers
    for ciphers in ["ECDHE+AES:!AESGCM:!AESCCM", "kRSA+AESGCM", "DHE+AESGCM", "ECDHE+AESCCM"]:
        try:
            over_tls(host, port, folder, ciphers)
        except (ssl.SSLError, ConnectionError):
            continue
        raise AssertionError(ciphers + " was served")


def effects(uri):
    """Long trims and zeroes, each with and without FUA; fast zeroes refused; CACHE answered."""
    handle = connect(uri)
    size = handle.get_size()
    assert handle.can_cache() and handle.can_fua() and handle.can_flush()
    for flags in (0, nbd.CMD_FLAG_FUA):
        handle.pwrite(b"\xaa" * MIB, 0, flags)
        handle.pwrite(b"\xbb" * MIB, size - MIB, flags)
        handle.zero(size, 0, flags)
        assert handle.pread(MIB, 0) == bytes(MIB) and handle.pread(MIB, size - MIB) == bytes(MIB)
        handle.pwrite(b"\xcc" * (2 * MIB), 4 * MIB)
        handle.zero(MIB, 4 * MIB, flags | nbd.CMD_FLAG_NO_HOLE)
        handle.trim(size - 5 * MIB, 5 * MIB, flags)
        assert handle.pread(2 * MIB, 4 * MIB) == bytes(2 * MIB)
    refused(lambda: handle.zero(MIB, 0, nbd.CMD_FLAG_FAST_ZERO), errno.ENOTSUP)
    handle.cache(size, 0)
    handle.cache(4 * KIB, 0)
    # FUA means nothing with these, and clients in the field set it everywhere.
    handle.pread(4 * KIB, 0, nbd.CMD_FLAG_FUA)
    handle.shutdown()


def largest(uri):
    """The longest read and write there may be."""
    handle = connect(uri)
    data = os.urandom(32 * MIB)
    handle.pwrite(data, MIB)
    assert handle.pread(32 * MIB, MIB) == data
    handle.shutdown()


def errors(uri):
    """Every refusal, and the connection goes on after each."""
    for structured in (True, False):
        handle = connect(uri, structured)
        size, buffer = handle.get_size(), bytes(4 * KIB)
        unknown = 1 << 9
        for number, request in [
            (errno.EINVAL, lambda: handle.pread(512, 1)),
            (errno.EINVAL, lambda: handle.pread(100, 0)),
            (errno.EINVAL, lambda: handle.pwrite(b"x" * 100, 512)),
            (errno.EINVAL, lambda: handle.trim(512, 256)),
            (errno.EINVAL, lambda: handle.zero(100, 0)),
            (errno.EINVAL, lambda: handle.pread(4 * KIB, size)),
            (errno.EINVAL, lambda: handle.trim(4 * KIB, size)),
            (errno.EINVAL, lambda: handle.cache(4 * KIB, size)),
            (errno.ENOSPC, lambda: handle.pwrite(buffer, size)),
            (errno.ENOSPC, lambda: handle.zero(4 * KIB, size)),
            (errno.ENOSPC, lambda: handle.pwrite(buffer, (1 << 63) - 4 * KIB)),
            (errno.ENOSPC, lambda: handle.pwrite(buffer, size - 512)),
            (errno.EOVERFLOW, lambda: handle.pread(33 * MIB, 0)),
            (errno.EINVAL, lambda: handle.pwrite(bytes(33 * MIB), 0)),
            (errno.EINVAL, lambda: handle.pwrite(buffer, 0, unknown)),
            (errno.EINVAL, lambda: handle.flush(unknown)),
            (errno.EINVAL, lambda: handle.trim(4 * KIB, 0, nbd.CMD_FLAG_NO_HOLE)),
            (errno.EINVAL, lambda: told(handle, ALLOCATION, 4 * KIB, 0)),
        ]:
            refused(request, number)
            handle.flush()
        handle.shutdown()


def unrequested_sizes(uri):
    """A client that requests no block sizes gets them, and errors for what does not fit them."""
    for structured in (True, False):
        handle = nbd.NBD()
        handle.set_request_structured_replies(structured)
        handle.set_request_block_size(False)
        handle.set_strict_mode(0)
        handle.connect_uri(uri)
        assert handle.get_block_size(nbd.SIZE_MINIMUM) == 512
        refused(lambda: handle.pread(1, 0), errno.EINVAL)
        refused(lambda: handle.pwrite(b"x", 1), errno.EINVAL)
        assert len(handle.pread(512, 0)) == 512
        handle.shutdown()


def read_only(uri):
    """Reads and questions are answered, changes refused."""
    handle = connect(uri, contexts=[ALLOCATION])
    assert handle.is_read_only() and handle.can_flush()
    for request in [
        lambda: handle.pwrite(bytes(4 * KIB), 0),
        lambda: handle.zero(4 * KIB, 0),
        lambda: handle.trim(4 * KIB, 0),
    ]:
        refused(request, errno.EPERM)
    handle.flush()
    handle.cache(4 * KIB, 0)
    assert sum(length for length, _ in extents(handle, ALLOCATION, handle.get_size())) == handle.get_size()
    handle.shutdown()


def pattern(uri, multi_conn):
    """What `sow` wrote is there."""
    handle = connect(uri)
    assert handle.can_multi_conn() == (multi_conn == "multi-conn")
    assert handle.pread(MIB, MIB) == b"\x5c" * MIB and handle.pread(512, 0) == bytes(512)
    handle.shutdown()


def sow(uri):
    """Writes what `pattern` looks for."""
    handle = connect(uri)
    handle.zero(4 * MIB, 0)
    handle.pwrite(b"\x5c" * MIB, MIB)
    handle.flush()
    handle.shutdown()


def until_dismissed(uri):
    """Reads until the server ends the connection, and says when it has begun.

    A read that was under way may still be answered with ESHUTDOWN before the end."""
    handle = connect(uri)
    handle.pread(512, 0)
    print("reading", flush=True)
    while handle.aio_is_ready():
        try:
            handle.pread(512, 0)
        except nbd.Error as error:
            assert not handle.aio_is_ready() or error.errnum == errno.ESHUTDOWN, error


def barrier(uri):
    """A flush on one connection covers what was answered on others; all of them allow more than one."""
    handles = [connect(uri) for _ in range(4)]
    assert all(handle.can_multi_conn() for handle in handles)
    for number, handle in enumerate(handles[1:]):
        handle.pwrite(bytes([number + 1]) * (128 * KIB), number * MIB)
    handles[0].flush()
    for handle in handles:
        handle.shutdown()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

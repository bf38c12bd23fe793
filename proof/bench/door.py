# SPDX-License-Identifier: Apache-2.0
"""A daemon's two doors, opened without a process for each question: its control socket and an NBD volume."""
import http.client, json, socket, struct, time
from stage import Failed


class Control(http.client.HTTPConnection):
    """The control API over its Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def group(self):
        """What the node says of group db; nothing while it does not answer."""
        for _ in range(2):  # a daemon hangs up on those who did not ask for a while
            try:
                self.request("GET", "/v2/groups/db")
                return json.loads(self.getresponse().read())["groups"][0]
            except (OSError, http.client.HTTPException, KeyError, IndexError):
                self.close()
        return {}

    def wait(self, what, wanted, seconds, pause=0.005):
        """Asks until `wanted(group)`; that group, and when it was so."""
        end, group = time.monotonic() + seconds, {}
        while time.monotonic() < end:
            if (group := self.group()) and wanted(group):
                return group, time.monotonic()
            time.sleep(pause)
        raise Failed(f"{what} did not come within {seconds:.0f} s: {group.get('state')}, {group.get('state_reason')}, "
                     f"sync {group.get('sync')}")


def is_level(group):
    return group["state"] == "replicating" and group["mode"]["effective"] == group["mode"]["requested"]


class Nbd:
    """A client of an NBD volume."""

    READ, WRITE, FLUSH = 0, 1, 3
    OPTION_GO = 7

    def __init__(self, path, export):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        if self.take(16) != b"NBDMAGICIHAVEOPT":
            raise Failed("this is no NBD server")
        self.take(2)
        name = export.encode()
        self.socket.sendall(struct.pack(">I8sIII", 3, b"IHAVEOPT", self.OPTION_GO, 6 + len(name), len(name)) + name
                            + struct.pack(">H", 0))
        kind = 0
        while kind != 1:
            _, _, kind, length = struct.unpack(">QIII", self.take(20))
            told = self.take(length)
            if kind >> 31:
                raise OSError(f"{export} is not served: {told.decode(errors='replace')}")
        self.under_way = 0

    def take(self, length):
        got = b""
        while len(got) < length:
            if not (more := self.socket.recv(length - len(got))):
                raise OSError("the NBD server hung up")
            got += more
        return got

    def send(self, command, offset, length, payload=b""):
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, command, 0, offset, length) + payload)
        self.under_way += 1

    def answer(self, length=0):
        magic, error, _ = struct.unpack(">IIQ", self.take(16))
        self.under_way -= 1
        if magic != 0x67446698 or error:
            raise OSError(error, "an NBD request failed")
        return self.take(length)

    def write_all(self, pieces, depth=16):
        """Writes (offset, bytes) pieces, so many under way, and flushes."""
        for offset, payload in pieces:
            self.send(self.WRITE, offset, len(payload), payload)
            if self.under_way >= depth:
                self.answer()
        while self.under_way:
            self.answer()
        self.send(self.FLUSH, 0, 0)
        self.answer()

    def read(self, offset, length):
        self.send(self.READ, offset, length)
        return self.answer(length)

    def close(self):
        self.socket.close()

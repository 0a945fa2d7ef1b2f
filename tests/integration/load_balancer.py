"""A TCP proxy on loopback that hands connections to several servers in turn, as a Service does."""

import contextlib
import itertools
import socket
import threading


class LoadBalancer:
    """Use as a context manager. connections counts those that each server got."""

    def __init__(self, ports):
        self.connections = dict.fromkeys(ports, 0)
        self._ports = itertools.cycle(ports)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        self._open = set()
        self._lock = threading.Lock()

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for s in self._open:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            port = next(self._ports)
            try:
                server = socket.create_connection(("127.0.0.1", port), timeout=10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            self.connections[port] += 1
            with self._lock:
                self._open |= {client, server}
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        # Both directions: an admission request that has lost one has lost its meaning.
        for s in (source, target):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open -= {source, target}

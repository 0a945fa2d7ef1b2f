"""A TCP proxy in front of the API server: what an operator sees when the API server, or the way to it, is not there."""

import contextlib
import selectors
import socket
import threading

import yaml

from operator_process import free_port


class Proxy:
    """Forwards a loopback port to another while it is open; otherwise connections are refused, those there are cut."""

    def __init__(self, port):
        self.port = free_port()
        self._target = port
        self._listener = None
        self._pairs = set()
        self._lock = threading.Lock()
        self._flows = threading.Event()

    def open(self):
        self._flows.set()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self):
        listener, self._listener = self._listener, None
        if listener:
            # shutdown wakes the accepting thread; close alone does not.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for ends in pairs:
            _cut(ends)
        self._flows.set()

    def stall(self):
        """Connections stay and new ones are taken, but nothing passes any more, until close()."""
        self._flows.clear()

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                ends = (client, socket.create_connection(("127.0.0.1", self._target)))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._pairs.add(ends)
            threading.Thread(target=self._forward, args=(ends,), daemon=True).start()
            if self._listener is not listener:
                _cut(ends)

    def _forward(self, ends):
        with selectors.DefaultSelector() as selector, contextlib.suppress(OSError):
            selector.register(ends[0], selectors.EVENT_READ, ends[1])
            selector.register(ends[1], selectors.EVENT_READ, ends[0])
            while True:
                for key, _ in selector.select():
                    self._flows.wait()
                    data = key.fileobj.recv(65536)
                    if not data:
                        raise OSError
                    key.data.sendall(data)
        with self._lock:
            self._pairs.discard(ends)
        _cut(ends)
        for end in ends:
            end.close()


def _cut(ends):
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class ProxiedCluster:
    """Stands in for a Cluster when an operator is started: the same control plane, but reached through .proxy."""

    def __init__(self, cluster, directory):
        self._cluster = cluster
        self.proxy = Proxy(cluster.api.port)
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.proxy.port}"
        self.kubeconfig = directory / "proxied-kubeconfig"
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def __getattr__(self, name):
        return getattr(self._cluster, name)

"""The API server as JSON over HTTPS: one kept-alive connection per thread (kubectl costs about 100 ms a call)."""

import base64
import http.client
import json
import pathlib
import ssl
import threading
import urllib.parse

import yaml


JSON = "application/json"
# The API server ends the watch of a client that does not keep up. It may go on where it was, and nothing is lost; but not for ever.
RESUMPTIONS = 50


class ApiError(Exception):
    """The API server refused: status and reason as in its Status object ("NotFound", "Invalid", ...)."""

    def __init__(self, method, path, status, body):
        self.status = status
        self.body = body
        try:
            parsed = json.loads(body)
        except ValueError:
            parsed = {}
        self.reason = parsed.get("reason", "") if isinstance(parsed, dict) else ""
        self.message = parsed.get("message", body) if isinstance(parsed, dict) else body
        super().__init__(f"{method} {path}: {status} {self.reason}: {self.message}")


class Resource:
    """One API resource, as discovery describes it."""

    def __init__(self, group, version, plural, kind, namespaced):
        self.group, self.version, self.plural, self.kind, self.namespaced = group, version, plural, kind, namespaced

    def path(self, ns=None, name=None, subresource=None):
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        if ns and self.namespaced:
            parts += ["namespaces", ns]
        parts += [p for p in (self.plural, name, subresource) if p]
        return "/".join(parts)


IDLE_CLOSED = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError, ssl.SSLEOFError)


class Api:
    """The API server, with the rights of the administrator. Thread-safe: every thread has its own connection."""

    def __init__(self, kubeconfig, timeout=60.0):
        config = yaml.safe_load(pathlib.Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        url = urllib.parse.urlsplit(cluster["server"])
        self.host, self.port, self.timeout = url.hostname, url.port, timeout
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=ca)
        # The ssl module takes client certificates from a file only.
        pem = pathlib.Path(kubeconfig).with_name("client.pem")
        pem.touch(mode=0o600)
        pem.write_bytes(
            base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"])
        )
        self._tls.load_cert_chain(pem)
        self._local = threading.local()
        self._resources = {}
        self._lock = threading.Lock()

    def connect(self):
        """A new connection, not shared with anybody."""
        return http.client.HTTPSConnection(self.host, self.port, timeout=self.timeout, context=self._tls)

    def raw(self, method, path, body=None, headers=None):
        """Sends one request and returns (status, text)."""
        connection = getattr(self._local, "connection", None)
        reused = connection is not None
        if not reused:
            connection = self._local.connection = self.connect()
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (http.client.HTTPException, OSError) as e:
            connection.close()
            self._local.connection = None
            # An idle connection may have been closed by the server, which shows only on its next use.
            if reused and isinstance(e, IDLE_CLOSED):
                return self.raw(method, path, body, headers)
            raise

    def request(self, method, path, body=None, content_type=JSON, params=None, accept=JSON):
        """Sends body as JSON (a str as it is) and returns the decoded answer; raises ApiError from status 400 on."""
        headers = {"Accept": accept}
        if params:
            path += ("&" if "?" in path else "?") + urllib.parse.urlencode(params)
        if body is not None:
            headers["Content-Type"] = content_type
            body = body if isinstance(body, (str, bytes)) else json.dumps(body)
        status, text = self.raw(method, path, body, headers)
        if status >= 400:
            raise ApiError(method, path, status, text)
        return json.loads(text)

    def get(self, path, **params):
        return self.request("GET", path, params=params)

    def post(self, path, body, **params):
        return self.request("POST", path, body, params=params)

    def put(self, path, body, **params):
        return self.request("PUT", path, body, params=params)

    def patch(self, path, body, content_type="application/merge-patch+json", **params):
        """A merge patch, unless content_type says another kind."""
        return self.request("PATCH", path, body, content_type=content_type, params=params)

    def delete(self, path, body=None, **params):
        return self.request("DELETE", path, body, params=params)

    def resource(self, name):
        """The Resource of a kind, plural, singular or short name, also with its group ("events.events.k8s.io")."""
        with self._lock:
            if name.lower() not in self._resources:
                self._resources = self._discover()
            try:
                return self._resources[name.lower()]
            except KeyError:
                raise AssertionError(f"the API server has no resource '{name}'") from None

    def _discover(self):
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        found = {}
        for root in ("/api", "/apis"):
            for group in self.request("GET", root, accept=accept)["items"]:
                group_name = group["metadata"].get("name", "")
                # Preferred version first: the first entry of a name stays.
                for version in group["versions"]:
                    for item in version.get("resources", []):
                        if "responseKind" not in item:
                            continue
                        kind = item["responseKind"]["kind"]
                        plural, namespaced = item["resource"], item["scope"] == "Namespaced"
                        resource = Resource(group_name, version["version"], plural, kind, namespaced)
                        names = [plural, kind, item.get("singularResource"), *item.get("shortNames", [])]
                        for name in filter(None, names):
                            found.setdefault(name.lower(), resource)
                            found.setdefault(f"{name}.{group_name}".lower(), resource)
        return found


class Watch(threading.Thread):
    """Records every change of a collection, from the moment it is constructed, as (type, object) in events.

    Use as a context manager. For rules that must hold "at any moment", where polling would miss the moment.
    """

    def __init__(self, api, path, selector=None, timeout=None):
        """timeout: seconds after which the API server is to end it; then it goes on."""
        super().__init__(name=f"watch {path}", daemon=True)
        params = {"labelSelector": selector} if selector else {}
        listed = api.get(path, **params)
        self.initial = listed.get("items", [])
        self.events = []
        self.error = None
        self._stop_requested = False
        self._connection = api.connect()
        self._path, self._params = path, params | {"watch": "true"}
        if timeout:
            self._params["timeoutSeconds"] = timeout
        self.resumed = 0
        self._version = listed["metadata"]["resourceVersion"]
        self._open()
        self.start()

    def _open(self):
        """From the last version seen on."""
        params = urllib.parse.urlencode(self._params | {"resourceVersion": self._version})
        self._connection.close()
        self._connection.request("GET", f"{self._path}?{params}")
        self._response = self._connection.getresponse()
        self._socket = self._connection.sock or self._response.fp.raw._sock
        self._socket.settimeout(None)

    def run(self):
        try:
            self._record()
            while self.resumed < RESUMPTIONS and not self._stop_requested:
                self._open()
                self.resumed += 1
                self._record()
            self.error = f"the API server ended the watch {RESUMPTIONS} times"
        except (http.client.HTTPException, OSError, ValueError, KeyError) as e:
            self.error = e

    def _record(self):
        for line in self._response:
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise ValueError(event["object"].get("message"))
            self._version = event["object"]["metadata"]["resourceVersion"]
            self.events.append((event["type"], event["object"]))

    def history(self):
        """All events so far; raises when the watch broke, because then some are missing."""
        if self.error and not self._stop_requested:
            raise AssertionError(f"{self.name} broke: {self.error}")
        return list(self.events)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop_requested = True
        try:
            self._socket.shutdown(2)
        except OSError:
            pass
        self.join(10)
        self._connection.close()

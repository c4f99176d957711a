"""Talks to a Holdfast server: sessions, calls, forks, rewards and rollouts. Needs only the standard library.

    client = Client("http://127.0.0.1:8080")
    session = client.open({"initial_count": 3, "expected_count": 5}, random=7)
    session.call("increment_counter", count=2)
    print(session.verify())
"""

from __future__ import annotations

import http.client
import json
import random as randomness
import socket
import threading
import time
import urllib.parse
import uuid
from typing import Any, Iterator

Json = Any
Row = dict[str, Any]

RETRIED = {429, 502, 503, 504}
RETRIED_CODES = {"version_conflict", "call_in_progress", "session_busy"}
BROKEN = (http.client.HTTPException, ConnectionError, socket.timeout, TimeoutError, OSError)


class HoldfastError(Exception):
    """A refusal or a failure that the server reported. `code` is a code of docs/errors.md."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{message} ({code}, status {status})")
        self.status, self.code, self.message = status, code, message

    @property
    def retried(self) -> bool:
        """Says whether the same request may succeed later."""
        return self.status in RETRIED or self.code in RETRIED_CODES


class Client:
    """A server, or one of its environments if the URL ends in its name. Threads may share a client.

    Each thread keeps one connection open. A request whose connection breaks, or that the server cannot answer now, is
    sent again until `patience` seconds are over. Calls carry an id, so a repeated call is applied once.
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = 60, patience: float = 60) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a valid server URL; use one such as http://127.0.0.1:8080")
        self.url, self.timeout, self.patience = url.rstrip("/"), timeout, patience
        self._secure, self._host = parts.scheme == "https", parts.hostname
        self._port, self._prefix = parts.port, parts.path.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._local = threading.local()

    # Sessions

    def environment(self) -> Row:
        """Returns the name, the tools with their JSON Schemas, and the other facts of the environment."""
        return self.request("GET", "/v1/environment")

    def open(self, task: Json = None, random: int | None = None, labels: dict[str, str] | None = None) -> "Session":
        """Opens a session, and starts an episode if there is a task."""
        body = {"task": task, "random": random, "labels": labels}
        given = {name: value for name, value in body.items() if value is not None}
        return Session(self, self.request("POST", "/v1/sessions", given)["session"])

    def session(self, session: str) -> "Session":
        """Returns a session that exists already."""
        return Session(self, session)

    # Rollouts

    def rollouts(self, request: str | None = None, after: int | None = None, **settings: Json) -> Iterator[Row]:
        """Plays rollouts on the server and yields their events: rows, or groups of rows with `groups=True`.

        `settings` are the fields of `POST /v1/rollouts`. A request with an id that the server knows continues that request.
        With `after`, it must know it, and the events after that index follow.
        After a broken connection, the stream continues after the last event that was yielded. It does so after a restart
        of the server too, if the server has a persistent store. If it has none, the request is lost, and that is an error.
        """
        request = request or str(uuid.uuid4())
        last = -1 if after is None else after
        # The patience begins at the first failure: whoever takes the events may work on one for longer than that.
        deadline: float | None = None
        pause = _Pause()
        # A request that is begun again has other rows under the same indexes, so none is begun once a row was seen.
        begin = last < 0
        while True:
            try:
                for event in self._rollout_events(request, settings, last, begin):
                    begin, deadline, pause = False, None, _Pause()
                    index = event.get("index")
                    if event.get("type") == "waiting" or (isinstance(index, int) and index <= last):
                        continue
                    if isinstance(index, int):
                        last = index
                    yield event
                    if event.get("type") == "end":
                        return
                reason: Exception = ConnectionError("the stream ended before its last event")
            except HoldfastError as error:
                if error.status == 404 and last >= 0:
                    lost = f"the server has lost the request {request} after its event {last} ({error.message}); use a persistent --store"
                    raise HoldfastError(error.status, error.code, lost) from error
                if error.status == 404 and not begin:
                    begin = True
                elif not error.retried:
                    raise
                reason = error
            except BROKEN as error:
                reason = error
            now = time.monotonic()
            deadline = now + self.patience if deadline is None else deadline
            if now >= deadline:
                raise ConnectionError(f"rollouts {request} of {self.url} stopped: {reason}") from reason
            pause.wait()

    def cancel(self, request: str) -> Row:
        """Cancels rollouts. Finished rows stay."""
        return self.request("DELETE", f"/v1/rollouts/{_quote(request)}")

    def _rollout_events(self, request: str, settings: Row, last: int, begin: bool) -> Iterator[Row]:
        # A connection of its own: the stream stays open while the same thread may send other requests.
        connection = self._connect()
        try:
            if begin:
                body = json.dumps({"request": request, **settings}).encode()
                self._send(connection, "POST", "/v1/rollouts", body)
            else:
                after = f"?after={last}" if last >= 0 else ""
                self._send(connection, "GET", f"/v1/rollouts/{_quote(request)}{after}", None)
            reply = connection.getresponse()
            if reply.status >= 400:
                raise _error(reply.status, reply.read())
            for line in reply:
                # A line without its end was cut.
                if not line.endswith(b"\n"):
                    return
                if line.strip():
                    yield json.loads(line)
        finally:
            connection.close()

    # Requests

    def request(self, method: str, path: str, body: Json = None) -> Json:
        """Sends a request to a path such as /v1/sessions, repeats it if it must, and returns the body of the reply."""
        content = None if body is None else json.dumps(body).encode()
        deadline = time.monotonic() + self.patience
        pause = _Pause()
        while True:
            try:
                connection = getattr(self._local, "connection", None)
                if connection is None:
                    connection = self._local.connection = self._connect()
                self._send(connection, method, path, content)
                reply = connection.getresponse()
                text = reply.read()
                if reply.status < 400:
                    return json.loads(text) if text else None
                error = _error(reply.status, text)
                if not error.retried or time.monotonic() > deadline:
                    raise error
            except BROKEN as error:
                self.close()
                if time.monotonic() > deadline:
                    raise ConnectionError(f"{self.url} does not answer: {error}") from error
            pause.wait()

    def close(self) -> None:
        """Closes the connection of this thread. The next request opens another one."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _connect(self) -> http.client.HTTPConnection:
        make = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return make(self._host, self._port, timeout=self.timeout)

    def _send(self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None) -> None:
        headers = dict(self._headers)
        if body is not None:
            headers["content-type"] = "application/json"
        if connection.sock is None:
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.request(method, self._prefix + path, body, headers)


class Session:
    """A session on a server. Its calls are numbered, so a repeat after a lost reply is applied once."""

    def __init__(self, client: Client, id: str) -> None:
        self.client, self.id = client, id
        # Two clients of one session must not use the same call ids.
        self._prefix, self._calls = uuid.uuid4().hex[:12], 0

    def call(self, tool: str, input: Row | None = None, call: str | None = None, **arguments: Json) -> Row:
        """Calls a tool: `{ok, output}` or `{ok, error}`. Arguments are keywords, or a dictionary in `input`."""
        self._calls += 1
        body = {"tool": tool, "input": {**(input or {}), **arguments}, "call": call or f"{self._prefix}-{self._calls}"}
        return self._post("call", body)

    def verify(self, version: int | None = None) -> float:
        """Returns the reward, now or at a version."""
        return self._post("verify", {} if version is None else {"version": version})["reward"]

    def rewards(self) -> list[Row]:
        """Returns the reward at every version that changed the state: `[{version, reward}]`."""
        return self.client.request("GET", f"{self._path}/rewards")["rewards"]

    def fork(self, version: int | None = None) -> "Session":
        """Returns a new session that starts from this one, now or at a version."""
        forked = self._post("fork", {} if version is None else {"version": version})
        return Session(self.client, forked["session"])

    def state(self, version: int | None = None) -> Json:
        """Returns the state, now or at a version."""
        query = "" if version is None else f"?version={version}"
        return self.client.request("GET", f"{self._path}/state{query}")["state"]

    def close(self) -> bool:
        """Ends the session. Returns False if it had ended already."""
        return self.client.request("DELETE", self._path)["closed"]

    @property
    def _path(self) -> str:
        return f"/v1/sessions/{_quote(self.id)}"

    def _post(self, verb: str, body: Row) -> Row:
        return self.client.request("POST", f"{self._path}/{verb}", body)


class _Pause:
    """Waits longer each time, up to two seconds, with some randomness."""

    def __init__(self) -> None:
        self._seconds = 0.05

    def wait(self) -> None:
        time.sleep(self._seconds * (0.5 + randomness.random()))
        self._seconds = min(2.0, self._seconds * 2)


def _quote(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _error(status: int, text: bytes) -> HoldfastError:
    try:
        error = json.loads(text)["error"]
        return HoldfastError(status, str(error["code"]), str(error["message"]))
    except (ValueError, KeyError, TypeError):
        return HoldfastError(status, "server_failed", text.decode("utf-8", "replace")[:500])

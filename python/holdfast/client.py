"""Uses a Holdfast server: sessions, calls, forks, rewards and rollouts. Needs only the standard library.

    client = Client("http://127.0.0.1:8080")
    session = client.open({"initial_count": 3, "expected_count": 5}, random=7)
    session.call("increment_counter", count=2)
    print(session.verify())
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random as randomness
import threading
import time
import urllib.parse
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

Json = Any
Row = dict[str, Any]
P = ParamSpec("P")
T = TypeVar("T")

RETRIED = {429, 502, 503, 504}
RETRIED_CODES = {"version_conflict", "call_in_progress", "session_busy", "turn_lost"}
BROKEN = (http.client.HTTPException, OSError)


class HoldfastError(Exception):
    """A refusal or a failure that the server reported. `code` is a code of docs/errors.md."""

    def __init__(self, status: int, code: str, message: str, detail: Json = None) -> None:
        super().__init__(f"{message} ({code}, status {status})")
        self.status, self.code, self.message, self.detail = status, code, message, detail

    @property
    def retried(self) -> bool:
        """Whether the client sends the same request again, because it may succeed later."""
        return self.status in RETRIED or self.code in RETRIED_CODES

    def __reduce__(self) -> tuple[type, tuple[int, str, str, Json]]:
        # Errors can be pickled, because trainers pass them between processes.
        return type(self), (self.status, self.code, self.message, self.detail)


class Unreachable(HoldfastError, ConnectionError):
    """The server did not answer within the client's `patience`. The error code is server_failed."""


class Client:
    """A client for a server, or for one of its environments if the URL ends in its name. Threads may share a client.

    If the connection breaks, or the server does not answer within `timeout` seconds, the client sends the request again.
    It does so for up to `patience` seconds after the first failure. Calls and seeds carry an id, so each is applied once
    even if it is sent again. `workers` is the maximum number of concurrent requests of `background` and `call_all`.
    """

    def __init__(
        self, url: str, token: str | None = None, timeout: float = 60, patience: float = 60, workers: int = 64
    ) -> None:
        invalid = ValueError(f"{url!r} is not a valid server URL; use one such as http://127.0.0.1:8080")
        try:
            parts = urllib.parse.urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise invalid from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise invalid
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            raise ValueError("the token has a character that a token cannot have; use printable ASCII characters without spaces")
        self.url, self.timeout, self.patience, self.workers = url.rstrip("/"), timeout, patience, workers
        self._secure, self._host = parts.scheme == "https", parts.hostname
        self._port, self._prefix = port, parts.path.rstrip("/")
        self._token = token
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._held = _Held()

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        # Trainers send clients to other processes. There, the client opens its own connections.
        return Client, (self.url, self._token, self.timeout, self.patience, self.workers)

    # Sessions

    def environment(self) -> Row:
        """Returns the name, the tools with their JSON Schemas, and the other facts of the environment."""
        about = self.request("GET", "/v1/environment")
        if "tools" not in about:
            raise self._foreign(200)
        return about

    def open(self, task: Json = None, random: int | None = None, labels: dict[str, str] | None = None) -> Session:
        """Opens a session, and starts an episode if there is a task."""
        body = _given(task=task, random=random, labels=labels)
        return Session(self, self._field("session", "POST", "/v1/sessions", body))

    def session(self, session: str) -> Session:
        """Returns a session that exists already."""
        return Session(self, session)

    def sessions(self, open: bool | None = None, labels: dict[str, str] | None = None) -> Iterator[Row]:
        """Yields the sessions, oldest first. Filters: only open or only ended sessions, and sessions with all `labels`."""
        wanted = {"open": None if open is None else json.dumps(open), "labels": labels and json.dumps(labels)}
        return self._pages("/v1/sessions", "sessions", "after", wanted)

    def tasks(self, split: str = "default") -> Iterator[Row]:
        """Yields the rows of tasks.jsonl next to the environment, or of tasks_SPLIT.jsonl."""
        return self._pages(f"/v1/tasks/{_quote(split)}", "tasks", "start", {})

    # Concurrent requests

    def background(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Starts a function in a thread of this client: `client.background(session.call, "add", count=2).result()`."""
        return self._own().threads(self.workers).submit(function, *args, **kwargs)

    def call_all(self, calls: Iterable[tuple[Session, str, Row]]) -> list[Row]:
        """Calls tools of many sessions concurrently. Returns the answers in order, or raises the first failure."""
        started = [self.background(session.call, tool, input) for session, tool, input in calls]
        return [one.result() for one in started]

    # Rollouts

    def rollouts(self, request: str | None = None, after: int | None = None, **settings: Json) -> Iterator[Row]:
        """Plays rollouts on the server and yields their events: rows, or groups of rows with `groups=True`.

        `settings` are the fields of `POST /v1/rollouts`. If the server knows the id `request`, that request continues. With
        `after`, the server must know it, and the events after that index follow.
        After a broken connection, the stream continues after the last event that was yielded. With a persistent store, it
        also continues after a restart of the server. Without one, a restart loses the request, which raises an error.
        """
        request = request or str(uuid.uuid4())
        last = -1 if after is None else after
        # The deadline is set at the first failure, because the caller may work on one event for longer than `patience`.
        deadline: float | None = None
        pause = _Pause()
        # Starting the request again would give other rows the same indexes, so it is not started again after an event.
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
                    raise HoldfastError(error.status, error.code, lost, error.detail) from error
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
                raise Unreachable(502, "server_failed", f"rollouts {request} of {self.url} stopped: {reason}") from reason
            pause.wait()

    def cancel(self, request: str) -> Row:
        """Cancels rollouts. Finished rows stay."""
        return self.request("DELETE", f"/v1/rollouts/{_quote(request)}")

    def _rollout_events(self, request: str, settings: Row, last: int, begin: bool) -> Iterator[Row]:
        # The stream has its own connection, because the same thread may send other requests while it is open.
        connection = self._connect()
        try:
            if begin:
                body = json.dumps({"request": request, **settings}, default=_plain).encode()
                self._send(connection, "POST", "/v1/rollouts", body)
            else:
                after = f"?after={last}" if last >= 0 else ""
                self._send(connection, "GET", f"/v1/rollouts/{_quote(request)}{after}", None)
            reply = connection.getresponse()
            if reply.status >= 400:
                raise _error(reply.status, reply.read())
            if reply.status >= 300:
                raise self._foreign(reply.status)
            for line in reply:
                if not line.strip():
                    continue
                if not line.startswith(b"{"):
                    raise self._foreign(reply.status)
                # A line without a line break was cut off.
                if not line.endswith(b"\n"):
                    return
                event = self._read(reply.status, line)
                if "type" not in event:
                    raise self._foreign(reply.status)
                yield event
        finally:
            connection.close()

    # Requests

    def request(self, method: str, path: str, body: Json = None) -> Row:
        """Sends a request to a path such as /v1/sessions, retries it if needed, and returns the body of the reply."""
        content = None if body is None else json.dumps(body, default=_plain).encode()
        # The deadline is set at the first failure. Otherwise, a request that reaches its time-out would not be sent again.
        deadline: float | None = None
        pause = _Pause()
        while True:
            try:
                status, text = self._exchange(method, path, content)
                if status < 400:
                    return self._read(status, text)
                error = _error(status, text)
                if not error.retried:
                    raise error
            except BROKEN as broken:
                # The server may have restarted, which ends its other connections too.
                self._own().disconnect()
                error = Unreachable(502, "server_failed", f"{self.url} does not answer: {broken}")
                error.__cause__ = broken
                if isinstance(broken, TimeoutError):
                    # The attempt was long enough as a pause. The call may still run, and the next attempt waits for it.
                    pause = _Pause()
            now = time.monotonic()
            deadline = now + self.patience if deadline is None else deadline
            if now >= deadline:
                raise error
            pause.wait()

    def _field(self, name: str, method: str, path: str, body: Json = None) -> Json:
        """Sends a request, and returns a field of the reply's body."""
        reply = self.request(method, path, body)
        if name not in reply:
            raise self._foreign(200)
        return reply[name]

    def _read(self, status: int, text: bytes) -> Row:
        """Reads a body or a line, which are JSON objects. A redirect is not followed, because Holdfast does not redirect."""
        try:
            read = json.loads(text) if status < 300 else None
        except ValueError:
            read = None
        if not isinstance(read, dict):
            raise self._foreign(status)
        return read

    def _foreign(self, status: int) -> HoldfastError:
        return HoldfastError(status, "server_failed", f"{self.url} answered with something that is not Holdfast's API; is the address correct?")

    def _exchange(self, method: str, path: str, content: bytes | None) -> tuple[int, bytes]:
        idle = self._own().idle
        try:
            connection = idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            self._send(connection, method, path, content)
            reply = connection.getresponse()
            text = reply.read()
        except BaseException:
            connection.close()
            raise
        idle.append(connection)
        return reply.status, text

    def close(self) -> None:
        """Closes the idle connections, and ends the threads after their work. A later request opens new ones."""
        held, self._held = self._held, _Held()
        held.close()

    def _pages(self, path: str, items: str, cursor: str, wanted: Row) -> Iterator[Row]:
        query = {name: value for name, value in wanted.items() if value is not None}
        while True:
            page = self.request("GET", f"{path}?{urllib.parse.urlencode({**query, 'limit': 1000})}")
            if items not in page or "next" not in page:
                raise self._foreign(200)
            yield from page[items]
            if page["next"] is None:
                return
            query[cursor] = page["next"]

    def _own(self) -> _Held:
        """Returns the connections and threads of this process. A forked process must not use its parent's."""
        if self._held.process != os.getpid():
            inherited, self._held = self._held, _Held()
            inherited.disconnect()
        return self._held

    def _connect(self) -> http.client.HTTPConnection:
        make = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return make(self._host, self._port, timeout=self.timeout)

    def _send(self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None) -> None:
        headers = dict(self._headers)
        if body is not None:
            headers["content-type"] = "application/json"
        connection.request(method, self._prefix + path, body, headers)


class Session:
    """A session on a server. Its calls have ids, so a call that is sent again after a lost reply is applied once."""

    def __init__(self, client: Client, id: str) -> None:
        self.client, self.id = client, id
        # Two clients of one session must not use the same call ids.
        self._prefix, self._calls = uuid.uuid4().hex[:12], itertools.count(1)

    def __reduce__(self) -> tuple[type, tuple[Client, str]]:
        return Session, (self.client, self.id)

    def info(self) -> Row:
        """Returns the session without its state: version, episode, labels, times."""
        return self.client.request("GET", self._path)

    def call(self, tool: str, input: Row | None = None, call: str | None = None, **arguments: Json) -> Row:
        """Calls a tool: `{ok, output}` or `{ok, error}`. Arguments are keywords, or a dictionary in `input`."""
        body = {"tool": tool, "input": {**(input or {}), **arguments}, "call": call or self._next_call()}
        return self._post("call", body)

    def seed(
        self, task: Json, random: int | None = None, labels: dict[str, str] | None = None, call: str | None = None
    ) -> Row:
        """Starts a new episode in the session. The old episode stays readable."""
        return self._post("seed", _given(task=task, random=random, labels=labels, call=call or self._next_call()))

    def verify(self, version: int | None = None, response: Json = None, task: Json = None) -> float:
        """Returns the reward, now or at a version. `response` is for environments whose verify reads the model's answer."""
        return self._post("verify", _given(version=version, response=response, task=task), "reward")

    def verification(self, version: int | None = None, response: Json = None, task: Json = None) -> Row:
        """Returns the reward with the rest of the verdict: `{reward, verdict, version, episode, …}`."""
        return self._post("verify", _given(version=version, response=response, task=task))

    def rewards(self) -> list[Row]:
        """Runs verify on every version that changed the state: `[{version, reward}]`."""
        return self.client._field("rewards", "GET", f"{self._path}/rewards")

    def fork(self, version: int | None = None) -> Session:
        """Returns a new session that starts with this session's state, now or at a version."""
        return Session(self.client, self._post("fork", _given(version=version), "session"))

    def state(self, version: int | None = None) -> Json:
        """Returns the state, now or at a version."""
        query = "" if version is None else f"?version={version}"
        return self.client._field("state", "GET", f"{self._path}/state{query}")

    def events(self, after: int = 0) -> Iterator[Row]:
        """Yields the events of the log after a version."""
        return self.client._pages(f"{self._path}/events", "events", "after", {"after": after})

    def close(self) -> bool:
        """Ends the session. Returns False if it had ended already."""
        return self.client._field("closed", "DELETE", self._path)

    @property
    def _path(self) -> str:
        return f"/v1/sessions/{_quote(self.id)}"

    def _post(self, verb: str, body: Row, field: str | None = None) -> Json:
        path = f"{self._path}/{verb}"
        return self.client._field(field, "POST", path, body) if field else self.client.request("POST", path, body)

    def _next_call(self) -> str:
        return f"{self._prefix}-{next(self._calls)}"


class _Held:
    """The idle connections and the threads of a client in one process."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.idle: deque[http.client.HTTPConnection] = deque()
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def threads(self, workers: int) -> ThreadPoolExecutor:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(workers, thread_name_prefix="holdfast")
            return self._threads

    def disconnect(self) -> None:
        while self.idle:
            try:
                self.idle.pop().close()
            except IndexError:
                return

    def __del__(self) -> None:
        self.disconnect()

    def close(self) -> None:
        self.disconnect()
        if self._threads is not None:
            self._threads.shutdown(wait=False)


class _Pause:
    """Waits longer each time, up to two seconds, with some randomness."""

    def __init__(self) -> None:
        self._seconds = 0.05

    def wait(self) -> None:
        time.sleep(self._seconds * (0.5 + randomness.random()))
        self._seconds = min(2.0, self._seconds * 2)


def _quote(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _given(**fields: Json) -> Row:
    return {name: value for name, value in fields.items() if value is not None}


def _plain(value: Any) -> Json:
    """Turns a number or an array of numpy or torch into JSON, because rows of data sets may contain such values."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} is not JSON")


def _error(status: int, text: bytes) -> HoldfastError:
    try:
        error = json.loads(text)["error"]
        return HoldfastError(status, str(error["code"]), str(error["message"]), error.get("detail"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return HoldfastError(status, "server_failed", text.decode("utf-8", "replace")[:500])

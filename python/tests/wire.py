"""Plays episodes for another process: one JSON request per line on standard input, one JSON reply per line on standard output.

Requests run at the same time. A reply has the number of its request.
"""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holdfast.client import BROKEN, Client, Session


class CountingClient(Client):
    """Counts the broken requests of each thread."""

    broken = threading.local()

    def _exchange(self, *given: Any) -> tuple[int, bytes]:
        try:
            return super()._exchange(*given)
        except BROKEN:
            self.broken.count += 1
            raise


clients: dict[str, Client] = {}
sessions: dict[str, Session] = {}
printing = threading.Lock()


def act(do: str, url: str = "", session: str = "", **given: Any) -> Any:
    if do == "open":
        opened = clients[url].open(**given)
        sessions[opened.id] = opened
        return opened.id
    return getattr(sessions[session], do)(**given)


def answer(number: int, **request: Any) -> None:
    CountingClient.broken.count = 0
    try:
        reply = {"value": act(**request), "repeats": CountingClient.broken.count}
    except Exception as error:
        reply = {"error": repr(error)}
    with printing:
        print(json.dumps({"number": number, **reply}), flush=True)


with ThreadPoolExecutor(128) as threads:
    for line in sys.stdin:
        request = json.loads(line)
        if "url" in request:
            clients.setdefault(request["url"], CountingClient(request["url"]))
        threads.submit(answer, **request)

"""An episode as the adapters for trainers play it: a call returns text for the model, and a failure is never a reward."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from typing import Any

from .client import Client, HoldfastError, Json, Row, Session

SEED = "_holdfast_random_seed"
# The fields of a row that are not part of the task.
NOT_TASK = {"responses_create_params", "agent_ref", SEED, "_holdfast_labels"}
# The codes of a call whose arguments are not JSON, or are too large.
INVALID = {"invalid_json", "not_json", "body_too_large"}


class Episode:
    """A session that opens in the background, so that the episodes of a batch open concurrently.

    The client's threads start their work in order, so a call never waits for a session that is opened later.
    """

    def __init__(self, client: Client, task: Json, random: Any = None) -> None:
        self.client = client
        self.calls = self.failed_calls = 0
        self._opening = client.background(client.open, task, random=None if random is None else int(random))
        self._failure: Exception | None = None

    @property
    def session(self) -> Session:
        """The session. Waits until it is open."""
        return self._opening.result()

    def call(self, tool: str, arguments: Row) -> str:
        """Calls a tool, and returns its output or its error as text for the model."""
        self.calls += 1
        try:
            answer = self._answer(tool, arguments)
        except Exception as error:
            # Trainers turn an exception into text for the model and continue. So `reward` must raise it again.
            self._failure = self._failure or error
            raise
        self.failed_calls += not answer["ok"]
        output = answer["output"] if answer["ok"] else {"error": answer["error"]["message"]}
        return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)

    def _answer(self, tool: str, arguments: Any) -> Row:
        """Calls a tool. Arguments that cannot be sent, such as NaN, are a mistake of the model, and not a failure."""
        session = self.session
        try:
            if arguments is None or isinstance(arguments, dict):
                return session.call(tool, arguments)
            reason = "they are not an object"
        except HoldfastError as error:
            if error.code not in INVALID:
                raise
            reason = error.message
        except RecursionError:
            reason = "they are nested too deeply"
        return {"ok": False, "error": {"message": f"the arguments of {tool} are invalid: {reason}"}}

    def reward(self, answer: str | None = None) -> float:
        """Returns the reward. `answer` is the text of the model's last answer, for environments whose verify reads it.

        If a call failed before, raises that failure, because the episode has no valid reward.
        """
        if self._failure is not None:
            raise self._failure
        return float(self.session.verify(response=None if answer is None else _response(answer)))

    def close(self) -> None:
        """Ends the session. A failure is ignored: the episode is over, and the server's idle limit ends the session."""
        try:
            self.session.close()
        except Exception:
            pass


def _response(answer: str) -> Json:
    """Returns an answer as a Responses object, because verify gets this format from all other collectors."""
    content = [{"type": "output_text", "text": answer, "annotations": []}]
    return {"output": [{"type": "message", "role": "assistant", "content": content}]}


def connect(url: str | None, token: str | None, timeout: float = 60, patience: float = 60) -> Client:
    """Returns this process's client for a server. Default: the server of HOLDFAST_URL, with HOLDFAST_TOKEN."""
    url = url or os.environ.get("HOLDFAST_URL")
    if not url:
        raise ValueError("there is no server to connect to; pass `url`, or set the environment variable HOLDFAST_URL")
    return _shared(url, token or os.environ.get("HOLDFAST_TOKEN"), timeout, patience)


@functools.cache
def _shared(url: str, token: str | None, timeout: float, patience: float) -> Client:
    # Trainers create an object for each episode, and all of them share the connections.
    return Client(url, token, timeout, patience)


def read_tasks(file: str) -> Iterator[tuple[list[Row], Row, Row]]:
    """Yields the prompt, as messages, and the task of each row of a file such as tasks.jsonl, and its column for the seed."""
    with open(file, encoding="utf-8") as lines:
        for line in filter(str.strip, lines):
            row = json.loads(line)
            asked = row["responses_create_params"]
            given = asked["input"]
            messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
            start = [{"role": "system", "content": asked["instructions"]}] if asked.get("instructions") else []
            prompt = start + [{"role": _role(one["role"]), "content": _text(one["content"])} for one in messages]
            task = {name: value for name, value in row.items() if name not in NOT_TASK and not name.startswith("_ng_")}
            yield prompt, task, {SEED: row[SEED]} if row.get(SEED) is not None else {}


def _role(role: str) -> str:
    # Most chat templates do not know the role "developer".
    return "system" if role == "developer" else role


def _text(content: Json) -> Json:
    """Joins the parts of a text, because chat templates do not know the parts of the Responses API."""
    parts = content if isinstance(content, list) else []
    return "".join(one["text"] for one in parts) if parts and all("text" in one for one in parts) else content


def parse_task(task: Json) -> Json:
    """Returns a task. Data sets store tasks as JSON strings, because their columns fill missing nested fields with None."""
    return json.loads(task) if isinstance(task, str) else task


def describe(name: str, schema: Row) -> str:
    """Describes an argument in words. Trainers drop the fields of an object, so they are added as a JSON Schema."""
    text: str = schema.get("description") or name
    inner = schema.get("items", schema)
    return f"{text} JSON Schema: {json.dumps(inner)}" if isinstance(inner, dict) and inner.get("properties") else text

"""Environments for TRL's GRPOTrainer: `environment(url)` is a class for `environment_factory`. Does not import TRL.

    trainer = GRPOTrainer(model=…, args=…, train_dataset=rows("tasks.jsonl"), environment_factory=environment(url))
"""

from __future__ import annotations

import asyncio
import inspect
import json
import keyword
import re
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ClassVar, Optional

from .client import Client, Row
from .episode import SEED, Episode, describe, parse_task, read_tasks

TASK = "_holdfast_task"
TYPES = {"integer": int, "number": float, "string": str, "boolean": bool, "array": list, "object": dict}
TAKEN = ("reset", "get_reward")


class Environment:
    """The base class of the classes that `environment` returns. TRL creates and reuses one object per rollout of a batch."""

    _client: ClassVar[Client]
    _fields: ClassVar[set[str] | None]
    # The objects that were reset since the last reward was requested: the current batch.
    _batch: ClassVar[set[Environment]]

    _episode: Episode
    _reward: Future[float] | None = None

    def reset(self, **row: Any) -> None:
        """Opens a session with the task of a row, in the background."""
        if hasattr(self, "_episode"):
            self._client.background(self._episode.close)
        task = parse_task(row[TASK]) if TASK in row else self._pick(row)
        self._episode = Episode(self._client, task, row.get(SEED))
        self._reward = None
        self._batch.add(self)

    def get_reward(self) -> float:
        """Returns the reward. TRL asks one object at a time, so the first object starts verify for the whole batch."""
        while self._batch:
            self._batch.pop()._verify()
        return self._verify().result()

    def _verify(self) -> Future[float]:
        if self._reward is None:
            self._reward = self._client.background(self._episode.reward)
        return self._reward

    def _call(self, tool: str, arguments: Row) -> str:
        # Discards a reward that was requested before this call, because the call may change the state.
        self._reward = None
        return self._episode.call(tool, arguments)

    def _pick(self, row: Row) -> Row:
        known = self._fields
        return {
            name: value
            for name, value in row.items()
            if value is not None and (name in known if known is not None else name != "prompt" and name != SEED)
        }


def environment(
    url: str,
    token: str | None = None,
    asynchronous: bool = False,
    workers: int = 64,
    timeout: float = 60,
    patience: float = 60,
) -> type[Environment]:
    """Returns a class with one method for each tool of the served environment.

    With `asynchronous`, the methods are coroutines, and TRL runs the calls of one turn of a rollout concurrently. The other
    options are options of the client.
    """
    client = Client(url, token, timeout, patience, workers)
    about = client.environment()
    fields = about["task"].get("properties")
    members: dict[str, Any] = {"_client": client, "_fields": None if fields is None else set(fields), "_batch": set()}
    for tool in about["tools"]:
        members[_checked(tool)] = _method(tool, asynchronous)
    return type(about["name"].title().replace("-", ""), (Environment,), members)


def rows(file: str) -> list[Row]:
    """Reads a tasks file as rows of a data set: the prompt as messages, and the task as a JSON string."""
    return [{"prompt": messages, TASK: json.dumps(task), **seed} for messages, task, seed in read_tasks(file)]


def _checked(tool: Row) -> str:
    name: str = tool["name"]
    if name in TAKEN or name.startswith("_"):
        raise ValueError(f"the tool {name} cannot be a method for TRL: {', '.join(TAKEN)} and names with a leading _ are reserved; rename the tool")
    for field in tool["input"].get("properties", {}):
        if not field.isidentifier() or keyword.iskeyword(field):
            raise ValueError(f"the argument {field!r} of the tool {name} is not a valid name in Python; rename the argument")
    return name


def _method(tool: Row, asynchronous: bool) -> Callable[..., Any]:
    """Makes a method that calls the tool. TRL reads its name, type hints and docstring as the tool's definition."""

    properties, required = tool["input"].get("properties", {}), tool["input"].get("required", [])

    def given(arguments: Row) -> Row:
        # TRL describes an optional argument as nullable, so a model may write null to leave it out.
        return {name: value for name, value in arguments.items() if value is not None or name in required}

    def call(self: Environment, **arguments: Any) -> str:
        return self._call(tool["name"], given(arguments))

    async def call_async(self: Environment, **arguments: Any) -> str:
        return await asyncio.wrap_future(self._client.background(self._call, tool["name"], given(arguments)))

    method: Any = call_async if asynchronous else call
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    notes: dict[str, Any] = {}
    lines = [_one_line(tool.get("description") or tool["name"])]
    # Parameters without a default come first in a signature.
    for name, schema in sorted(properties.items(), key=lambda one: one[0] not in required):
        hint: Any = _hint(schema)
        default = inspect.Parameter.empty if name in required else None
        notes[name] = hint if name in required else Optional[hint]
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=notes[name]))
        lines += [] if len(lines) > 1 else ["", "Args:"]
        lines.append(f"    {name}: {_describe(name, schema)}")
    method.__name__ = method.__qualname__ = tool["name"]
    method.__doc__ = "\n".join(lines)
    method.__annotations__ = {**notes, "return": str}
    method.__signature__ = inspect.Signature(parameters, return_annotation=str)
    return method  # type: ignore[no-any-return]


def _hint(schema: Row) -> Any:
    """Returns a type hint that `transformers` reads back as the schema's type."""
    kind = schema.get("type")
    if kind is None:
        some = [one for one in schema.get("anyOf", []) if one.get("type") != "null"]
        if len(some) == 1:
            return Optional[_hint(some[0])]
        return type(schema["enum"][0]) if schema.get("enum") else str
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        return Optional[_hint({**schema, "type": others[0]})]
    if kind == "array":
        return list[_hint(schema["items"])] if schema.get("items") else list  # type: ignore[misc]
    return TYPES.get(kind, str)


def _describe(name: str, schema: Row) -> str:
    text = _one_line(describe(name, schema))
    return f"{text} (choices: {json.dumps(schema['enum'])})" if "enum" in schema else text


def _one_line(text: str) -> str:
    # Joins lines: TRL would read a line such as "name: text" as an argument, and these words as the start of a section.
    return re.sub(r"\b(Args|Returns|Raises):", r"\1 -", " ".join(text.split()))

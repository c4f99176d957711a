"""Environments for TRL's GRPOTrainer: `environment(url)` is a class for `environment_factory`. Does not import TRL.

    trainer = GRPOTrainer(model=…, args=…, train_dataset=rows("tasks.jsonl"), environment_factory=environment(url))
"""

from __future__ import annotations

import inspect
import json
from typing import Any, Callable, Optional

from .client import Client

TYPES = {"integer": int, "number": float, "string": str, "boolean": bool, "array": list, "object": dict}


def environment(url: str, token: str | None = None) -> type:
    """Returns a class with one method for each tool of the served environment. TRL makes one object for each rollout."""
    client = Client(url, token)
    about = client.environment()
    fields = set(about["task"].get("properties", {}))

    class Environment:
        def reset(self, **row: Any) -> None:
            task = {name: value for name, value in row.items() if name in fields and value is not None}
            seed = row.get("_holdfast_random_seed")
            self._session = client.open(task, random=None if seed is None else int(seed))

        def get_reward(self) -> float:
            return float(self._session.verify())

    for tool in about["tools"]:
        setattr(Environment, tool["name"], _method(tool))
    Environment.__name__ = Environment.__qualname__ = about["name"].title().replace("-", "")
    return Environment


def rows(file: str) -> list[dict[str, Any]]:
    """Reads a file of tasks as rows of a data set: the prompt as messages, and the fields of the task."""
    read = []
    with open(file, encoding="utf-8") as lines:
        for line in filter(str.strip, lines):
            row = json.loads(line)
            params = row.pop("responses_create_params")
            given = params["input"]
            messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
            read.append({"prompt": [{"role": one["role"], "content": one["content"]} for one in messages], **row})
    return read


def _method(tool: dict[str, Any]) -> Callable[..., str]:
    """Makes a method that calls the tool. TRL reads its name, type hints and docstring as the tool's definition."""

    def call(self: Any, **arguments: Any) -> str:
        answer = self._session.call(tool["name"], {name: value for name, value in arguments.items() if value is not None})
        output = answer["output"] if answer["ok"] else {"error": answer["error"]["message"]}
        return output if isinstance(output, str) else json.dumps(output)

    properties, required = tool["input"].get("properties", {}), tool["input"].get("required", [])
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    notes: dict[str, Any] = {}
    lines = [tool.get("description") or tool["name"]]
    for name, schema in sorted(properties.items(), key=lambda one: one[0] not in required):
        hint: Any = _hint(schema)
        default = inspect.Parameter.empty if name in required else None
        notes[name] = hint if name in required else Optional[hint]
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=notes[name]))
        lines += [] if len(lines) > 1 else ["", "Args:"]
        lines.append(f"    {name}: {_describe(name, schema)}")
    call.__name__ = call.__qualname__ = tool["name"]
    call.__doc__ = "\n".join(lines)
    call.__annotations__ = {**notes, "return": str}
    call.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    return call


def _hint(schema: dict[str, Any]) -> Any:
    kind = schema.get("type", "string")
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        return Optional[_hint({**schema, "type": others[0]})]
    if kind == "array":
        return list[_hint(schema.get("items", {}))]  # type: ignore[misc]
    return TYPES.get(kind, str)


def _describe(name: str, schema: dict[str, Any]) -> str:
    text = schema.get("description") or name
    return f"{text} (choices: {json.dumps(schema['enum'])})" if "enum" in schema else text

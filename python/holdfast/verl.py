"""Tools and an agent loop for verl. verl is imported only if it is installed, and for `HoldfastLoop`.

    python -m holdfast.verl http://127.0.0.1:8080 > tools.yaml

prints the configuration of the tools, one for each tool of the served environment.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import uuid
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .client import Client, HoldfastError, Row
from .episode import SEED, Episode, connect, describe, parse_task, read_tasks

NAME = "holdfast"
PLAYING: ContextVar[Episode] = ContextVar("playing")

if TYPE_CHECKING:
    BaseTool: Any = object
    ToolResponse: Any = object
else:
    try:
        from verl.tools.base_tool import BaseTool
        from verl.tools.schemas import ToolResponse
    except ImportError:

        class BaseTool:
            """The parts of verl's class that the tools need, for use without verl."""

            def __init__(self, config: Row, tool_schema: Any) -> None:
                self.config, self.tool_schema = config, tool_schema
                self.name = tool_schema["function"]["name"] if isinstance(tool_schema, dict) else tool_schema.function.name

            async def create(self, instance_id: str | None = None, **kwargs: Any) -> tuple[str, Any]:
                return instance_id or str(uuid.uuid4()), ToolResponse()

            async def release(self, instance_id: str, **kwargs: Any) -> None:
                pass

        @dataclass
        class ToolResponse:
            text: str | None = None
            image: list | None = None
            video: list | None = None


class HoldfastTool(BaseTool):  # type: ignore[misc]
    """A tool of the environment. verl makes an instance for each call, so the episode belongs to the agent loop."""

    async def execute(self, instance_id: str, parameters: Row, **kwargs: Any) -> tuple[Any, float, Row]:
        episode = PLAYING.get(None)
        if episode is None:
            raise RuntimeError("the tool has no episode; set the agent loop to holdfast (default_agent_loop, or agent_name in the row)")
        text = await asyncio.wrap_future(episode.client.background(episode.call, self.name, parameters))
        return ToolResponse(text=text), 0.0, {}


class HoldfastMixin:
    """Makes an agent loop play each sample as an episode, and sets `reward_score` to the reward of its last state.

    Put it before a loop that calls verl's tools: `class MyLoop(HoldfastMixin, ToolAgentLoop)`.
    """

    def __init__(
        self,
        *args: Any,
        url: str | None = None,
        token: str | None = None,
        timeout: float = 60,
        patience: float = 60,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.client = connect(url, token, timeout, patience)

    async def run(self, sampling_params: Row, **kwargs: Any) -> Any:
        info = kwargs.get("extra_info") or {}
        if "task" not in info:
            raise ValueError("the row has no extra_info.task; create rows with holdfast.verl.rows, which adds the task")
        episode = Episode(self.client, parse_task(info["task"]), info.get(SEED))
        # The asyncio tasks that run the calls inherit the context variable. Each sample runs in its own asyncio task.
        playing = PLAYING.set(episode)
        try:
            output = await super().run(sampling_params, **kwargs)  # type: ignore[misc]
            output.reward_score = await self._wait(episode.reward, self._last_answer(output))
            return output
        finally:
            PLAYING.reset(playing)
            await self._wait(episode.close)

    def _last_answer(self, output: Any) -> str:
        """Returns the text that the model sampled last. The mask is 1 for sampled tokens, and 0 for a tool's tokens."""
        mask = list(output.response_mask)
        while mask and not mask[-1]:
            mask.pop()
        end = len(mask)
        while mask and mask[-1]:
            mask.pop()
        text: str = self.tokenizer.decode(output.response_ids[len(mask) : end], skip_special_tokens=True)  # type: ignore[attr-defined]
        return text

    async def _wait(self, function: Any, *args: Any) -> Any:
        return await asyncio.wrap_future(self.client.background(function, *args))


def tools(url: str, token: str | None = None, patience: float = 60) -> Row:
    """Returns the content of verl's tools.yaml for a served environment."""
    client = Client(url, token, patience=patience)
    try:
        return {"tools": [_tool(tool) for tool in client.environment()["tools"]]}
    finally:
        client.close()


def rows(file: str) -> list[Row]:
    """Reads a tasks file as rows of a data set for verl."""
    return [
        {
            "data_source": "holdfast",
            "agent_name": NAME,
            "prompt": messages,
            "extra_info": {"index": index, "task": json.dumps(task), **seed},
        }
        for index, (messages, task, seed) in enumerate(read_tasks(file))
    ]


def _tool(tool: Row) -> Row:
    given = tool["input"]
    parameters = {
        "type": "object",
        "properties": {name: _property(name, schema) for name, schema in given.get("properties", {}).items()},
        "required": given.get("required", []),
    }
    function = {"name": tool["name"], "description": tool.get("description") or tool["name"], "parameters": parameters}
    return {
        "class_name": "holdfast.verl.HoldfastTool",
        "config": {"type": "native"},
        "tool_schema": {"type": "function", "function": function},
    }


def _property(name: str, schema: Row) -> Row:
    """Returns the fields of an argument that verl keeps: type, which verl requires, description and choices."""
    kinds = [one["type"] for one in schema.get("anyOf", []) if "type" in one]
    kept: Row = {"enum": schema["enum"]} if "enum" in schema else {}
    return {"type": schema.get("type") or kinds or "string", "description": describe(name, schema), **kept}


def __getattr__(name: str) -> Any:
    """Creates `HoldfastLoop` on first use, because its base class needs verl."""
    if name != "HoldfastLoop":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from verl.experimental.agent_loop.agent_loop import register  # type: ignore[import-not-found]
    from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop  # type: ignore[import-not-found]

    loop = type(name, (HoldfastMixin, ToolAgentLoop), {"__module__": __name__, "__qualname__": name})
    globals()[name] = register(NAME)(loop)
    return globals()[name]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m holdfast.verl", description="Print verl's configuration of a served environment's tools.")
    parser.add_argument("url", help="URL of the environment, such as http://127.0.0.1:8080")
    parser.add_argument("token", nargs="?", help="bearer token of the server")
    flags = parser.parse_args()
    try:
        # A person waits for the answer, so the client tries only for a short time.
        print(json.dumps(tools(flags.url, flags.token, patience=5), indent=2))
    except ValueError as error:
        parser.error(str(error))
    except HoldfastError as error:
        parser.exit(1, f"{parser.prog}: {error.message}\n")


if __name__ == "__main__":
    main()

"""Small imitations of the trainers' contracts, with a script in place of the model. docs/recipes names the versions."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import re
import sys
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Union, get_args, get_origin, get_type_hints

import holdfast.skyrl
import holdfast.verl

Row = dict[str, Any]
Calls = list[tuple[str, Row]]


ADAPTERS = ("verl", "skyrl")


@contextmanager
def packages(modules: dict[str, Row]) -> Iterator[None]:
    """Puts packages with these modules and names in place for the code in the block. The adapters are imported anew there."""
    before = dict(sys.modules)
    known = {name: getattr(holdfast, name) for name in ADAPTERS}
    names = {".".join(name.split(".")[: at + 1]) for name in modules for at in range(name.count(".") + 1)}
    for name in names:
        sys.modules[name] = types.ModuleType(name)
    for name, content in modules.items():
        vars(sys.modules[name]).update(content)
    for name in ADAPTERS:
        del sys.modules[f"holdfast.{name}"]
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
        sys.modules.update(before)
        for name, module in known.items():
            setattr(holdfast, name, module)


# TRL: GRPOTrainer with environment_factory


def schema_of(function: Callable[..., Any]) -> Row:
    """Reads a function as transformers.utils.get_json_schema does: type hints, and a docstring in Google's style."""
    document = inspect.cleandoc(function.__doc__ or "")
    text = re.split(r"Args:|Returns:|Raises:", document)[0]
    arguments = document.partition("Args:\n")[2]
    found = re.findall(r"^\s*(\w+):\s*(.*?)\s*(?=^\s*\w+:|\Z)", arguments, re.MULTILINE | re.DOTALL)
    described = dict(found)
    hints = get_type_hints(function)
    hints.pop("return")
    properties: Row = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in described:
            raise ValueError(f"{name} of {function.__name__} has no description")
        note, _, choices = described[name].partition(" (choices: ")
        properties[name] = {**_type(hints[name]), "description": note}
        if choices:
            properties[name]["enum"] = json.loads(choices.removesuffix(")"))
    required = [name for name, one in inspect.signature(function).parameters.items() if one.default is inspect.Parameter.empty]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"name": function.__name__, "description": text.strip(), "parameters": parameters}


def _type(hint: Any) -> Row:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union or origin is types.UnionType:
        (one,) = [each for each in arguments if each is not type(None)]
        return {**_type(one), "nullable": True}
    if origin is list:
        return {"type": "array", "items": _type(arguments[0])}
    names = {int: "integer", float: "number", str: "string", bool: "boolean", list: "array", dict: "object"}
    return {"type": names[hint]}


class GrpoTrainer:
    """Makes one environment for each rollout of a batch, and keeps them for the next batch."""

    def __init__(self, environment_factory: Callable[[], Any]) -> None:
        self.factory = environment_factory
        self.pool = [environment_factory()]
        tools = self.tools(self.pool[0])
        self.schemas = {name: schema_of(tool) for name, tool in tools.items()}
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def tools(self, environment: Any) -> dict[str, Callable[..., Any]]:
        members = inspect.getmembers(environment, predicate=inspect.ismethod)
        return {name: one for name, one in members if name not in ("reset", "get_reward") and not name.startswith("_")}

    def train(self, batch: list[Row], model: Callable[[int, int], Calls], turns: int = 10) -> tuple[list[list[str]], list[float]]:
        """Plays a batch. `model` gives the calls of a rollout in a turn. Returns the texts that the model reads, and rewards."""
        while len(self.pool) < len(batch):
            self.pool.append(self.factory())
        environments = self.pool[: len(batch)]
        for environment, row in zip(environments, batch):
            assert environment.reset(**row) is None
        texts: list[list[str]] = [[] for _ in batch]
        for turn in range(turns):
            for at, environment in enumerate(environments):
                texts[at] += self.call(self.tools(environment), model(at, turn))
        return texts, [environment.get_reward() for environment in environments]

    def call(self, tools: dict[str, Callable[..., Any]], calls: Calls) -> list[str]:
        """Runs the calls of one turn of one rollout: plain functions one by one, coroutines together."""
        results: list[Any] = []
        waiting = []
        for name, arguments in calls:
            try:
                result = tools[name](**arguments)
                (waiting if inspect.iscoroutinefunction(tools[name]) else results).append(result)
            except Exception as error:
                results.append({"error": str(error)})

        async def together() -> list[Any]:
            return await asyncio.gather(*waiting, return_exceptions=True)

        gathered = asyncio.run_coroutine_threadsafe(together(), self.loop).result()
        return [str(one) for one in [*results, *({"error": str(one)} if isinstance(one, Exception) else one for one in gathered)]]


# verl: AgentLoopBase, tool_agent, BaseTool


class VerlTool:
    def __init__(self, config: Row, tool_schema: Any) -> None:
        self.config, self.tool_schema = config, tool_schema
        self.name = tool_schema.function.name

    async def create(self, instance_id: str | None = None, **kwargs: Any) -> tuple[str, Any]:
        return instance_id or "made", VerlResponse()

    async def release(self, instance_id: str, **kwargs: Any) -> None:
        pass


class VerlResponse:
    def __init__(self, text: str | None = None) -> None:
        self.text = text


class VerlTokenizer:
    """A token is a character. The token 0 is special."""

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return "".join(map(chr, filter(None, ids) if skip_special_tokens else ids))


class VerlToolLoop:
    """Creates and releases a tool around every call, and turns a failure into text for the model.

    `model` gives the calls of a turn, or the text of the last answer.
    """

    def __init__(self, model: Callable[[Row, int], Calls | str], tools: list[Any], **kwargs: Any) -> None:
        self.model, self.tools, self.tokenizer = model, {tool.name: tool for tool in tools}, VerlTokenizer()

    async def run(self, sampling_params: Row, **kwargs: Any) -> Any:
        texts: list[str] = []
        ids: list[int] = []
        mask: list[int] = []
        for turn in range(10):
            said = self.model(kwargs, turn)
            sampled = [*map(ord, said if isinstance(said, str) else json.dumps(said)), 0]
            ids, mask = ids + sampled, mask + [1] * len(sampled)
            if not said or isinstance(said, str):
                break
            answers = await asyncio.gather(*(self.call(name, json.dumps(arguments)) for name, arguments in said))
            texts += answers
            observed = [*map(ord, "".join(answers))]
            ids, mask = ids + observed, mask + [0] * len(observed)
        return types.SimpleNamespace(texts=texts, response_ids=ids, response_mask=mask, reward_score=None)

    async def call(self, name: str, arguments: str) -> str:
        data = types.SimpleNamespace(request_id="x", tools_kwargs={}, extra_fields={})
        tool = self.tools[name]
        instance, _ = await tool.create(create_kwargs={})
        try:
            response, reward, metrics = await tool.execute(instance, json.loads(arguments), agent_data=data)
            assert isinstance(reward, float) and isinstance(metrics, dict)
            return response.text
        except Exception as error:
            return f"Error executing tool {name!r}: {error}"
        finally:
            await tool.release(instance)


def verl_packages(registry: dict[str, str]) -> dict[str, Row]:
    def register(name: str) -> Callable[[type], type]:
        def decorate(loop: type) -> type:
            registry[name] = f"{loop.__module__}.{loop.__qualname__}"
            return loop

        return decorate

    return {
        "verl.experimental.agent_loop.agent_loop": {"register": register},
        "verl.experimental.agent_loop.tool_agent_loop": {"ToolAgentLoop": VerlToolLoop},
        "verl.tools.base_tool": {"BaseTool": VerlTool},
        "verl.tools.schemas": {"ToolResponse": VerlResponse},
    }


def verl_tools(config: Row) -> list[Any]:
    """Makes the tools of a tools.yaml, with schemas that allow only the fields of verl's."""
    made = []
    for tool in config["tools"]:
        assert tool["config"]["type"] == "native"
        function = tool["tool_schema"]["function"]
        assert isinstance(function["description"], str) and function["parameters"]["type"] == "object"
        for field in function["parameters"]["properties"].values():
            assert isinstance(field["type"], (str, list)) and set(field) <= {"type", "description", "enum"}, field
        schema = types.SimpleNamespace(type="function", function=types.SimpleNamespace(**function))
        made.append(find(tool["class_name"])(config=tool["config"], tool_schema=schema))
    return made


def find(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


# SkyRL: skyrl_gym.make and the generator


class SkyrlEnv:
    def __init__(self) -> None:
        self.turns, self.max_turns = 0, 1


def skyrl_play(entry_point: str, kwargs: Row, rows: list[Row], model: Callable[[Row, int], str], max_turns: int = 10) -> list[Row]:
    """Plays rows in a pool of threads. Returns observations, reward and metrics of each."""

    def play(row: Row) -> Row:
        extras = {name: value for name, value in row.items() if name not in ("prompt", "env_class")}
        extras["max_turns"] = max_turns
        # A class without a section of its own in SkyRL's configuration gets an empty one.
        environment = find(entry_point.replace(":", "."))(**kwargs, env_config={}, extras=extras)
        prompt, _ = environment.init(row["prompt"])
        assert prompt == row["prompt"]
        seen: list[str] = []
        turn, done, reward = 0, False, 0.0
        while not done:
            output = environment.step(model(row, turn))
            seen += [one["content"] for one in output["observations"]]
            done, reward, turn = output["done"], reward + output["reward"], turn + 1
        metrics = environment.get_metrics()
        environment.close()
        return {"seen": seen, "reward": reward, "turns": turn, "metrics": metrics}

    with ThreadPoolExecutor(32) as threads:
        return list(threads.map(play, rows))

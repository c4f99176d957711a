"""The code of the recipes, against a real server and stand-ins for the trainers' own classes."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import sys
import types
import unittest
from typing import Any, get_type_hints

from holdfast.trl import environment, rows
from .support import COUNTER, ROOT, ServedCase, needs_server

TASK = {"initial_count": 3, "expected_count": 5}


def run_recipe(page: str, **modules: dict[str, Any]) -> dict[str, Any]:
    """Runs the first Python block of a page. Each module is given as its names, with _ for the dots of its name."""
    text = (ROOT / "docs" / "recipes" / f"{page}.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    before = dict(sys.modules)
    try:
        for name, content in modules.items():
            parts = name.split("__")
            for at in range(1, len(parts) + 1):
                sys.modules[".".join(parts[:at])] = types.ModuleType(".".join(parts[:at]))
        for name, content in modules.items():
            vars(sys.modules[name.replace("__", ".")]).update(content)
        names: dict[str, Any] = {}
        exec(compile(code, f"{page}.md", "exec"), names)
        return names
    finally:
        for name in set(sys.modules) - set(before):
            del sys.modules[name]


@needs_server
class Recipes(ServedCase):
    store = "memory:"

    def test_trl_gets_a_class_with_documented_tools(self) -> None:
        made = environment(self.server.url)()
        made.reset(prompt=[], other=None, **TASK)
        tools = {name: method for name, method in inspect.getmembers(made, inspect.ismethod) if not name.startswith("_")}
        self.assertEqual(set(tools), {"reset", "get_reward", "increment_counter", "get_counter_value"})
        add = tools["increment_counter"]
        self.assertEqual(get_type_hints(add), {"count": int, "return": str})
        self.assertEqual(list(inspect.signature(add).parameters), ["count"])
        self.assertIn("Args:\n    count: How much to add.", add.__doc__)
        self.assertEqual(json.loads(add(count=2)), {"success": True})
        self.assertEqual(json.loads(tools["get_counter_value"]()), {"count": 5})
        self.assertEqual(made.get_reward(), 1.0)
        self.assertIn("error", json.loads(add(count="two")))
        made.reset(**TASK)
        self.assertEqual(made.get_reward(), 0.0)

    def test_trl_gets_rows_with_prompts(self) -> None:
        read = rows(str(COUNTER / "tasks.jsonl"))
        self.assertEqual(read[0]["prompt"][0]["role"], "user")
        self.assertEqual(set(read[0]), {"prompt", "initial_count", "expected_count"})

    def test_verl_plays_an_episode_in_one_session(self) -> None:
        class BaseTool:
            def __init__(self, name: str) -> None:
                self.name = name

        class ToolAgentLoop:
            async def run(self, sampling_params, **kwargs):
                data = types.SimpleNamespace(tools_kwargs=kwargs["tools_kwargs"])
                reply, reward, metrics = await tool.execute("x", {"count": 2}, agent_data=data)
                return types.SimpleNamespace(text=reply.text, reward_score=None)

        os.environ["HOLDFAST_URL"] = self.server.url
        names = run_recipe(
            "verl",
            verl__experimental__agent_loop__agent_loop={"register": lambda name: lambda loop: loop},
            verl__experimental__agent_loop__tool_agent_loop={"ToolAgentLoop": ToolAgentLoop},
            verl__tools__base_tool={"BaseTool": BaseTool},
            verl__tools__schemas={"ToolResponse": lambda text: types.SimpleNamespace(text=text)},
        )
        tool = names["HoldfastTool"]("increment_counter")
        output = asyncio.run(names["HoldfastLoop"]().run({}, extra_info={"task": TASK}))
        self.assertEqual((json.loads(output.text), output.reward_score), ({"success": True}, 1.0))

    def test_skyrl_reads_calls_and_scores_the_last_state(self) -> None:
        class BaseTextEnv:
            def __init__(self) -> None:
                self.turns = 0

        names = run_recipe("skyrl", skyrl_gym__envs__base_text_env={"BaseTextEnv": BaseTextEnv, "BaseTextEnvStepOutput": dict})
        played = names["HoldfastEnv"]({"url": self.server.url}, {"task": TASK})
        played.init([])
        wrong = played.step("<tool_call>{</tool_call>")
        self.assertIn("invalid call", wrong["observations"][0]["content"])
        step = played.step('<tool_call>{"name": "increment_counter", "arguments": {"count": 2}}</tool_call>')
        self.assertEqual((step["done"], json.loads(step["observations"][0]["content"])), (False, {"success": True}))
        end = played.step("Done.")
        self.assertEqual((end["done"], end["reward"]), (True, 1.0))
        played.close()


if __name__ == "__main__":
    unittest.main()

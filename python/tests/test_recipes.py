"""The code of docs/python.md and of the recipes, against a real server and imitations of the trainers' classes."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import types
import unittest
from typing import Any

from .harness import GrpoTrainer, VerlToolLoop, find, packages, skyrl_play, verl_packages, verl_tools
from .snippets import blocks, run_page
from .support import COUNTER, ROOT, ServedCase, counter_tasks, needs_server

TASKS = counter_tasks()


def difference(task: dict[str, Any]) -> int:
    return task["expected_count"] - task["initial_count"]


class Dataset(list):
    """A list that is written as a file of JSON lines."""

    @classmethod
    def from_list(cls, rows: list[dict[str, Any]]) -> Dataset:
        return cls(json.loads(json.dumps(rows)))

    def to_parquet(self, file: str) -> None:
        Dataset.written = {file: list(self)}


class Trainer:
    """A GRPOTrainer whose model solves every task."""

    def __init__(self, model: Any, args: Any, train_dataset: Dataset, environment_factory: Any, **_: Any) -> None:
        self.data, self.trainer = train_dataset, GrpoTrainer(environment_factory)

    def train(self) -> None:
        solve = lambda at, turn: [("increment_counter", {"count": difference(TASKS[at])})] if turn == 0 else []
        _, self.rewards = self.trainer.train(self.data, solve)
        self.trainer.close()


TRL = {"datasets": {"Dataset": Dataset}, "trl": {"GRPOConfig": dict, "GRPOTrainer": Trainer, "SFTConfig": dict}}


@needs_server
class Recipes(ServedCase):
    store = "memory:"

    def run_page(self, page: str, modules: dict[str, dict[str, Any]], only: slice = slice(None)) -> dict[str, Any]:
        with packages(modules):
            return run_page(page, self.server.url, COUNTER, only)

    def test_the_page_of_the_client_prints_its_comments(self) -> None:
        names = self.run_page("python.md", {})
        self.assertEqual(len(names["answers"]), 64)
        names["client"].close()

    def test_trl_solves_the_tasks(self) -> None:
        trainer = self.run_page("recipes/trl.md", TRL)["trainer"]
        self.assertEqual(trainer.rewards, [1.0] * len(TASKS))
        trainer.trainer.factory._client.close()

    def test_unsloth_solves_the_tasks(self) -> None:
        class FastLanguageModel:
            from_pretrained = staticmethod(lambda *_, **__: ("model", "tokenizer"))
            get_peft_model = staticmethod(lambda model, **_: model)

        modules = {**TRL, "unsloth": {"FastLanguageModel": FastLanguageModel}}
        trainer = self.run_page("recipes/unsloth.md", modules, slice(1, 2))["trainer"]
        self.assertEqual(trainer.rewards, [1.0] * len(TASKS))
        trainer.trainer.factory._client.close()

    def test_verl_solves_the_tasks(self) -> None:
        self.run_page("recipes/verl.md", {"datasets": {"Dataset": Dataset}})
        rows = Dataset.written["train.parquet"]
        # The commands of the page make the tools, and its file of loops makes the loop.
        command = next(one for one in blocks("recipes/verl.md", "sh") if "holdfast.verl" in one)
        command = re.sub("^python3", sys.executable, command.partition(" > ")[0]).replace("http://127.0.0.1:8080", self.server.url)
        made = subprocess.run(command.split(), cwd=ROOT / "python", capture_output=True, text=True, check=True)
        (loops,) = blocks("recipes/verl.md", "yaml")
        loop = dict(line.lstrip("- ").split(": ", 1) for line in loops.strip().split("\n"))
        self.assertEqual((loop["name"], loop["url"]), (rows[0]["agent_name"], "http://127.0.0.1:8080"))
        solve = lambda sample, turn: [("increment_counter", {"count": difference(TASKS[sample["extra_info"]["index"]])})] if turn == 0 else []
        registry: dict[str, str] = {}
        with packages(verl_packages(registry)):
            tools = verl_tools(json.loads(made.stdout))
            loop_class = find(loop["_target_"])

            async def train() -> list[Any]:
                make = lambda: loop_class(model=solve, tools=tools, url=self.server.url, name=loop["name"])
                return await asyncio.gather(*(make().run({}, **row) for row in rows))

            outputs = asyncio.run(train())
        self.assertTrue(issubclass(loop_class, VerlToolLoop))
        self.assertEqual(registry, {"holdfast": "holdfast.verl.HoldfastLoop"})
        self.assertEqual([output.reward_score for output in outputs], [1.0] * len(TASKS))

    def test_skyrl_solves_the_tasks(self) -> None:
        played: list[dict[str, Any]] = []
        registry: dict[str, Any] = {}

        def solve(row: dict[str, Any], turn: int) -> str:
            call = {"name": "increment_counter", "arguments": {"count": difference(json.loads(row["task"]))}}
            return f"<tool_call>{json.dumps(call)}</tool_call>" if turn == 0 else "Done."

        class BasePPOExp:
            def __init__(self, config: Any) -> None:
                self.rows = Dataset.written["train.parquet"]

            def run(self) -> None:
                spec = registry[self.rows[0]["env_class"]]
                played.extend(skyrl_play(spec["entry_point"], spec["kwargs"], self.rows, solve))

        remote = lambda **_: lambda function: types.SimpleNamespace(remote=function)
        nothing = lambda *_: None
        self.run_page(
            "recipes/skyrl.md",
            {
                "datasets": {"Dataset": Dataset},
                "ray": {"remote": remote, "get": nothing},
                "skyrl.train.config": {"SkyRLTrainConfig": types.SimpleNamespace(from_cli_overrides=list)},
                "skyrl.train.entrypoints.main_base": {"BasePPOExp": BasePPOExp, "validate_cfg": nothing},
                "skyrl.train.utils": {"initialize_ray": nothing},
                "skyrl_gym.envs": {"register": lambda id, **spec: registry.update({id: spec})},
            },
        )
        self.assertEqual([one["reward"] for one in played], [1.0] * len(TASKS))


if __name__ == "__main__":
    unittest.main()

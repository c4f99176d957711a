"""The adapters for TRL, verl and SkyRL against a real server, and imitations of the trainers' contracts."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import io
import json
import os
import tempfile
import unittest
from typing import Any
from unittest import mock

import holdfast.skyrl
import holdfast.verl
from holdfast import HoldfastError, trl
from holdfast.episode import Episode
from .harness import GrpoTrainer, SkyrlEnv, VerlTool, VerlToolLoop, packages, skyrl_play, verl_packages, verl_tools
from .support import ANSWERS, COUNTER, MEETING, TASK, ServedCase, counter_tasks, needs_server

FILE = str(COUNTER / "tasks.jsonl")


def add(count: int) -> tuple[str, dict[str, Any]]:
    return "increment_counter", {"count": count}


def missing(task: dict[str, Any]) -> int:
    """What must be added to solve a task."""
    return task["expected_count"] - task["initial_count"]


class Command(unittest.TestCase):
    def test_the_command_of_verl_reports_a_mistake_in_one_message(self) -> None:
        url = "http://127.0.0.1:9"
        unreachable = HoldfastError(502, "server_failed", f"{url} does not answer")
        for arguments, status, message in (([], 2, "required: url"), (["localhost:80"], 2, "not a valid server URL"), ([url], 1, f"{url} does not answer\n")):
            with mock.patch("sys.argv", ["verl", *arguments]), mock.patch("holdfast.verl.Client.environment", side_effect=unreachable):
                with contextlib.redirect_stderr(io.StringIO()) as printed, self.assertRaises(SystemExit) as ended:
                    holdfast.verl.main()
            self.assertEqual(ended.exception.code, status)
            self.assertIn(message, printed.getvalue())


@needs_server
class Counter(ServedCase):
    def setUp(self) -> None:
        self.tasks = counter_tasks()

    def trainer(self, made: type[trl.Environment]) -> GrpoTrainer:
        trainer = GrpoTrainer(made)
        self.addCleanup(made._client.close)
        self.addCleanup(trainer.close)
        return trainer

    def test_trl_reads_tools_and_plays_batches(self) -> None:
        trainer = self.trainer(trl.environment(self.server.url))
        self.assertEqual(
            trainer.schemas["increment_counter"],
            {
                "name": "increment_counter",
                "description": "Add to the counter.",
                "parameters": {
                    "type": "object",
                    "properties": {"count": {"type": "integer", "description": "How much to add."}},
                    "required": ["count"],
                },
            },
        )
        batch = trl.rows(FILE)[:4]
        for late in (0, 1):
            solved = lambda at, turn: [add(missing(self.tasks[at])), ("get_counter_value", {})] if turn == 0 and at != late else []
            texts, rewards = trainer.train(batch, solved)
            self.assertEqual(rewards, [float(at != late) for at in range(4)])
            self.assertEqual([json.loads(one) for one in texts[2]], [{"success": True}, {"count": self.tasks[2]["expected_count"]}])
        self.assertEqual(len(trainer.pool), 4)

    def test_trl_takes_columns_and_seeds(self) -> None:
        made = trl.environment(self.server.url)
        self.addCleanup(made._client.close)
        environment = made()
        environment.reset(prompt=[], other=1, nothing=None, **TASK, _holdfast_random_seed=7)
        session = environment._episode.session
        self.assertEqual(session.state(), {"count": 3})
        seeded = [event for event in session.events() if event["type"] == "session.seeded"][0]
        self.assertEqual(seeded["task"], TASK)

    def test_trl_closes_the_session_of_the_last_batch(self) -> None:
        made = trl.environment(self.server.url)
        self.addCleanup(made._client.close)
        environment = made()
        environment.reset(**TASK)
        first = environment._episode.session
        environment.reset(**TASK)
        second = environment._episode.session
        for _ in range(1000):
            opened = [one["session"] for one in made._client.sessions(open=True)]
            if first.id not in opened:
                break
        self.assertNotIn(first.id, opened)
        self.assertIn(second.id, opened)

    def test_trl_asks_for_the_reward_again_after_another_call(self) -> None:
        made = trl.environment(self.server.url)
        self.addCleanup(made._client.close)
        first, second = made(), made()
        for one in (first, second):
            one.reset(**TASK)
        # The reward of the first one starts verify of both, and the second one is still played.
        self.assertEqual(first.get_reward(), 0.0)
        second.increment_counter(count=2)
        self.assertEqual((second.get_reward(), second.get_reward()), (1.0, 1.0))

    def test_trl_shows_a_refusal_to_the_model_and_raises_a_failure(self) -> None:
        trainer = self.trainer(trl.environment(self.server.url))
        batch = [{"prompt": [], **TASK}, {"prompt": [], "initial_count": "three"}]
        wrong = lambda at, turn: [("increment_counter", {"count": "two"}), ("increment_counter", {})] if turn == 0 else []
        texts, rewards = trainer.train(batch[:1], wrong)
        self.assertIn("count", json.loads(texts[0][0])["error"])
        self.assertEqual(rewards, [0.0])
        # An episode that cannot begin has no reward of 0.
        with self.assertRaises(HoldfastError) as failed:
            trainer.train(batch, wrong)
        self.assertEqual(failed.exception.code, "invalid_task")

    def test_arguments_that_cannot_be_sent_are_a_mistake_of_the_model(self) -> None:
        client = self.connect()
        episode = Episode(client, TASK)
        deep: list[Any] = []
        for _ in range(5000):
            deep = [deep]
        for wrong in ({"count": float("nan")}, {"count": 10**400}, {"count": deep}, {"count": "x" * 5_000_000}, [2], "two"):
            self.assertIn("the arguments of increment_counter are invalid", episode.call("increment_counter", wrong))
        episode.call("increment_counter", {"count": 2})
        self.assertEqual((episode.reward(), episode.failed_calls), (1.0, 6))

    def test_skyrl_reads_calls_that_are_nested_too_deeply(self) -> None:
        said = ["<tool_call>" + "[" * 5000 + "</tool_call>", "Done."]
        (played,) = skyrl_play("holdfast.skyrl:HoldfastEnv", {"url": self.server.url}, [{"task": TASK, "prompt": []}], lambda _, turn: said[turn])
        self.assertIn("invalid call", played["seen"][0])

    def test_rows_have_the_whole_prompt_and_only_the_task(self) -> None:
        parts = [{"type": "input_text", "text": "Make it "}, {"type": "input_text", "text": "5."}]
        asked = {"instructions": "Be brief.", "input": [{"role": "developer", "content": "Count."}, {"role": "user", "content": parts}]}
        row = {"responses_create_params": asked, **TASK, "agent_ref": {}, "_ng_task_index": 3, "_holdfast_random_seed": 7, "_holdfast_labels": {}}
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write(json.dumps(row))
            file.flush()
            (one,), (two,), (three,) = trl.rows(file.name), holdfast.verl.rows(file.name), holdfast.skyrl.rows(file.name)
        prompt = [{"role": role, "content": text} for role, text in (("system", "Be brief."), ("system", "Count."), ("user", "Make it 5."))]
        self.assertEqual([each["prompt"] for each in (one, two, three)], [prompt] * 3)
        self.assertEqual([json.loads(task) for task in (one["_holdfast_task"], two["extra_info"]["task"], three["task"])], [TASK] * 3)
        self.assertEqual([each["_holdfast_random_seed"] for each in (one, two["extra_info"], three)], [7] * 3)

    def test_trl_refuses_names_that_it_cannot_use(self) -> None:
        for tool, fields, reason in (("reset", {}, "are reserved"), ("_x", {}, "are reserved"), ("go", {"from": {}}, "valid name")):
            with self.assertRaisesRegex(ValueError, reason):
                trl._checked({"name": tool, "input": {"properties": fields}})

    def verl_model(self, sample: dict[str, Any], turn: int) -> list[tuple[str, dict[str, Any]]]:
        task = self.tasks[sample["extra_info"]["index"]]
        return [[add(missing(task)), ("get_counter_value", {})], [("get_counter_value", {})]][turn] if turn < 2 else []

    def test_verl_plays_samples_at_once_without_the_package(self) -> None:
        class Loop(holdfast.verl.HoldfastMixin, VerlToolLoop):
            pass

        tools = verl_tools(holdfast.verl.tools(self.server.url))
        self.assertEqual([tool.name for tool in tools], ["increment_counter", "get_counter_value"])

        async def train() -> list[Any]:
            samples = holdfast.verl.rows(FILE)
            make = lambda: Loop(model=self.verl_model, tools=tools, url=self.server.url, name="holdfast")
            return await asyncio.gather(*(make().run({}, raw_prompt=row["prompt"], **row) for row in samples))

        outputs = asyncio.run(train())
        self.assertEqual([output.reward_score for output in outputs], [1.0] * len(self.tasks))
        for output, task in zip(outputs, self.tasks):
            self.assertEqual(json.loads(output.texts[2]), {"count": task["expected_count"]})

    def test_verl_finds_the_loop_and_the_tools_by_their_paths(self) -> None:
        registry: dict[str, str] = {}
        with packages(verl_packages(registry)), mock.patch.dict(os.environ, {"HOLDFAST_URL": self.server.url}):
            module = importlib.import_module("holdfast.verl")
            loop = module.HoldfastLoop
            self.assertEqual(registry, {"holdfast": "holdfast.verl.HoldfastLoop"})
            self.assertIs(module.HoldfastLoop, loop)
            tools = verl_tools(module.tools(self.server.url))
            self.assertIsInstance(tools[0], VerlTool)
            output = asyncio.run(loop(model=self.verl_model, tools=tools).run({}, **module.rows(FILE)[1]))
            self.assertEqual(output.reward_score, 1.0)
        with self.assertRaises(ImportError):
            holdfast.verl.HoldfastLoop
        with self.assertRaises(AttributeError):
            holdfast.verl.Missing

    def test_verl_fails_a_sample_whose_call_failed(self) -> None:
        class Loop(holdfast.verl.HoldfastMixin, VerlToolLoop):
            pass

        tools = verl_tools(holdfast.verl.tools(self.server.url))
        make = lambda: Loop(model=lambda *_: [add(1)], tools=tools, url=self.server.url)
        with self.assertRaises(HoldfastError) as failed:
            asyncio.run(make().run({}, extra_info={"task": json.dumps({"initial_count": "three"})}))
        self.assertEqual(failed.exception.code, "invalid_task")
        with self.assertRaisesRegex(ValueError, "extra_info.task"):
            asyncio.run(make().run({}))
        alone = VerlToolLoop(model=lambda sample, turn: [add(1)] if turn == 0 else [], tools=tools)
        self.assertIn("set the agent loop to holdfast", asyncio.run(alone.run({})).texts[0])

    def test_skyrl_plays_rows(self) -> None:
        def model(row: dict[str, Any], turn: int) -> str:
            call = {"name": "increment_counter", "arguments": {"count": missing(json.loads(row["task"]))}}
            said = f"I add.<tool_call>\n{json.dumps(call)}\n</tool_call>"
            return ["<tool_call>{</tool_call>", said + '<tool_call>{"name": "get_counter_value"}</tool_call>', "Done."][turn]

        rows = holdfast.skyrl.rows(FILE)
        played = skyrl_play("holdfast.skyrl:HoldfastEnv", {"url": self.server.url}, rows, model)
        self.assertEqual([one["reward"] for one in played], [1.0] * len(rows))
        self.assertIn("invalid call", played[0]["seen"][0])
        self.assertEqual(json.loads(played[0]["seen"][2]), {"count": self.tasks[0]["expected_count"]})
        self.assertEqual(played[0]["metrics"], {"calls": 2, "failed_calls": 0})

    def test_skyrl_runs_the_calls_of_the_last_turn(self) -> None:
        call = {"name": "increment_counter", "arguments": {"count": 2}}
        row = {"prompt": [], "task": TASK}
        (played,) = skyrl_play("holdfast.skyrl:HoldfastEnv", {"url": self.server.url}, [row], lambda *_: f"<tool_call>{json.dumps(call)}</tool_call>", max_turns=1)
        self.assertEqual((played["reward"], played["turns"]), (1.0, 1))

    def test_skyrl_uses_the_class_of_the_package(self) -> None:
        with packages({"skyrl_gym.envs.base_text_env": {"BaseTextEnv": SkyrlEnv}}):
            self.assertTrue(issubclass(importlib.import_module("holdfast.skyrl").HoldfastEnv, SkyrlEnv))
        self.assertFalse(issubclass(holdfast.skyrl.HoldfastEnv, SkyrlEnv))
        with self.assertRaisesRegex(ValueError, "no task"):
            holdfast.skyrl.HoldfastEnv({}, {}, self.server.url)
        with self.assertRaisesRegex(ValueError, "HOLDFAST_URL"):
            holdfast.skyrl.HoldfastEnv({}, {"task": TASK})


@needs_server
class Answers(ServedCase):
    """The environment's verify reads the model's last answer."""

    example = ANSWERS
    store = "memory:"
    note = ("note", {"note": "seen"})

    def test_the_adapters_take_the_time_limits_of_the_client(self) -> None:
        limits = {"timeout": 90, "patience": 7}
        made = trl.environment(self.server.url, **limits)
        self.addCleanup(made._client.close)
        loop = type("Loop", (holdfast.verl.HoldfastMixin, VerlToolLoop), {})
        env = holdfast.skyrl.HoldfastEnv({}, {"task": {}}, self.server.url, **limits)
        for client in (made._client, loop(model=None, tools=[], url=self.server.url, **limits).client, env.client):
            self.assertEqual((client.timeout, client.patience, client.workers), (90, 7, 64))

    def test_skyrl_passes_the_last_answer_to_verify(self) -> None:
        name, arguments = self.note
        model = lambda row, turn: f'<tool_call>{json.dumps({"name": name, "arguments": arguments})}</tool_call>' if turn == 0 else row["said"]
        rows = [{"prompt": [], "task": {"answer": "blue"}, "said": said} for said in ("blue", "red")]
        played = skyrl_play("holdfast.skyrl:HoldfastEnv", {"url": self.server.url}, rows, model)
        self.assertEqual([one["reward"] for one in played], [1.0, 0.0])

    def test_verl_passes_the_last_answer_to_verify(self) -> None:
        class Loop(holdfast.verl.HoldfastMixin, VerlToolLoop):
            pass

        tools = verl_tools(holdfast.verl.tools(self.server.url))

        def play(said: str) -> float:
            loop = Loop(model=lambda _, turn: [self.note] if turn == 0 else said, tools=tools, url=self.server.url)
            return asyncio.run(loop.run({}, extra_info={"task": {"answer": "blue"}})).reward_score

        self.assertEqual([play("blue"), play("red"), play("")], [1.0, 0.0, 0.0])

    def test_verl_finds_the_last_answer_before_the_result_of_a_call(self) -> None:
        loop = type("Loop", (holdfast.verl.HoldfastMixin, VerlToolLoop), {})(model=None, tools=[], url=self.server.url)
        for ids, mask, answer in (("ab", [1, 1], "ab"), ("abcd", [1, 0, 1, 0], "c"), ("ab", [0, 0], ""), ("", [], "")):
            output = mock.Mock(response_ids=[ord(one) for one in ids], response_mask=mask)
            self.assertEqual(loop._last_answer(output), answer)

    def test_trl_passes_null_for_a_required_argument_and_leaves_out_an_optional_one(self) -> None:
        made = trl.environment(self.server.url)
        self.addCleanup(made._client.close)
        environment = made()
        environment.reset(answer="blue")
        self.assertEqual(json.loads(environment.note(note=None, again=None)), {"notes": 1})
        self.assertEqual(environment._episode.session.state(), {"notes": [None]})

    def test_trl_raises_the_error_of_a_verify_that_needs_the_answer(self) -> None:
        made = trl.environment(self.server.url)
        self.addCleanup(made._client.close)
        environment = made()
        environment.reset(answer="blue")
        with self.assertRaises(HoldfastError) as failed:
            environment.get_reward()
        self.assertEqual(failed.exception.code, "verify_failed")


@needs_server
class AtOnce(ServedCase):
    """The environment lets calls end only when all of them have arrived, so these tests cannot pass one by one."""

    example = MEETING
    store = "memory:"

    def task(self, place: str, seeds: int = 1, verifies: int = 1) -> dict[str, Any]:
        return {"place": f"{self.id()} {place}", "seeds": seeds, "verifies": verifies}

    def test_64_calls_of_a_batch_run_at_once(self) -> None:
        client = self.connect()
        sessions = [client.open(self.task(str(at))) for at in range(64)]
        answers = client.call_all((session, "meet", {"place": self.id(), "size": 64}) for session in sessions)
        self.assertEqual([answer["output"] for answer in answers], [{"size": 64}] * 64)
        self.assertEqual([session.state()["met"] for session in sessions], [1] * 64)

    def test_trl_opens_and_scores_the_64_rollouts_of_a_batch_at_once(self) -> None:
        made = trl.environment(self.server.url)
        self.addCleanup(made._client.close)
        trainer = GrpoTrainer(made)
        self.addCleanup(trainer.close)
        alone = lambda at, turn: [("meet", {"place": f"{self.id()} {at}", "size": 1})] if turn < at % 3 else []
        texts, rewards = trainer.train([self.task("all", 64, 64)] * 64, alone)
        self.assertEqual(rewards, [float(at % 3) for at in range(64)])

    def test_trl_runs_the_async_calls_of_a_turn_at_once(self) -> None:
        made = trl.environment(self.server.url, asynchronous=True)
        self.addCleanup(made._client.close)
        trainer = GrpoTrainer(made)
        self.addCleanup(trainer.close)
        self.assertTrue(inspect.iscoroutinefunction(made.meet))
        _, rewards = trainer.train([self.task("one")], lambda at, turn: [("meet", {"place": self.id(), "size": 8})] * 8 if turn == 0 else [])
        self.assertEqual(rewards, [8.0])
        meet = trainer.schemas["meet"]
        self.assertEqual(meet["description"], "Wait for others. Args - none of these are arguments.")
        self.assertEqual(list(meet["parameters"]["properties"]), ["place", "size", "mood", "others"])
        self.assertEqual(meet["parameters"]["required"], ["place", "size"])
        fields = meet["parameters"]["properties"]
        self.assertEqual(fields["place"]["description"], "Where to meet. note: any text will do.")
        self.assertEqual(fields["mood"], {"type": "string", "nullable": True, "description": "mood", "enum": ["calm", "loud"]})
        self.assertEqual((fields["others"]["type"], fields["others"]["items"]), ("array", {"type": "object"}))
        # A type hint has no place for the fields of an object.
        self.assertIn('"properties": {"name": {"type": "string"}}', fields["others"]["description"])

    def test_verl_runs_64_samples_at_once(self) -> None:
        class Loop(holdfast.verl.HoldfastMixin, VerlToolLoop):
            pass

        tools = verl_tools(holdfast.verl.tools(self.server.url))
        meet = ("meet", {"place": self.id(), "size": 64})

        async def train() -> list[Any]:
            make = lambda: Loop(model=lambda _, turn: [meet] if turn == 0 else [], tools=tools, url=self.server.url)
            info = {"task": self.task("all", 64, 64)}
            return await asyncio.gather(*(make().run({}, extra_info=info) for _ in range(64)))

        self.assertEqual([output.reward_score for output in asyncio.run(train())], [1.0] * 64)


if __name__ == "__main__":
    unittest.main()

"""The random episodes that a new tiny model imitates."""

from __future__ import annotations

import inspect
import types
import unittest
from unittest import mock

from .support import needs_torch

try:
    from holdfast import warmup
except ImportError:
    pass

TASK = {"responses_create_params": {"input": 'Get me "Salt".'}}
TOOLS = [{"name": "search", "input": {"properties": {"query": {"type": "string"}}}}]


@needs_torch
class RandomEpisodes(unittest.TestCase):
    def test_a_quarter_of_them_is_long_enough_for_a_task_of_nine_calls(self) -> None:
        session = types.SimpleNamespace(call=lambda *_: {"ok": True, "output": {}}, close=lambda: True)
        client = types.SimpleNamespace(open=lambda *_, **__: session)
        longest = inspect.signature(warmup.play_randomly).parameters["longest"].default
        with mock.patch.object(warmup, "_client", lambda url: client):
            played = [warmup._play("url", TOOLS, [TASK], 1, longest, number) for number in range(400)]
        calls = [sum(isinstance(one, warmup.Answer) for one in said) - 1 for said in played]
        self.assertGreater(sum(number >= 9 for number in calls) / len(calls), 0.2)
        self.assertLessEqual(max(calls), 12)


if __name__ == "__main__":
    unittest.main()

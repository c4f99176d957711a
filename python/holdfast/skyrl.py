"""An environment for SkyRL: the model's text calls tools of a served environment. SkyRL is imported only if it is installed.

    register(id="holdfast", entry_point="holdfast.skyrl:HoldfastEnv", kwargs={"url": "http://127.0.0.1:8080"})
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from .client import Row
from .episode import SEED, Episode, connect, parse_task, read_tasks

CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)

if TYPE_CHECKING:
    BaseTextEnv: Any = object
else:
    try:
        from skyrl_gym.envs.base_text_env import BaseTextEnv
    except ImportError:

        class BaseTextEnv:
            """The parts of SkyRL's class that the environment needs, for use without SkyRL."""

            def __init__(self) -> None:
                self.turns, self.max_turns = 0, 1


class HoldfastEnv(BaseTextEnv):  # type: ignore[misc]
    """An episode of a served environment. It ends with a text without calls, or with the last turn."""

    def __init__(
        self,
        env_config: Any = None,
        extras: Row | None = None,
        url: str | None = None,
        token: str | None = None,
        timeout: float = 60,
        patience: float = 60,
    ) -> None:
        super().__init__()
        extras = extras or {}
        if "task" not in extras:
            raise ValueError("the row has no task; create rows with holdfast.skyrl.rows, which adds the task")
        self.client = connect(url, token, timeout, patience)
        self.task, self.random = parse_task(extras["task"]), extras.get(SEED)
        self.max_turns = extras.get("max_turns", 20)

    def init(self, prompt: list[Row]) -> tuple[list[Row], Row]:
        """Opens the session. The prompt stays as it is."""
        self.turns = 0
        self.episode = Episode(self.client, self.task, self.random)
        return prompt, {"session": self.episode.session.id}

    def step(self, action: str) -> Row:
        """Runs the calls in the model's text, in order. The reward comes with the last step."""
        self.turns += 1
        calls = CALL.findall(action)
        observations = [{"role": "tool", "content": self._answer(call)} for call in calls]
        done = not calls or self.turns >= self.max_turns
        return {
            "observations": [] if done else observations,
            "reward": self.episode.reward(action) if done else 0.0,
            "done": done,
            "metadata": {"session": self.episode.session.id},
        }

    def close(self) -> None:
        """Ends the session."""
        if hasattr(self, "episode"):
            self.episode.close()

    def get_metrics(self) -> Row:
        """Returns the number of calls, and of calls that the environment refused."""
        return {"calls": self.episode.calls, "failed_calls": self.episode.failed_calls}

    def _answer(self, text: str) -> str:
        try:
            call = json.loads(text)
            name, arguments = call["name"], call.get("arguments") or {}
            if not isinstance(arguments, dict):
                raise TypeError("arguments is not an object")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            return json.dumps({"error": f"invalid call: {error}"})
        return self.episode.call(str(name), arguments)


def rows(file: str) -> list[Row]:
    """Reads a tasks file as rows of a data set for SkyRL."""
    return [
        {"prompt": messages, "env_class": "holdfast", "task": json.dumps(task), **seed}
        for messages, task, seed in read_tasks(file)
    ]


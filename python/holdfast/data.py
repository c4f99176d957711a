"""Turns rows of rollouts into episodes with advantages, and episodes into padded tensors.

Only tokens that the model sampled are trained on, with the ids and log-probabilities that its server recorded.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Sequence

Row = dict[str, Any]


@dataclass
class Step:
    """One answer of the model: the position of its tokens, and the rewards of the states before and after the answer."""

    start: int
    end: int
    calls: list[str]
    before: float = 0.0
    after: float = 0.0
    advantage: float = 0.0
    trained: bool = True
    # The weights that sampled the answer, if its server told.
    version: int | None = None


@dataclass
class Episode:
    """A finished rollout as tokens. `steps` are the parts of `tokens` that the model sampled."""

    task: int
    repeat: int
    session: str
    reward: float
    tokens: list[int]
    log_probs: list[float]
    steps: list[Step]
    # The place in a tree: the way taken at each fork, the number of answers before each fork, and the number of the tree.
    branch: tuple[int, ...] = ()
    forks: tuple[int, ...] = ()
    root: int = 0
    # The value that advantages are computed from: the reward after the discount for each answer after the first.
    value: float = 0.0

    def __post_init__(self) -> None:
        self.value = self.reward

    @property
    def sampled(self) -> int:
        return sum(step.end - step.start for step in self.steps if step.trained)


def read_row(row: Row, branch: Sequence[dict[str, int]] = ()) -> Episode | str:
    """Reads a row. If the row cannot be trained on, returns the reason in one or two words. `branch` is the request's field."""
    if row.get("token_chain") == "broken":
        return "broken tokens"
    if (row.get("harness") or {}).get("main") == "ambiguous":
        return "ambiguous transcript"
    if row.get("mask_sample"):
        return "masked"
    if not _is_number(row.get("reward")):
        return "no reward"
    tokens: list[int] = []
    log_probs: list[float] = []
    steps: list[Step] = []
    for (prompt, sampled, recorded), calls, version in _answers(row):
        if not isinstance(prompt, list) or prompt[: len(tokens)] != tokens:
            return "broken tokens"
        new = prompt[len(tokens) :]
        if not _are_ids(new) or not _are_ids(sampled):
            return "broken tokens"
        if len(sampled) != len(recorded):
            return "no log-probs"
        if not all(map(_is_number, recorded)):
            return "broken tokens"
        log_probs += [0.0] * len(new) + recorded
        tokens += new + sampled
        steps.append(Step(len(prompt), len(tokens), calls, version=version))
    if not steps:
        return "no tokens"
    _add_step_rewards(steps, row)
    ways = tuple(int(part) for part in str(row["branch"]).split(".")) if "forked_at" in row else ()
    # A fork follows a tool step: an answer with calls.
    called = [number for number, step in enumerate(steps, 1) if step.calls]
    if ways and len(called) < _tool_steps(row):
        return "no tokens"
    forks = tuple(called[step - 1] for step in sorted(one["step"] for one in branch)[: len(ways)])
    task, repeat = int(row.get("_ng_task_index", 0)), int(row.get("_ng_rollout_index", 0))
    # Rollouts are numbered so that each tree has a range of numbers, even if some of its episodes end before a fork.
    root = repeat // math.prod(one["ways"] for one in branch)
    return Episode(task, repeat, str(row.get("session_id", "")), float(row["reward"]), tokens, log_probs, steps, ways, forks, root)


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is int and one >= 0 for one in value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _answers(row: Row) -> Iterable[tuple[tuple[Any, Any, list[Any]], list[str], int | None]]:
    """Yields the tokens of each answer, which are not checked yet, the ids of its calls, and the version of the weights."""
    output = (row.get("response") or {}).get("output") or []
    starts = [at for at, item in enumerate(output) if "prompt_token_ids" in item] + [len(output)]
    for start, end in zip(starts, starts[1:]):
        item = output[start]
        sampled = item.get("generation_token_ids", item.get("token_ids")) or []
        recorded = item.get("generation_log_probs")
        if recorded is None:
            recorded = [one.get("logprob") for one in (item.get("logprobs") or {}).get("content") or []]
        calls = [one["call_id"] for one in output[start:end] if one.get("type") == "function_call"]
        yield (item["prompt_token_ids"], sampled, recorded), calls, item.get("policy_version")


def _tool_steps(row: Row) -> int:
    """Returns the number of answers with calls, also of answers without tokens."""
    types = [item.get("type") for item in row["response"]["output"]]
    tools = [one for one in types if one in ("function_call", "function_call_output")]
    return sum(one == "function_call" and before != one for before, one in zip([None, *tools], tools))


def _add_step_rewards(steps: list[Step], row: Row) -> None:
    """Sets the rewards of the states before and after each step. A call that changed no state keeps the reward."""
    rewards = row.get("step_rewards")
    if not isinstance(rewards, list):
        return
    known = [one for one in rewards if isinstance(one.get("reward"), (int, float))]
    by_call = {one["call"]: float(one["reward"]) for one in known if "call" in one}
    now = next((float(one["reward"]) for one in known if "call" not in one), 0.0)
    for step in steps:
        step.before = now
        for call in step.calls:
            now = by_call.get(call, now)
        step.after = now
    # The final verdict also judges the response, so its reward may differ from the reward of the last version.
    steps[-1].after = float(row["reward"])


# Advantages. Each function takes the episodes of one task and sets the advantage of every step.

Credit = Callable[[list[Episode]], None]


def grpo(group: list[Episode]) -> None:
    """Sets (value - mean) / max(std, 0.1) over the group. A smaller std comes only from the lengths of the episodes."""
    mean, std = _moments([episode.value for episode in group])
    for episode in group:
        for step in episode.steps:
            step.advantage = (episode.value - mean) / max(std, 0.1)


def rloo(group: list[Episode]) -> None:
    """Sets the value minus the mean value of the other episodes in the group (leave one out)."""
    total = sum(episode.value for episode in group)
    for episode in group:
        others = (total - episode.value) / max(1, len(group) - 1) if len(group) > 1 else episode.value
        for step in episode.steps:
            step.advantage = episode.value - others


def per_step(group: list[Episode], discount: float = 1.0) -> None:
    """Credits each answer with its reward to go, compared with the mean of the same step over the group.

    The reward to go of step t is the sum of discount^(k - t) * (reward after k - reward before k) over steps k >= t.
    It does not use the value of an episode, so `Collected.credit` gives it the discount.
    """
    to_go: list[list[float]] = []
    for episode in group:
        later, values = 0.0, []
        for step in reversed(episode.steps):
            later = step.after - step.before + discount * later
            values.append(later)
        to_go.append(values[::-1])
    _, std = _moments([value for values in to_go for value in values])
    for episode, values in zip(group, to_go):
        for at, (step, value) in enumerate(zip(episode.steps, values)):
            same = [others[at] for others in to_go if at < len(others)]
            # A step that no other episode reached is compared with the start of all episodes, if there are others.
            same = [others[0] for others in to_go] if len(same) == 1 < len(group) else same
            step.advantage = (value - sum(same) / len(same)) / std


def tree(group: list[Episode]) -> None:
    """Credits the steps between two forks: mean reward below the later fork - mean reward below the earlier fork.

    The leaves of a tree share their tokens up to the fork. These tokens are trained on once, in the first leaf.
    """
    # Like `grpo`: a smaller std comes only from the lengths of the episodes.
    std = max(_moments([episode.value for episode in group])[1], 0.1)
    trees: dict[int, list[Episode]] = {}
    for episode in group:
        trees.setdefault(episode.root, []).append(episode)
    roots = [_mean([leaf.value for leaf in leaves]) for leaves in trees.values()]
    for leaves, root in zip(trees.values(), roots):
        _credit_node(leaves, 0, 0, _mean(roots), root, std)


def _credit_node(leaves: list[Episode], depth: int, first: int, parent: float, value: float, std: float) -> None:
    """Credits the steps from number `first` to the next fork with value - parent, then the branches below the fork."""
    open_ = [leaf for leaf in leaves if len(leaf.forks) > depth]
    fork = open_[0].forks[depth] if len(open_) > 1 else None
    for number, leaf in enumerate(leaves):
        end = len(leaf.steps) if fork is None else fork
        for step in leaf.steps[first:end]:
            step.advantage = (value - parent) / std
            step.trained = number == 0
    if fork is None:
        return
    branches: dict[int, list[Episode]] = {}
    for leaf in open_:
        branches.setdefault(leaf.branch[depth], []).append(leaf)
    for below in branches.values():
        _credit_node(below, depth + 1, fork, value, _mean([leaf.value for leaf in below]), std)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _moments(values: list[float]) -> tuple[float, float]:
    """Returns the mean and the standard deviation. A deviation of 0 becomes 1, so that advantages are 0."""
    mean = _mean(values)
    variance = sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
    return mean, variance**0.5 if variance > 1e-12 else 1.0


CREDITS: dict[str, Credit] = {"outcome": grpo, "grpo": grpo, "rloo": rloo, "steps": per_step, "tree": tree}


@dataclass
class Collected:
    """The episodes of one iteration, and the number of rows that cannot be trained on, by reason.

    `branch` is the field of the rollout request. The credit method `tree` needs it to find the forks.
    """

    episodes: list[Episode] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    branch: Sequence[dict[str, int]] = ()

    def reward(self) -> float:
        """Returns the mean reward, or 0 without episodes. The leaves of a tree share the weight of one episode."""
        leaves = Counter((one.task, one.root) for one in self.episodes)
        return sum(one.reward / leaves[one.task, one.root] for one in self.episodes) / max(1, len(leaves))

    def groups(self) -> dict[int, list[Episode]]:
        """Returns the episodes of each task."""
        groups: dict[int, list[Episode]] = {}
        for episode in self.episodes:
            groups.setdefault(episode.task, []).append(episode)
        return groups

    def metrics(self, version: int) -> Row:
        """Returns numbers about the episodes, which weights of this version learn from."""
        episodes, groups = self.episodes, self.groups().values()
        sampled = sum(one.sampled for one in episodes)
        trained = [step for one in episodes for step in one.steps if step.trained]
        ages = [(version - step.version) * (step.end - step.start) for step in trained if step.version is not None]
        return {
            "reward": self.reward(),
            "tasks": len(groups),
            # Tasks with no reward, with a reward in at least one episode, and with the full reward in every episode.
            "dead_groups": sum(all(one.reward <= 0 for one in group) for group in groups),
            "tasks_solved_once": sum(any(one.reward > 0 for one in group) for group in groups),
            "solved_groups": sum(all(one.reward >= 1 for one in group) for group in groups),
            "rows": len(episodes),
            "left_out": dict(self.left_out),
            "steps": len([step for one in episodes for step in one.steps]) / max(1, len(episodes)),
            # How many updates the mean sampled token is older than the weights that learn from it.
            "staleness": sum(ages) / max(1, sampled),
            "sampled_tokens": sampled,
        }

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            read = read_row(row, self.branch)
            if isinstance(read, str):
                self.left_out[read] += 1
            else:
                self.episodes.append(read)

    def credit(self, credit: Credit, discount: float = 1.0) -> None:
        """Sets the advantages, task by task. Each answer after the first makes a reward smaller, and a negative one worse."""
        for episode in self.episodes:
            factor = discount ** (len(episode.steps) - 1)
            episode.value = episode.reward * (factor if episode.reward >= 0 else 2 - factor)
        for group in self.groups().values():
            if credit is per_step:
                per_step(group, discount)
            else:
                credit(group)


def micro_batches(episodes: list[Episode], tokens: int) -> list[list[Episode]]:
    """Groups episodes of similar length. The padded tensor of a group has at most `tokens` tokens, or one episode."""
    batches: list[list[Episode]] = []
    for episode in sorted(episodes, key=lambda one: -len(one.tokens)):
        if batches and (len(batches[-1]) + 1) * len(batches[-1][0].tokens) <= tokens:
            batches[-1].append(episode)
        else:
            batches.append([episode])
    return batches


def to_batch(episodes: list[Episode], pad: int, device: Any = "cpu") -> dict[str, Any]:
    """Returns padded tensors: tokens, mask of trained tokens, log-probs and advantages, each (episodes, tokens)."""
    import torch

    width = max(len(episode.tokens) for episode in episodes)
    tokens, mask, log_probs, advantages = [], [], [], []
    for episode in episodes:
        trained, credit = [0.0] * width, [0.0] * width
        for step in episode.steps:
            if step.trained:
                trained[step.start : step.end] = [1.0] * (step.end - step.start)
            credit[step.start : step.end] = [step.advantage] * (step.end - step.start)
        rest = width - len(episode.tokens)
        tokens.append(episode.tokens + [pad] * rest)
        log_probs.append(episode.log_probs + [0.0] * rest)
        mask.append(trained)
        advantages.append(credit)
    make = lambda values, dtype: torch.tensor(values, dtype=dtype).to(device)
    return {
        "tokens": make(tokens, torch.long), "mask": make(mask, torch.float),
        "log_probs": make(log_probs, torch.float), "advantages": make(advantages, torch.float),
    }

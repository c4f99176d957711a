"""A reference trainer: policy gradients with groups (GRPO), on rollouts that a Holdfast server plays.

An iteration asks the server for rollouts of the policy, turns rows into advantages, updates the weights and writes a
checkpoint. The request id of an iteration is a function of the run, the iteration and the attempt, and an update counts
once its checkpoint is written. So a trainer that was killed continues with the same rows, and uses each row once.
With `ahead`, the rollouts of the next iteration are played during the update.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import random
import threading
import time
from collections import Counter
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterator

import torch
from torch import Tensor

from .client import Client, HoldfastError
from .data import CREDITS, Collected, Episode, micro_batches, to_batch
from .policy import Policy

Row = dict[str, Any]
WARM_STEPS = 20
# The learning rate and the entropy bonus in the last iteration, as a fraction of their largest values.
LEAST_RATE = 0.1
RETRIES = 3
# Added to p * (1 - p) of a task's last mean reward p, so that tasks with an equal reward in all episodes are drawn too.
LEAST_NEED = 0.05
LARGEST_WEIGHT = 1e6


class TrainingError(RuntimeError):
    """The run cannot continue. The message says what went wrong, and what to do."""


@dataclass
class Settings:
    """The settings of a training run. `tokens` limits the sampled tokens of the whole run; 0 means no limit."""

    iterations: int = 20
    ahead: int = 0
    tokens: int = 0
    tasks: int = 64
    choose: str = "need"
    repeats: int = 16
    credit: str = "outcome"
    branch: list[dict[str, int]] = field(default_factory=list)
    rate: float = 3e-4
    updates: int = 4
    clip: float = 0.2
    clip_high: float = 0.28
    kl: float = 0.0
    entropy: float = 0.0
    temperature: float = 1.0
    discount: float = 1.0
    max_tokens: int = 64
    max_steps: int = 16
    concurrency: int = 256
    micro_tokens: int = 65536
    seed: int = 1
    stop_at: float = 2.0


class Trainer:
    """Trains the model of a policy in this process. `run` returns the metrics of all iterations."""

    def __init__(self, client: Client, policy: Policy, tasks: list[Row], folder: Path, name: str, settings: Settings) -> None:
        self.client, self.policy, self.folder, self.name = client, policy, Path(folder), name
        self.settings = settings
        self.tasks = [{**row, "_ng_task_index": at} for at, row in enumerate(tasks)]
        # An asynchronous trainer updates its own copy, because the policy samples during the update.
        self.model = copy.deepcopy(policy.model) if settings.ahead else policy.model
        self.device = next(self.model.parameters()).device
        self.started: Future[Any] | None = None
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=settings.rate, betas=(0.9, 0.99), weight_decay=0.0)
        self.reference = copy.deepcopy(self.model).requires_grad_(False) if settings.kl > 0 else None
        self.iteration, self.sampled, self.made, self.history = 0, 0, 0, []
        # The mean reward of each played task, by iteration.
        self.results: list[dict[int, float]] = []

    def run(self, report: Callable[[Row], None] = lambda metrics: None) -> list[Row]:
        settings = self.settings
        while not self.is_done():
            begun = time.perf_counter()
            collected, timing = self.collect()
            if not any(one.sampled for one in collected.episodes):
                problem = f"no token was sampled in iteration {self.iteration}: the prompts fill the model's context"
                raise TrainingError(f"{problem}; choose a larger --context (a tiny model then needs another --out)")
            collected.credit(CREDITS[settings.credit], settings.discount)
            if settings.ahead and self.iteration + 1 < settings.iterations:
                self.start_next()
            updating = time.perf_counter()
            losses = self.update(collected.episodes)
            if self.device.type == "cuda":
                # Waits only for this stream. The engine may be recording a graph, during which the device cannot be waited for.
                torch.cuda.current_stream().synchronize()
            timing["update"] = time.perf_counter() - updating
            metrics = self.metrics(collected, losses)
            self.iteration += 1
            self.publish()
            self.history.append(metrics)
            timing["total"] = time.perf_counter() - begun
            metrics["seconds"] = {name: round(value, 4) for name, value in timing.items()}
            self.save([episode.session for episode in collected.episodes])
            report(metrics)
        if self.started:
            # The run has ended early. Its last request would take time from an evaluation.
            with suppress(HoldfastError):
                self.client.cancel(self.request()["request"])
        return self.history

    def is_done(self) -> bool:
        settings, reward = self.settings, self.history[-1]["reward"] if self.history else -math.inf
        return self.iteration >= settings.iterations or 0 < settings.tokens <= self.sampled or reward >= settings.stop_at

    # Rollouts

    def request(self, later: int = 0) -> Row:
        """Returns the request of this or a later iteration. It stays the same until the attempt has failed."""
        settings, iteration = self.settings, self.iteration + later
        attempt = self.attempt(iteration)
        asked: Row = {
            "request": f"{self.name}-{iteration}" + (f".{attempt}" if attempt else ""),
            "tasks": [self.tasks[at] for at in self.choose(iteration)],
            "repeats": settings.repeats,
            "model": {
                "url": self.policy.url,
                "name": self.policy.name,
                "api": "chat",
                "temperature": settings.temperature,
                "maxTokens": settings.max_tokens,
                "request": {"return_token_ids": True, "logprobs": True},
            },
            "limits": {"steps": settings.max_steps},
            "concurrency": settings.concurrency,
            "labels": {"iteration": iteration},
            "groups": True,
            "randomSeed": "per-task",
            # Repeats of a task share their randomness, but each iteration has its own.
            "seed": 1_000_003 * settings.seed + iteration,
        }
        if settings.credit == "steps":
            asked["stepRewards"] = True
        if settings.branch:
            asked["branch"] = settings.branch
        return asked

    def choose(self, iteration: int) -> list[int]:
        """Draws the tasks of an iteration. With `choose="need"`, a task that is solved sometimes is likelier than others.

        The draw depends only on results in the checkpoint, so a trainer that is started again asks for the same tasks.
        """
        settings, everything = self.settings, range(len(self.tasks))
        rng = random.Random(f"{settings.seed} {iteration}")
        if settings.choose != "need" or settings.tasks >= len(self.tasks):
            return rng.sample(everything, min(settings.tasks, len(self.tasks)))
        # A request that starts during the previous update does not know the results of that iteration.
        known = self.results[: max(0, iteration - settings.ahead)]
        last = {task: reward for result in known for task, reward in result.items()}

        def weight(task: int) -> float:
            solved = min(1.0, max(0.0, last.get(task, 0.5)))
            return solved * (1 - solved) + LEAST_NEED

        # The largest values of random^(1 / weight) are a weighted draw without repetition.
        return sorted(everything, key=lambda task: -(rng.random() ** (1 / weight(task))))[: settings.tasks]

    def collect(self) -> tuple[Collected, dict[str, float]]:
        """Returns the rollouts of this iteration, and the seconds that they took."""
        for retries_left in range(RETRIES, -1, -1):
            started, self.started = self.started, None
            collected, failure, seconds = started.result() if started else self.play(self.request())
            if failure is None:
                return collected, seconds
            self.next_attempt()
            if not retries_left:
                raise TrainingError(f"{failure}; gave up after {RETRIES} retries; start the trainer again to continue this run")

    def start_next(self) -> None:
        """Starts the rollouts of the next iteration in a thread. A daemon, because a stream must not delay the exit."""
        request, future = self.request(later=1), Future()

        def work() -> None:
            try:
                future.set_result(self.play(request))
            except BaseException as error:
                future.set_exception(error)

        self.started = future
        threading.Thread(target=work, name="rollouts", daemon=True).start()

    def play(self, request: Row) -> tuple[Collected, str | None, dict[str, float]]:
        """Plays a request to its end. Returns its rows, the reason if they must not be trained on, and seconds."""
        clocks = lambda: (time.perf_counter(), self.policy.busy_seconds(), self.policy.engine.seconds)
        begun = clocks()
        collected, failure, reason = Collected(branch=request.get("branch", [])), None, None
        try:
            for event in self.client.rollouts(**request):
                if event["type"] in ("group", "row"):
                    rows = event["rows"] if event["type"] == "group" else [event["row"]]
                    collected.add(rows)
                    reason = reason or next((row["failure_reason"] for row in rows if row.get("failure_reason")), None)
                elif event["type"] == "end" and event.get("error"):
                    failure = f"the rollouts ended early: {event['error']['message']} ({event['error']['code']})"
                elif event["type"] == "end" and event.get("cancelled"):
                    failure = "the rollouts were cancelled"
        except HoldfastError as error:
            # The settings have changed since the request was started. The next attempt has another id.
            if error.code != "call_conflict":
                raise
            failure = error.message
        if failure is None and not collected.episodes:
            told = f"; the first failure: {reason}" if reason else ""
            failure = f"no rollout can be trained on; left out: {dict(collected.left_out)}{told}"
        whole, sampling, engine = (now - before for now, before in zip(clocks(), begun))
        # An environment that delays some episodes keeps other requests open, so its cost is between these two differences.
        seconds = {"sampling": sampling, "environment": whole - sampling, "engine": engine, "engine_idle": whole - engine}
        return collected, failure, seconds

    def held_out(self, tasks: list[Row], repeats: int = 8) -> float:
        """Plays tasks that are not trained on, with the current weights, and returns the mean reward."""
        rows = [{**row, "_ng_task_index": at} for at, row in enumerate(tasks)]
        request = {**self.request(), "tasks": rows, "repeats": repeats, "branch": []}
        # Other tasks or settings get another id, because an id belongs to one body.
        digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:12]
        request["request"] = f"{self.name}-held-out-{self.iteration}-{digest}"
        collected, failure, _ = self.play(request)
        if failure is not None:
            self.next_attempt()
            advice = "the training is complete; start the same command again to play them"
            raise TrainingError(f"the held-out tasks were not played: {failure}; {advice}")
        return collected.reward()

    def attempt(self, iteration: int) -> int:
        """Returns how many requests of an iteration failed. Each retry needs a new id: an old id returns the old failure."""
        file = self.folder / "attempt.json"
        with reading(file):
            saved = json.loads(file.read_bytes()) if file.exists() else {}
        # The file may be from an earlier iteration. The checkpoint has the current one.
        return saved["attempt"] if saved.get("iteration") == iteration else 0

    def next_attempt(self) -> None:
        text = json.dumps({"iteration": self.iteration, "attempt": self.attempt(self.iteration) + 1}).encode()
        write_atomically(self.folder / "attempt.json", lambda file: file.write(text))

    # The update

    def update(self, episodes: list[Episode]) -> dict[str, float]:
        """Makes up to `updates` optimizer steps on the episodes that have something to teach."""
        settings, sums = self.settings, Counter()
        used = self.useful(episodes)
        random.Random(f"{settings.seed} {self.iteration} update").shuffle(used)
        count = max(1, min(settings.updates, len(used) // 8))
        steps = 0
        with nullcontext() if settings.ahead else self.policy.engine.model_lock:
            compared = self.compare(episodes)
            # Dropout would make the probabilities differ from the sampled ones.
            self.model.eval()
            for part in (used[at::count] for at in range(count)):
                tokens = sum(one.sampled for one in part)
                if not tokens:
                    continue
                self.optimizer.zero_grad(set_to_none=False)
                for micro in micro_batches(part, settings.micro_tokens):
                    loss, found = self.loss(to_batch(micro, self.policy.format.pad, self.device), tokens)
                    loss.backward()
                    sums.update(found)
                # The learning rate warms up, because the first steps of Adam have its size whatever the gradient is.
                self.made += 1
                for group in self.optimizer.param_groups:
                    group["lr"] = settings.rate * min(1.0, self.made / WARM_STEPS) * self.annealing()
                norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                steps += 1
                sums.update({"gradient_norm": float(norm)})
            found = {**{name: value / max(1, steps) for name, value in sums.items()}, **compared}
        if not all(map(math.isfinite, found.values())) or not self.is_sound():
            problem = f"the update of iteration {self.iteration} is not saved: it made numbers that are too large or not finite"
            advice = f"start again with a lower --rate than {settings.rate:g}, to continue from the last checkpoint"
            raise TrainingError(f"{problem}; {advice}")
        return {**found, "optimizer_steps": steps, "trained_episodes": len(used)}

    def is_sound(self) -> bool:
        """Returns whether all weights are numbers, and small enough for further updates."""
        return all(bool((one.abs() < LARGEST_WEIGHT).all()) for one in self.model.parameters())

    def useful(self, episodes: list[Episode]) -> list[Episode]:
        """Leaves out episodes without an advantage. Unsolved tasks keep theirs, because the entropy bonus makes them explore."""
        best: Counter[int] = Counter()
        for one in episodes:
            best[one.task] = max(best[one.task], one.reward)
        explore = self.settings.entropy > 0
        has_advantage = lambda one: any(step.trained and step.advantage for step in one.steps)
        return [one for one in episodes if self.reference or has_advantage(one) or (explore and best[one.task] <= 0)]

    def annealing(self) -> float:
        """Returns the factor on the learning rate and the entropy bonus. It falls, because large steps easily spoil a good policy."""
        done = min(1.0, self.iteration / max(1, self.settings.iterations - 1))
        return 1 - (1 - LEAST_RATE) * done

    def compare(self, episodes: list[Episode], most: int = 256) -> dict[str, float]:
        """Returns the mean entropy, and the largest difference of recomputed and recorded log-probs, which should be 0.

        Older weights sampled other log-probs, so an episode with their answers is not compared.
        """
        worst, entropy, tokens = 0.0, 0.0, 0
        compared = episodes if self.iteration == 0 else episodes[:most]
        is_fresh = lambda one: all(step.version in (None, self.iteration) for step in one.steps)
        fresh, older = [one for one in compared if is_fresh(one)], [one for one in compared if not is_fresh(one)]
        for micro in micro_batches(fresh, self.settings.micro_tokens) + micro_batches(older, self.settings.micro_tokens):
            batch = to_batch(micro, self.policy.format.pad, self.device)
            mask = batch["mask"][:, 1:] > 0
            if not bool(mask.any()):
                continue
            with torch.no_grad():
                new, spread = self.log_probs(self.model, batch["tokens"], mask, batch["tokens"][:, 1:][mask])
            if is_fresh(micro[0]):
                difference = float((new - batch["log_probs"][:, 1:][mask]).abs().max())
                # `max` would hide a difference that is not a number.
                worst = worst if difference <= worst else difference
            entropy, tokens = entropy + float(spread.sum()), tokens + len(new)
        return {"entropy": entropy / max(1, tokens), **({"logprob_difference": worst} if fresh else {})}

    def loss(self, batch: dict[str, Tensor], tokens: int) -> tuple[Tensor, dict[str, float]]:
        """Returns the clipped loss of a micro-batch, summed and divided by `tokens`, and numbers to report."""
        settings = self.settings
        mask = batch["mask"][:, 1:] > 0
        old, advantages = batch["log_probs"][:, 1:][mask], batch["advantages"][:, 1:][mask]
        targets = batch["tokens"][:, 1:][mask]
        new, entropy = self.log_probs(self.model, batch["tokens"], mask, targets)
        ratio = (new - old).exp()
        clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip_high)
        surrogate = torch.minimum(ratio * advantages, clipped * advantages).sum() / tokens
        loss = -surrogate - settings.entropy * self.annealing() * entropy.sum() / tokens
        found = {}
        if self.reference is not None:
            with torch.no_grad():
                known, _ = self.log_probs(self.reference, batch["tokens"], mask, targets)
            # An estimate of the divergence that is never negative: exp(d) - d - 1 with d = log q - log p.
            distance = ((known - new).exp() - (known - new) - 1).sum() / tokens
            loss = loss + settings.kl * distance
            found["kl"] = float(distance.detach())
        with torch.no_grad():
            found["loss"] = loss.item()
            found["clipped"] = float((ratio != clipped).float().sum() / tokens)
        return loss, found

    def log_probs(self, model: Any, tokens: Tensor, mask: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the log-probs of the sampled tokens at the sampling temperature, and the entropy at each token."""
        logits = model.logits(model(tokens[:, :-1])[mask]) / self.settings.temperature
        all_log_probs = logits.log_softmax(-1)
        new = all_log_probs.gather(-1, targets[:, None])[:, 0]
        if self.settings.entropy == 0:
            all_log_probs = all_log_probs.detach()
        return new, -(all_log_probs.exp() * all_log_probs).sum(-1)

    def publish(self) -> None:
        """Gives the new weights to the policy. Their version is the number of updates, also after a restart."""
        if self.settings.ahead:
            self.policy.reload(self.model.state_dict(), self.iteration)
            return
        with self.policy.engine.model_lock:
            self.policy.engine.version = self.iteration

    # The record

    def metrics(self, collected: Collected, losses: dict[str, float]) -> Row:
        found = collected.metrics(self.iteration)
        self.sampled += found["sampled_tokens"]
        self.results.append({task: Collected(group).reward() for task, group in collected.groups().items()})
        last = {task: reward for result in self.results for task, reward in result.items()}
        return {
            "iteration": self.iteration,
            "request": self.request()["request"],
            **found,
            # Chosen tasks are harder than others. This is the mean of the last result of every task that was played.
            "reward_all_tasks": sum(last.values()) / len(last),
            "sampled_tokens_total": self.sampled,
            **losses,
        }

    def save(self, sessions: list[str]) -> None:
        """Writes the checkpoint, then metrics.jsonl and used.jsonl. If the trainer is killed in between, `load` adds the lines."""
        saved = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "iteration": self.iteration,
            "sampled": self.sampled,
            "made": self.made,
            "history": self.history,
            "results": self.results,
            "sessions": sessions,
            "settings": asdict(self.settings),
        }
        write_atomically(self.folder / "checkpoint.pt", lambda file: torch.save(saved, file))
        self._append(saved)

    def load(self) -> bool:
        """Continues from the checkpoint in the folder. Returns False if there is none."""
        file = self.folder / "checkpoint.pt"
        if not file.exists():
            return False
        with reading(file):
            saved = load_checkpoint(file)
            with self.policy.engine.model_lock:
                self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.iteration, self.sampled, self.made = saved["iteration"], saved["sampled"], saved["made"]
            self.history, self.results = saved["history"], saved.get("results", [{}] * saved["iteration"])
            if not self.is_sound():
                raise ValueError("it has weights that are not finite")
        self.publish()
        self._append(saved)
        return True

    def _append(self, saved: Row) -> None:
        """Adds the last iteration to metrics.jsonl and used.jsonl, unless they have it. Removes an incomplete last line."""
        if not self.history:
            return
        last = self.history[-1]
        used = {"iteration": last["iteration"], "request": last["request"], "sessions": saved["sessions"]}
        for name, line in (("metrics.jsonl", last), ("used.jsonl", used)):
            file = self.folder / name
            lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
            kept = [one for one in lines if one.endswith(b"\n")][: last["iteration"]]
            text = json.dumps(line, allow_nan=False).encode() + b"\n"
            if len(kept) == len(lines):
                with open(file, "ab") as out:
                    out.write(text)
            else:
                write_atomically(file, lambda out: out.write(b"".join(kept) + text))


def write_atomically(file: Path, write: Callable[[Any], Any]) -> None:
    """Writes a file so that it has its complete old or new content, even if the process is killed."""
    part = file.with_name(f"{file.name}.part")
    with open(part, "wb") as out:
        write(out)
        out.flush()
        os.fsync(out.fileno())
    os.replace(part, file)


def load_checkpoint(file: Path) -> Row:
    """Reads a checkpoint. Only load your own files: torch can run code that a file contains."""
    try:
        return torch.load(file, map_location="cpu", weights_only=False)
    except TypeError:  # torch before 1.13 does not have the option.
        return torch.load(file, map_location="cpu")


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Names the file of a run that cannot be read."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise TrainingError(f"the GPU has too little free memory for {file}; end other programs that use it") from error
    except Exception as error:
        problem = (str(error).splitlines() or [""])[0] or type(error).__name__
        advice = "restore it from a copy, or start a new run with another --out"
        raise TrainingError(f"cannot read {file}: {problem}; {advice}") from error

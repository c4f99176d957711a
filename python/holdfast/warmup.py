"""Teaches a tiny model the format of an environment, and to copy values: it imitates random valid play.

The play is not filtered by reward. Which tool is called, and when an episode ends, is random. Arguments are drawn from the
JSON Schema of a tool, or copied from the conversation: mostly in the order of the prompt, or from the last result.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from typing import Any, Callable

from .client import Client
from .model import Answer, Message, TinyFormat
from .serve import end_with_parent
from .trainer import TrainingError

# The share of episodes that copy values in the order of the prompt, and the probability of another call after each call.
IN_ORDER, CALL_AGAIN = 0.8, 0.85
# Maximum number of tokens in a batch of the imitation.
TOKENS = 40_000


def play_randomly(client: Client, tasks: list[dict[str, Any]], episodes: int, seed: int, longest: int = 12) -> list[list[Any]]:
    """Plays random episodes on the server. Each is a list of messages and answers, in order."""
    play = partial(_play, client.url, client.environment()["tools"], tasks, seed, longest)
    with ProcessPoolExecutor(min(8, os.cpu_count() or 1), get_context("fork"), _begin) as processes:
        return list(processes.map(play, range(episodes), chunksize=50))


def _begin() -> None:
    """Leaves Ctrl-C and other signals to the parent, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()


def _play(url: str, tools: list[dict[str, Any]], tasks: list[dict[str, Any]], seed: int, longest: int, number: int) -> list[Any]:
    rng = random.Random(seed * 1_000_003 + number)
    row = tasks[number % len(tasks)]
    fields = {name: value for name, value in row.items() if name != "responses_create_params" and not name.startswith("_")}
    session = _client(url).open(fields, random=rng.randrange(1 << 30))
    said: list[Any] = [*prompt_messages(row)]
    seen = _Seen(rng, _text_of(said))
    for number_of_call in range(longest):
        # The number of calls is random too. Long episodes must occur often enough, or the model stops before long tasks end.
        call = seen.call(tools) if number_of_call == 0 or rng.random() < CALL_AGAIN else None
        if call is None:
            break
        name, arguments = call
        said.append(Answer("", [(name, json.dumps(arguments, separators=(",", ":"), ensure_ascii=False))]))
        reply = session.call(name, arguments)
        failed = {"error": {name: reply["error"][name] for name in ("code", "message")}} if not reply["ok"] else None
        output = failed or reply["output"]
        text = output if isinstance(output, str) else json.dumps(output, separators=(",", ":"), ensure_ascii=False)
        said.append({"role": "tool", "content": text})
        seen.add(text)
    said.append(Answer("Done.", []))
    session.close()
    return said


@cache
def _client(url: str) -> Client:
    return Client(url)


class _Seen:
    """The values that the conversation has shown, by field name. Draws calls that use them."""

    def __init__(self, rng: random.Random, prompt: str) -> None:
        self.rng = rng
        # Most episodes copy the prompt's values in order, again and again, and ids from the last result that has ids.
        self.orderly = rng.random() < IN_ORDER
        self.taken: dict[tuple[str, str], int] = {}
        self.made: list[Any] = []
        self.values: dict[str, list[Any]] = {}
        self.latest: dict[str, list[Any]] = {}
        self.numbers = [int(number) for number in re.findall(r"(?<![\w.])-?\d+(?![\w.])", prompt)]
        self.texts = re.findall(r'"([^"]+)"', prompt) or re.findall(r"[\w.@-]*\d[\w.@-]*|[\w.+-]+@[\w.-]+", prompt)

    def add(self, text: str) -> None:
        found: dict[str, list[Any]] = {}

        def walk(name: str, value: Any) -> None:
            if isinstance(value, dict):
                for key, one in value.items():
                    walk(key, one)
            elif isinstance(value, list):
                for one in value:
                    walk(name, one)
            elif isinstance(value, (str, int)) and not isinstance(value, bool):
                found.setdefault(name, []).append(value)

        try:
            walk("", json.loads(text))
        except ValueError:
            pass
        for name, values in found.items():
            self.values[name] = self.values.get(name, []) + values
        self.latest.update(found)

    def call(self, tools: list[dict[str, Any]]) -> tuple[str, dict[str, Any]] | None:
        """Draws a tool whose arguments can be filled, and its arguments. Tries up to four times to avoid an earlier call."""
        drawn = None
        for _ in range(4):
            for tool in self.rng.sample(tools, len(tools)):
                self.tool = tool["name"]
                given = self._value("", tool["input"])
                if given is not None:
                    drawn = tool["name"], given
                    break
            if drawn not in self.made or self.orderly and drawn and drawn[1]:
                break
        self.made.append(drawn)
        return drawn

    def _value(self, name: str, schema: dict[str, Any]) -> Any:
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.rng.choice(schema["enum"])
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self._value(name, self.rng.choice(schema[several]))
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self.rng.choice(kind)
        if kind == "object" or "properties" in schema:
            made = {}
            for key, one in schema.get("properties", {}).items():
                value = self._value(key, one)
                if value is None and not _may_be_null(one):
                    return None
                made[key] = value
            return made
        if kind == "array":
            return [self._value(name, schema.get("items", {})) for _ in range(self.rng.randint(1, 2))]
        if kind == "boolean":
            return self.rng.random() < 0.5
        if kind in ("integer", "number"):
            known = self.values.get(name, []) + self.numbers
            if self.orderly and self.numbers:
                return self._next(name, self.numbers)
            low, high = max(-9, schema.get("minimum", -9)), min(20, schema.get("maximum", 20))
            drawn = self.rng.choice(known) if known and self.rng.random() < 0.9 else self.rng.randint(int(low), int(max(low, high)))
            return drawn if isinstance(drawn, int) else None
        if kind == "null":
            return None
        known = [value for value in self.values.get(name, []) if isinstance(value, str)]
        if self.orderly and known:
            return self.rng.choice([value for value in self.latest[name] if isinstance(value, str)] or known)
        if self.orderly and not _is_id(name):
            return self._next(name, self.texts)
        if known:
            return self.rng.choice(known)
        # An id can only come from a result; other texts may come from the prompt.
        return None if _is_id(name) or not self.texts else self.rng.choice(self.texts)


    def _next(self, name: str, known: list[Any]) -> Any:
        """Returns the next value for an argument of the current tool, in order. After the last value, starts again."""
        at = self.taken.get((self.tool, name), 0)
        self.taken[self.tool, name] = at + 1
        return known[at % len(known)] if known else None


def _is_id(name: str) -> bool:
    return name == "id" or name.endswith("_id")


def _may_be_null(schema: dict[str, Any]) -> bool:
    return "null" in str(schema.get("type")) or any(one.get("type") == "null" for one in schema.get("anyOf", []))


def prompt_messages(row: dict[str, Any]) -> list[Message]:
    """Returns the messages of a task's prompt, as a chat server receives them."""
    params = row["responses_create_params"]
    given = params["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    start = [{"role": "system", "content": params["instructions"]}] if params.get("instructions") else []
    return start + [{"role": "system" if one["role"] == "developer" else one["role"], "content": one["content"]} for one in items]


def _text_of(messages: list[Any]) -> str:
    return "\n".join(str(one["content"]) for one in messages)


def texts_of(episodes: list[list[Any]]) -> list[str]:
    """Returns all texts of the random episodes, for a vocabulary."""
    texts = []
    for one in (one for said in episodes for one in said):
        texts += [one.content] + [name + arguments for name, arguments in one.calls] if isinstance(one, Answer) else [str(one["content"])]
    return texts


def imitate(
    model: Any, format: TinyFormat, episodes: list[list[Any]], steps: int, rate: float, batch: int, seed: int,
    device: Any, report: Callable[[int, float], None] = lambda step, loss: None,
) -> float:
    """Trains the model on the answers of the random episodes, with cross entropy. Returns the last loss."""
    import torch

    rows = []
    for said in episodes:
        tokens: list[int] = []
        mask: list[int] = []
        waiting: list[Message] = []
        for one in said:
            if not isinstance(one, Answer):
                waiting.append(one)
                continue
            before, answer = format.more(waiting), format.target(one)
            tokens += before + answer
            mask += [0] * len(before) + [1] * len(answer)
            waiting = []
        # Without an answer, a batch would have no loss.
        if any(mask[1 : model.context]):
            rows.append((tokens[: model.context], mask[: model.context]))
    if not rows:
        raise TrainingError(f"the prompts of these tasks fill the context of {model.context} tokens; choose a larger --context")
    longest = max(len(tokens) for tokens, _ in rows)
    padded = lambda lists, fill, dtype: torch.tensor([one + [fill] * (longest - len(one)) for one in lists], dtype=dtype).to(device)
    all_tokens, all_masks = padded([tokens for tokens, _ in rows], format.pad, torch.int), padded([mask for _, mask in rows], 0, torch.bool)
    rng, parts = random.Random(seed), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.01)
    loss_now = 0.0
    model.train()
    for step in range(steps):
        if not parts:
            # Batches texts of similar length, so that little is padding.
            drawn = sorted(rng.sample(range(len(rows)), min(len(rows), 8 * batch)), key=lambda at: len(rows[at][0]))
            while drawn:
                size = min(batch, max(1, TOKENS // len(rows[drawn[-1]][0])))
                parts.append(drawn[-size:])
                del drawn[-size:]
            rng.shuffle(parts)
        chosen = parts.pop()
        width = max(len(rows[at][0]) for at in chosen)
        tokens, mask = all_tokens[chosen, :width].long(), all_masks[chosen, 1:width].reshape(-1)
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 20) * max(0.1, 1 - step / steps)
        hidden = model(tokens[:, :-1])
        logits = model.logits(hidden.reshape(-1, hidden.shape[-1])[mask])
        loss = torch.nn.functional.cross_entropy(logits, tokens[:, 1:].reshape(-1)[mask])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0 or step == steps - 1:
            loss_now = loss.item()
            report(step, loss_now)
    return loss_now

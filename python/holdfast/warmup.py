"""Teaches a tiny model the format of an environment, but not its task: it imitates random valid play.

The play is random and is not filtered by reward, so no answer leaks. Arguments are drawn from the JSON Schema of a tool, or
copied from what the conversation has shown so far: a number, a quoted text, a value of the same name.
"""

from __future__ import annotations

import json
import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

from .client import Client
from .model import Answer, Message, TinyFormat

Turn = tuple[list[Message], Answer, list[Message]]


def play_randomly(client: Client, tasks: list[dict[str, Any]], episodes: int, seed: int, longest: int = 8) -> list[list[Any]]:
    """Plays random episodes on the server. Each is a list of messages and answers, in order."""
    tools = client.environment()["tools"]

    def play(number: int) -> list[Any]:
        luck = random.Random(seed * 1_000_003 + number)
        row = tasks[number % len(tasks)]
        fields = {name: value for name, value in row.items() if name != "responses_create_params" and not name.startswith("_")}
        session = client.open(fields, random=luck.randrange(1 << 30))
        said: list[Any] = [*prompt_messages(row)]
        seen = _Seen(luck, _text_of(said))
        for number_of_call in range(longest):
            # Short episodes are likelier than long ones.
            call = seen.call(tools) if number_of_call == 0 or luck.random() < 0.75 else None
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

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(play, range(episodes)))


class _Seen:
    """Values that the conversation has shown, by the name of their field, and calls that use them."""

    def __init__(self, luck: random.Random, prompt: str) -> None:
        self.luck = luck
        self.made: list[Any] = []
        self.values: dict[str, list[Any]] = {}
        self.numbers = [int(number) for number in re.findall(r"(?<![\w.])-?\d+(?![\w.])", prompt)]
        self.texts = re.findall(r'"([^"]+)"', prompt) or re.findall(r"[\w.@-]*\d[\w.@-]*|[\w.+-]+@[\w.-]+", prompt)

    def add(self, text: str) -> None:
        def walk(name: str, value: Any) -> None:
            if isinstance(value, dict):
                for key, one in value.items():
                    walk(key, one)
            elif isinstance(value, list):
                for one in value:
                    walk(name, one)
            elif isinstance(value, (str, int)) and not isinstance(value, bool):
                self.values.setdefault(name, []).append(value)

        try:
            walk("", json.loads(text))
        except ValueError:
            pass

    def call(self, tools: list[dict[str, Any]]) -> tuple[str, dict[str, Any]] | None:
        """Draws a tool whose arguments can be filled, and its arguments. A call that was made before is drawn again."""
        drawn = None
        for _ in range(4):
            for tool in self.luck.sample(tools, len(tools)):
                given = self._value("", tool["input"])
                if given is not None:
                    drawn = tool["name"], given
                    break
            if drawn not in self.made:
                break
        self.made.append(drawn)
        return drawn

    def _value(self, name: str, schema: dict[str, Any]) -> Any:
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.luck.choice(schema["enum"])
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self._value(name, self.luck.choice(schema[several]))
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self.luck.choice(kind)
        if kind == "object" or "properties" in schema:
            made = {}
            for key, one in schema.get("properties", {}).items():
                value = self._value(key, one)
                if value is None and not _may_be_null(one):
                    return None
                made[key] = value
            return made
        if kind == "array":
            return [self._value(name, schema.get("items", {})) for _ in range(self.luck.randint(1, 2))]
        if kind == "boolean":
            return self.luck.random() < 0.5
        if kind in ("integer", "number"):
            known = self.values.get(name, []) + self.numbers
            low, high = max(-9, schema.get("minimum", -9)), min(20, schema.get("maximum", 20))
            drawn = self.luck.choice(known) if known and self.luck.random() < 0.9 else self.luck.randint(int(low), int(max(low, high)))
            return drawn if isinstance(drawn, int) else None
        if kind == "null":
            return None
        known = [value for value in self.values.get(name, []) if isinstance(value, str)]
        if known:
            return self.luck.choice(known)
        # An id can only come from a result; other texts may come from the prompt.
        return None if name.endswith("_id") or name == "id" or not self.texts else self.luck.choice(self.texts)


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
    """Returns all texts of the play, for a vocabulary."""
    texts = []
    for one in (one for said in episodes for one in said):
        texts += [one.content] + [name + arguments for name, arguments in one.calls] if isinstance(one, Answer) else [str(one["content"])]
    return texts


def imitate(
    model: Any, format: TinyFormat, episodes: list[list[Any]], steps: int, rate: float, batch: int, seed: int,
    device: Any, report: Callable[[int, float], None] = lambda step, loss: None,
) -> float:
    """Trains the model on the answers of the play, with cross entropy. Returns the last loss."""
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
        rows.append((tokens[: model.context], mask[: model.context]))
    rows.sort(key=lambda row: len(row[0]))
    # Batches of similar length, in random order.
    batches = [rows[at : at + batch] for at in range(0, len(rows), batch)]
    luck = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.01)
    loss_now, begun = 0.0, time.perf_counter()
    model.train()
    for step in range(steps):
        chosen = luck.choice(batches)
        width = max(len(tokens) for tokens, _ in chosen)
        tokens = torch.tensor([t + [format.pad] * (width - len(t)) for t, _ in chosen]).to(device)
        mask = torch.tensor([m + [0] * (width - len(m)) for _, m in chosen]).to(device)[:, 1:].reshape(-1).bool()
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

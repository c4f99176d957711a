"""Samples from a model with continuous batching: requests join and leave between blocks of decode steps.

All requests share one KV cache of slots. On a GPU, a block of steps is one CUDA graph.
"""

from __future__ import annotations

import heapq
import threading
import time
from array import array
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Callable

import torch
from torch import Tensor

from .model import Place

# Number of decode steps between two reads of the sampled tokens.
BLOCK = 8


@dataclass
class Sample:
    """A request to the engine, and the sampled tokens. `done` is called in the engine's thread."""

    prompt: list[int]
    limit: int
    temperature: float
    done: Callable[["Sample"], None]
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finish: str = "length"
    error: str | None = None
    cancelled: bool = False
    # The weights that sampled the first token.
    version: int = 0


class Engine:
    """A thread that samples. A thread that holds `model_lock` may change the weights."""

    def __init__(self, model: Any, stops: list[int], slots: int = 512, prefill_tokens: int = 32768) -> None:
        self.model, self.stops = model, stops
        self.device = next(model.parameters()).device
        self.slots, self.prefill_tokens = slots, prefill_tokens
        self.cache = model.new_cache(slots + 1)
        self.waiting: deque[Sample] = deque()
        self.active: dict[int, Sample] = {}
        self.free = list(range(slots))
        self.changed = threading.Condition()
        self.model_lock = threading.Lock()
        self.stopping = False
        self.sampled, self.seconds, self.steps = 0, 0.0, 0
        # The number of the weights. It changes only while `model_lock` is held.
        self.version = 0
        make = lambda dtype, value: torch.full((slots + 1,), value, dtype=dtype, device=self.device)
        self.last, self.positions = make(torch.long, 0), make(torch.long, 0)
        self.alive, self.temperatures = make(torch.bool, False), make(torch.float, 1.0)
        self.stop_ids = torch.tensor(stops, device=self.device)
        self.out_tokens = torch.zeros(BLOCK, slots, dtype=torch.long, device=self.device)
        self.out_log_probs = torch.zeros(BLOCK, slots, device=self.device)
        self.graphs: dict[tuple[str, int, int], Any] = {}
        self.entries: dict[tuple[int, int], Entry] = {}
        self.pool: Any = None
        self.thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self.thread.start()

    def submit(self, sample: Sample) -> None:
        room = self.model.context - len(sample.prompt) - BLOCK
        if room < 1:
            # The conversation is full. An empty answer ends the episode, which is still scored.
            sample.version = self.version
            sample.done(sample)
            return
        sample.limit = max(1, min(sample.limit, room))
        with self.changed:
            self.waiting.append(sample)
            self.changed.notify()

    def close(self) -> None:
        with self.changed:
            self.stopping = True
            self.changed.notify()
        self.thread.join(timeout=30)

    def _run(self) -> None:
        while True:
            with self.changed:
                while not self.waiting and not self.active and not self.stopping:
                    self.changed.wait()
                if self.stopping:
                    return
                joining = []
                while self.waiting and self.free:
                    sample = self.waiting.popleft()
                    if not sample.cancelled:
                        joining.append((heapq.heappop(self.free), sample))
            begun = time.perf_counter()
            try:
                with self.model_lock, torch.no_grad():
                    if joining:
                        self._prefill(joining)
                    if self.active:
                        self._decode()
            except Exception as error:  # A failure of one batch must not end the server.
                self._fail(error, [sample for _, sample in joining])
            self.seconds += time.perf_counter() - begun

    def _prefill(self, joining: list[tuple[int, Sample]]) -> None:
        # Batches prompts of similar length, so that little is padding.
        joining.sort(key=lambda one: len(one[1].prompt))
        while joining:
            width = min(_bucket(len(joining[-1][1].prompt), 32), self.model.context)
            most = max(1, self.prefill_tokens // width)
            batch, joining = joining[-most:], joining[:-most]
            rows = min(_coarse_bucket(len(batch), 4), most)
            # Padding rows write to an extra slot that is never read.
            padding = [(self.slots, [0], 1.0)] * (rows - len(batch))
            filled = [(slot, sample.prompt, sample.temperature) for slot, sample in batch] + padding
            entry = self.entries.get((rows, width))
            if entry is None:
                entry = self.entries[rows, width] = Entry(rows, width, self.device)
            entry.fill(filled)
            self._replay(("prefill", rows, width), lambda: self._enter(entry))
            for (slot, sample), token, log_prob in zip(batch, entry.drawn.tolist(), entry.log_probs.tolist()):
                self.active[slot], sample.version = sample, self.version
                self._take(slot, sample, [token], [log_prob])

    def _enter(self, entry: "Entry") -> None:
        """Computes the prompts of a batch, and draws the first token of each answer."""
        # Padding writes to positions after the prompt. They are overwritten before they are read.
        place = Place(self.cache, entry.positions, entry.tokens.shape[1], entry.slots, fresh=True)
        hidden = self.model(entry.tokens, place)
        last = hidden.gather(1, entry.ends[:, None, None].expand(-1, 1, hidden.shape[-1]))[:, 0]
        drawn, log_probs = draw(self.model.logits(last), entry.temperatures)
        entry.drawn.copy_(drawn)
        entry.log_probs.copy_(log_probs)
        self.last[entry.slots], self.positions[entry.slots] = drawn, entry.ends + 1
        self.temperatures[entry.slots], self.alive[entry.slots] = entry.temperatures, ~self._stopped(drawn)

    def _decode(self) -> None:
        rows = min(_coarse_bucket(max(self.active) + 1, 32), self.slots)
        longest = max(len(s.prompt) + len(s.tokens) for s in self.active.values())
        until = min(_bucket(longest + BLOCK, 64), self.model.context)
        self._replay(("decode", rows, until), lambda: self._steps(rows, until))
        self.steps += BLOCK
        tokens = self.out_tokens[:, :rows].t().tolist()
        log_probs = self.out_log_probs[:, :rows].t().tolist()
        for slot, sample in list(self.active.items()):
            self._take(slot, sample, tokens[slot], log_probs[slot])

    def _steps(self, rows: int, until: int) -> None:
        last, positions, alive = self.last[:rows], self.positions[:rows], self.alive[:rows]
        for step in range(BLOCK):
            hidden = self.model(last[:, None], Place(self.cache, positions[:, None], until))
            drawn, log_probs = draw(self.model.logits(hidden[:, 0]), self.temperatures[:rows])
            self.out_tokens[step, :rows] = drawn
            self.out_log_probs[step, :rows] = log_probs
            # A row that has ended keeps its last token and position until its slot is used again.
            last.copy_(torch.where(alive, drawn, last))
            positions.add_(alive.long())
            alive.logical_and_(~self._stopped(drawn))

    def _stopped(self, tokens: Tensor) -> Tensor:
        return (tokens[:, None] == self.stop_ids).any(-1)

    def _replay(self, key: tuple[str, int, int], run: Callable[[], None]) -> None:
        """Runs a function with fixed shapes. On a GPU, records it once as a CUDA graph; each run is then one launch."""
        if self.device.type != "cuda" or not self.model.has_static_shapes:
            run()
            return
        if key not in self.graphs:
            saved = [one.clone() for one in (self.last, self.positions, self.alive)]
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                run()
            torch.cuda.current_stream().wait_stream(side)
            # Undoes the trial run's changes to the rows. Its writes to the cache are overwritten by the replay.
            for one, before in zip((self.last, self.positions, self.alive), saved):
                one.copy_(before)
            graph = torch.cuda.CUDAGraph()
            # All graphs share the memory of the first graph, because no two graphs run concurrently.
            with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
                run()
            self.pool, self.graphs[key] = graph.pool(), graph
        self.graphs[key].replay()

    def _take(self, slot: int, sample: Sample, tokens: list[int], log_probs: list[float]) -> None:
        """Adds the sampled tokens to a request, up to a stop token or the limit."""
        stop = min([tokens.index(one) + 1 for one in self.stops if one in tokens], default=len(tokens) + 1)
        end = min(stop, len(tokens), sample.limit - len(sample.tokens))
        sample.tokens += tokens[:end]
        sample.log_probs += log_probs[:end]
        if end == stop:
            sample.finish = "stop"
        elif len(sample.tokens) < sample.limit and not sample.cancelled:
            return
        else:
            self.alive[slot] = False
        self._leave(slot)
        self.sampled += len(sample.tokens)
        sample.done(sample)

    def _leave(self, slot: int) -> None:
        del self.active[slot]
        heapq.heappush(self.free, slot)

    def _fail(self, error: Exception, joining: list[Sample]) -> None:
        # A joining request with tokens is active, or was answered before the failure.
        failed = list(self.active.values()) + [sample for sample in joining if not sample.tokens]
        self.active.clear()
        self.free = list(range(self.slots))
        with suppress(RuntimeError):  # A lost device fails here, too. The requests still need a reply.
            # A row that stays alive without a request would advance beyond the context, and fail every later batch.
            self.alive.fill_(False)
            self.positions.fill_(0)
        for sample in failed:
            sample.error = f"sampling failed: {error}"
            sample.done(sample)


def draw(logits: Tensor, temperatures: Tensor) -> tuple[Tensor, Tensor]:
    """Draws a token per row, and returns the tokens and log-probabilities. Temperature 0 takes the likeliest token."""
    divisors = torch.where(temperatures > 0, temperatures, torch.ones_like(temperatures))[:, None]
    log_probs = (logits / divisors).log_softmax(-1)
    # The argmax of log p + Gumbel noise is a draw from p.
    noise = -torch.empty_like(log_probs).exponential_().clamp(min=1e-20).log()
    noisy = log_probs + noise * (temperatures > 0).float()[:, None]
    drawn = noisy.argmax(-1)
    return drawn, log_probs.gather(-1, drawn[:, None])[:, 0]


class Entry:
    """The inputs and outputs of a batch of prompts, at fixed memory addresses, as CUDA graphs need."""

    def __init__(self, rows: int, width: int, device: torch.device) -> None:
        make = lambda dtype, *shape: torch.zeros(*shape, dtype=dtype, device=device)
        self.tokens, self.ends, self.slots = make(torch.long, rows, width), make(torch.long, rows), make(torch.long, rows)
        self.temperatures, self.drawn, self.log_probs = make(torch.float, rows), make(torch.long, rows), make(torch.float, rows)
        self.positions = torch.arange(width, device=device)[None].repeat(rows, 1)

    def fill(self, rows: list[tuple[int, list[int], float]]) -> None:
        """Takes the slot, the prompt and the temperature of each row."""
        width = self.tokens.shape[1]
        # An array is read several times faster than lists of lists.
        padded = array("q")
        for _, prompt, _ in rows:
            padded.extend(prompt)
            padded.extend([0] * (width - len(prompt)))
        self.tokens.copy_(torch.frombuffer(padded, dtype=torch.long).view(len(rows), width))
        self.ends.copy_(torch.tensor([len(prompt) - 1 for _, prompt, _ in rows]))
        self.slots.copy_(torch.tensor([slot for slot, _, _ in rows]))
        self.temperatures.copy_(torch.tensor([temperature for _, _, temperature in rows]))


def _coarse_bucket(value: int, least: int) -> int:
    """Rounds up to `least` times a power of four."""
    return least if least >= value else _coarse_bucket(value, 4 * least)


def _bucket(value: int, least: int) -> int:
    """Rounds up to `least` * 2^n or `least` * 1.5 * 2^n: few sizes, with little waste."""
    size = least
    while size < value:
        if size * 3 // 2 >= value:
            return size * 3 // 2
        size *= 2
    return size

"""Policies: a tiny transformer that is trained from scratch, or any causal language model from a path.

Both have the same two parts. A model computes logits, with or without a KV cache of slots. A format turns messages into
token ids and sampled ids back into an answer.
"""

from __future__ import annotations

import json
import math
import os
import re
import uuid
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Message = dict[str, Any]

# torch 1.13 has no fused attention.
FUSED = getattr(torch.nn.functional, "scaled_dot_product_attention", None)


@dataclass
class Answer:
    """A model's answer: text, calls, or both. The arguments of a call are a JSON string."""

    content: str
    calls: list[tuple[str, str]]


class Cache:
    """The keys and values of all layers, in slots. Each row of a batch writes to its slot."""

    def __init__(self, layers: int, slots: int, heads: int, length: int, size: int, like: Tensor) -> None:
        make = lambda: like.new_zeros(slots, heads, length, size)
        self.keys, self.values = [make() for _ in range(layers)], [make() for _ in range(layers)]
        self.slots, self.length = slots, length


@dataclass
class Place:
    """A batch's place in the cache: the slot of each row, the positions of its tokens, and the attended length."""

    cache: Cache
    positions: Tensor
    until: int
    # None: row n uses slot n, and the cache is read without a copy.
    slots: Tensor | None = None
    # The rows begin at position 0, so that they attend only to tokens of the batch.
    fresh: bool = False

    def store(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Writes new keys and values (rows, heads, tokens, size), and returns the keys and values to attend to."""
        rows = keys.shape[0]
        slots = torch.arange(rows, device=keys.device) if self.slots is None else self.slots
        stored = []
        for all_slots, new in ((self.cache.keys[layer], keys), (self.cache.values[layer], values)):
            all_slots[slots[:, None], :, self.positions] = new.transpose(1, 2)
            if self.fresh:
                stored.append(new)
                continue
            seen = all_slots[:, :, : self.until]
            stored.append(seen[:rows] if self.slots is None else seen[self.slots])
        return stored[0], stored[1]

    def mask(self) -> Tensor | None:
        """Returns the attention mask (rows, 1, tokens, until), or None for a causal mask within the batch."""
        if self.fresh:
            return None
        at = torch.arange(self.until, device=self.positions.device)
        return (at[None, None, :] <= self.positions[:, :, None])[:, None]


# The tiny transformer


@dataclass
class TinyConfig:
    vocabulary: int
    width: int = 256
    layers: int = 4
    heads: int = 8
    context: int = 1024


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale


class Block(nn.Module):
    def __init__(self, config: TinyConfig, layer: int) -> None:
        super().__init__()
        self.layer, self.heads, self.size = layer, config.heads, config.width // config.heads
        self.norm_attention, self.norm_mlp = Norm(config.width), Norm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)
        self.up = nn.Linear(config.width, 4 * config.width, bias=False)
        self.down = nn.Linear(4 * config.width, config.width, bias=False)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor | None, place: Place | None) -> Tensor:
        rows, tokens, width = x.shape
        q, k, v = self.qkv(self.norm_attention(x)).view(rows, tokens, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, turn), rotate(k, turn)
        if place is not None:
            k, v = place.store(self.layer, k, v)
        x = x + self.out(attend(q, k, v, mask).transpose(1, 2).reshape(rows, tokens, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm_mlp(x))))


class TinyModel(nn.Module):
    """A decoder-only transformer: rotary positions, RMS norm, tied embeddings. It also runs on torch 1.13."""

    has_static_shapes = True

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList([Block(config, layer) for layer in range(config.layers)])
        self.norm = Norm(config.width)
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02 / (math.sqrt(2 * config.layers) if name.endswith(("out.weight", "down.weight")) else 1))
        # The embeddings are also the output layer. Small embeddings make all logits small, and copying slow to learn.
        nn.init.normal_(self.embed.weight, std=0.1)
        size = config.width // config.heads
        frequencies = 10000.0 ** (-torch.arange(0, size, 2).float() / size)
        self.register_buffer("frequencies", frequencies, persistent=False)

    @property
    def context(self) -> int:
        return self.config.context

    @property
    def vocabulary(self) -> int:
        return self.config.vocabulary

    def new_cache(self, slots: int) -> Cache:
        config = self.config
        return Cache(config.layers, slots, config.heads, config.context, config.width // config.heads, self.norm.scale.data)

    def forward(self, tokens: Tensor, place: Place | None = None) -> Tensor:
        """Returns the hidden states; `logits` makes logits of them. Without a place, positions count from 0."""
        if place is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
            mask = None
        else:
            positions, mask = place.positions, place.mask()
        angles = positions[:, :, None].float() * self.frequencies
        turn = angles.cos()[:, None], angles.sin()[:, None]
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, turn, mask, place)
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        return (hidden @ self.embed.weight.t()).float()


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attention with a mask; without a mask, causal attention."""
    if mask is None and FUSED is not None:
        return FUSED(q, k, v, is_causal=True)
    if mask is None:
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
    scores = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v


def rotate(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    cos, sin = turn
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


# The tokenizer and the format of the tiny transformer

# A number of up to four digits is one token, so that the model copies it in one step.
PIECES = re.compile(r'[A-Za-z_]+| [A-Za-z_]+|(?<!\d)-?\d{1,4}(?!\d)|\{"|"\}|":"|":|","|.', re.DOTALL)
SPECIAL = ["<pad>", "<user>", "<system>", "<tool>", "<assistant>", "<call>", "<end>"]


class TinyFormat:
    """A tokenizer of words, numbers and bytes, with special tokens for roles, calls, and the end of a message.

    An answer is text, or calls: `<call>NAME{"argument":1}`. It ends with `<end>`. The definitions of the tools are not part
    of the prompt: a tiny model learns them as it learns the format.
    """

    def __init__(self, words: list[str]) -> None:
        self.words = words
        names = SPECIAL + words
        self.ids = {name: at for at, name in enumerate(names)}
        self.bytes = len(names)
        self.size = self.bytes + 256
        self.pad, self.end, self.call = self.ids["<pad>"], self.ids["<end>"], self.ids["<call>"]
        self.stops = [self.end]

    @staticmethod
    def from_texts(texts: list[str], least: int = 2, most: int = 2000) -> "TinyFormat":
        """Creates a vocabulary of the pieces that occur at least twice in the texts."""
        counts: dict[str, int] = {}
        for text in texts:
            for piece in PIECES.findall(text):
                counts[piece] = counts.get(piece, 0) + 1
        often = sorted((piece for piece, count in counts.items() if count >= least), key=lambda piece: (-counts[piece], piece))
        return TinyFormat(sorted(often[:most]))

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in PIECES.findall(text):
            known = self.ids.get(piece) if piece not in SPECIAL else None
            if known is not None:
                ids.append(known)
            else:
                ids.extend(self.bytes + byte for byte in piece.encode())
        return ids

    def decode(self, ids: list[int]) -> str:
        parts: list[bytes] = []
        for id in ids:
            if id >= self.bytes:
                parts.append(bytes([id - self.bytes]))
            elif id >= len(SPECIAL):
                parts.append(self.words[id - len(SPECIAL)].encode())
        return b"".join(parts).decode("utf-8", "replace")

    def prompt(self, messages: list[Message], tools: list[Message]) -> list[int]:
        """Encodes a conversation, up to the place where the model answers."""
        return self.more(messages)

    def more(self, messages: list[Message]) -> list[int]:
        """Encodes messages after an answer of the model, up to the place where the model answers again."""
        ids: list[int] = []
        for message in messages:
            role = message["role"] if message["role"] in ("user", "system", "tool", "assistant") else "system"
            ids.append(self.ids[f"<{role}>"])
            ids.extend(self.encode(_text(message.get("content"))))
            for call in message.get("tool_calls") or []:
                ids.append(self.call)
                ids.extend(self.encode(call["function"]["name"] + call["function"]["arguments"]))
            ids.append(self.end)
        return ids + [self.ids["<assistant>"]]

    def answer(self, ids: list[int]) -> Answer:
        """Decodes the sampled tokens. Invalid calls are kept, because the environment's reply tells what is wrong."""
        ids = ids[:-1] if ids and ids[-1] == self.end else ids
        parts: list[list[int]] = [[]]
        for id in ids:
            if id == self.call:
                parts.append([])
            else:
                parts[-1].append(id)
        return Answer(self.decode(parts[0]), [_split_call(self.decode(part)) for part in parts[1:]])

    def target(self, answer: Answer) -> list[int]:
        """Encodes an answer as the model should sample it; for supervised training."""
        ids = self.encode(answer.content)
        for name, arguments in answer.calls:
            ids += [self.call] + self.encode(name + arguments)
        return ids + [self.end]

    def state(self) -> Any:
        return {"words": self.words}


def _split_call(text: str) -> tuple[str, str]:
    name, brace, rest = text.partition("{")
    return name.strip() or "none", brace + rest if brace else "{}"


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content or ""


# Any causal language model


class LanguageModel(nn.Module):
    """A causal language model of the library transformers, with the interface of TinyModel."""

    # These models may read tensor values in the middle of a pass, which a CUDA graph does not support.
    has_static_shapes = False

    def __init__(self, inner: nn.Module, context: int) -> None:
        super().__init__()
        self.inner, self.context = inner, context
        # The masks of `Place` work with both attention implementations, sdpa and eager.
        self.inner.config.use_cache = False

    @property
    def vocabulary(self) -> int:
        # The model may have more embeddings than the tokenizer has tokens, and sample their ids.
        return self.inner.get_input_embeddings().weight.shape[0]

    def new_cache(self, slots: int) -> Cache:
        config = self.inner.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        like = next(self.inner.parameters()).data
        return Cache(config.num_hidden_layers, slots, heads, self.context, size, like)

    def forward(self, tokens: Tensor, place: Place | None = None) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)[None].expand_as(tokens) if place is None else place.positions
        mask = None if place is None else place.mask()
        if mask is None:
            mask = (positions[:, None, :] <= positions[:, :, None])[:, None]
        return self._run(tokens, positions, mask, None if place is None else _SlotCache(place))

    def _run(self, tokens: Tensor, positions: Tensor, mask: Tensor, cache: Any) -> Tensor:
        dtype = next(self.inner.parameters()).dtype
        bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, torch.finfo(dtype).min)
        body = self.inner.get_decoder() if hasattr(self.inner, "get_decoder") else self.inner.model
        reply = body(input_ids=tokens, position_ids=positions, attention_mask=bias, past_key_values=cache, use_cache=cache is not None)
        return reply.last_hidden_state

    def logits(self, hidden: Tensor) -> Tensor:
        return self.inner.get_output_embeddings()(hidden).float()


def _SlotCache(place: Place) -> Any:
    """Returns a cache for transformers that stores keys and values in the slots of `Cache`."""
    from transformers.cache_utils import Cache as TransformersCache

    class SlotCache(TransformersCache):
        def __init__(self) -> None:
            # Not called: the constructor of the base class creates its own layers.
            self.layers, self.layer_class_to_replicate, self.offloading = [], None, False

        def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
            return place.store(layer_idx, key_states, value_states)

        def get_seq_length(self, layer_idx: int = 0, *_: Any) -> int:
            return 0

        def get_max_cache_shape(self, *_: Any) -> int:
            return place.until

        is_compileable = False

    return SlotCache()


class TemplateFormat:
    """The tokenizer and the chat template of a model. It reads calls as `<tool_call>{"name": …, "arguments": …}</tool_call>`."""

    def __init__(self, tokenizer: Any, stops: int | list[int] | None = None) -> None:
        self.tokenizer = tokenizer
        self.pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        # A model may end its answer with one of several tokens. The chat template writes the first one.
        more = stops if isinstance(stops, list) else [] if stops is None else [stops]
        self.stops = list(dict.fromkeys([tokenizer.eos_token_id, *more]))
        self.size = len(tokenizer)

    def prompt(self, messages: list[Message], tools: list[Message]) -> list[int]:
        text = self._render([_for_template(message) for message in messages], tools, True)
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def more(self, messages: list[Message]) -> list[int]:
        # Renders a short conversation that ends with an answer, with and without the messages. The difference is the text
        # that the template adds after an answer.
        calls = [call for message in messages if message["role"] == "tool" for call in [message.get("tool_call_id", "call")]]
        said: Message = {"role": "assistant", "content": "\u2603"}
        if calls:
            said["tool_calls"] = [{"id": call, "type": "function", "function": {"name": "f", "arguments": {}}} for call in calls]
        before = [{"role": "user", "content": "."}, said]
        start = self._render(before, [], False)
        whole = self._render(before + [_for_template(message) for message in messages], [], True)
        end = self.tokenizer.decode([self.stops[0]])
        # The stop token is part of the sampled answer, so it is not added again.
        cut = start.rindex(end) + len(end) if end in start else len(start)
        if not whole.startswith(start[:cut]):
            raise ValueError(
                "the model's chat template changes earlier messages when a message is added, so recorded token ids "
                "cannot be extended; use a template that only appends"
            )
        return self.tokenizer(whole[cut:], add_special_tokens=False)["input_ids"]

    def _render(self, messages: list[Message], tools: list[Message], generation: bool) -> str:
        return self.tokenizer.apply_chat_template(messages, tools=tools or None, add_generation_prompt=generation, tokenize=False)

    def answer(self, ids: list[int]) -> Answer:
        text = self.tokenizer.decode([id for id in ids if id not in self.stops], skip_special_tokens=False)
        calls = []
        for found in re.findall(r"<tool_call>\s*(.*?)\s*</tool_call>", text, re.DOTALL):
            try:
                call = json.loads(found)
                calls.append((str(call["name"]), json.dumps(call.get("arguments", {}))))
            except (ValueError, KeyError, TypeError):
                calls.append(("none", json.dumps({"text": found})))
        return Answer(re.sub(r"<tool_call>.*?(</tool_call>|$)", "", text, flags=re.DOTALL).strip(), calls)

    def state(self) -> Any:
        return {"tokenizer": self.tokenizer.name_or_path}


def _for_template(message: Message) -> Message:
    """Returns a message for the template, which expects the arguments of a call as an object."""
    calls = message.get("tool_calls")
    kept = {name: value for name, value in message.items() if name in ("role", "content", "name", "tool_call_id")}
    kept["content"] = _text(message.get("content"))
    if calls:
        kept["tool_calls"] = [
            {"id": call.get("id"), "type": "function", "function": {"name": call["function"]["name"], "arguments": _object(call["function"]["arguments"])}}
            for call in calls
        ]
    return kept


def _object(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return {"text": text}


def load_language_model(path: str, device: str, dtype: str = "float32", context: int = 2048) -> tuple[LanguageModel, TemplateFormat]:
    """Loads a causal language model and its tokenizer from a folder. Nothing is downloaded."""
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise SystemExit("--model needs transformers: pip install 'transformers>=5'") from error
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    inner = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype), attn_implementation="sdpa")
    stops = getattr(getattr(inner, "generation_config", None), "eos_token_id", None)
    return LanguageModel(inner.to(device), context).eval(), TemplateFormat(AutoTokenizer.from_pretrained(path), stops)


def new_call_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"

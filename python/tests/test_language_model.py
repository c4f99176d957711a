"""A causal language model of transformers: a small random one, made here, with a tokenizer and a chat template."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import types
import unittest
from unittest import mock

from .support import needs_torch

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
class LanguageModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        import torch
        from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers
        from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

        from holdfast.model import load_language_model

        inner = Tokenizer(models.BPE())
        inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        special = ["<|im_start|>", "<|im_end|>"]
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        inner.train_from_iterator(["user assistant tool counter"], trainers.BpeTrainer(special_tokens=special, initial_alphabet=alphabet))
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|im_end|>", chat_template=TEMPLATE)
        torch.manual_seed(1)
        config = Qwen2Config(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2
        )
        cls.held = tempfile.TemporaryDirectory()
        Qwen2ForCausalLM(config).save_pretrained(cls.held.name)
        tokenizer.save_pretrained(cls.held.name)
        cls.model, cls.format = load_language_model(cls.held.name, "cpu", context=256)
        cls.model.eval()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.held.cleanup()

    def test_log_probs_equal_those_of_one_forward_pass(self) -> None:
        from holdfast.engine import Engine
        from .test_policy import log_probs, sample_all

        engine = Engine(self.model, self.format.stops, slots=3)
        prompts = [self.format.prompt([{"role": "user", "content": "counter " * (1 + at % 4)}], []) for at in range(7)]
        for sample in sample_all(engine, prompts, limit=20):
            self.assertIsNone(sample.error)
            for recorded, computed in zip(sample.log_probs, log_probs(self.model, sample)):
                self.assertAlmostEqual(recorded, computed, places=4)
        engine.close()

    def test_messages_after_an_answer_extend_its_tokens(self) -> None:
        user = {"role": "user", "content": "Add 3."}
        call = {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"count":3}'}}
        said = {"role": "assistant", "content": None, "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": "a", "content": '{"success":true}'}
        start = self.format.prompt([user], [])
        # The model wrote its call in its own way, and ended with the stop token.
        sampled = self.format.tokenizer('<tool_call>{"name":  "add"}</tool_call>', add_special_tokens=False)["input_ids"] + self.format.stops
        text = self.format.tokenizer.decode(start + sampled + self.format.more([result]))
        self.assertEqual(
            text,
            "<|im_start|>user\nAdd 3.<|im_end|>\n<|im_start|>assistant\n"
            '<tool_call>{"name":  "add"}</tool_call><|im_end|>\n<|im_start|>tool\n{"success":true}<|im_end|>\n<|im_start|>assistant\n',
        )
        self.assertEqual(len(self.format.prompt([user, said, result], [])) > len(start), True)

    def test_calls_are_read(self) -> None:
        ids = self.format.tokenizer('Hm. <tool_call>{"name": "add", "arguments": {"count": 3}}</tool_call>', add_special_tokens=False)["input_ids"]
        answer = self.format.answer(ids + self.format.stops)
        self.assertEqual((answer.content, answer.calls), ("Hm.", [("add", '{"count": 3}')]))


class Tokenizer:
    eos_token_id, pad_token_id = 2, None

    def __len__(self) -> int:
        return 10


class Loaded:
    """A module of transformers that loads one model. It needs no package."""

    def __init__(self, stops: object) -> None:
        inner = types.SimpleNamespace(config=types.SimpleNamespace(), generation_config=types.SimpleNamespace(eos_token_id=stops))
        inner.to = lambda device: inner
        self.AutoModelForCausalLM = self.AutoTokenizer = self
        self.from_pretrained = lambda path, **settings: inner if settings else Tokenizer()


@needs_torch
class Stops(unittest.TestCase):
    def test_every_stop_token_of_the_model_ends_an_answer(self) -> None:
        from holdfast.model import load_language_model

        for stops, wanted in (([9, 2, 7], [2, 9, 7]), (7, [2, 7]), (None, [2])):
            with mock.patch.dict(sys.modules, {"transformers": Loaded(stops)}), mock.patch("holdfast.model.LanguageModel"):
                self.assertEqual(load_language_model("path", "cpu")[1].stops, wanted)


if __name__ == "__main__":
    unittest.main()

"""Reading config.json so that no field is ever silently ignored."""

import difflib
import math
from collections.abc import Collection, Mapping
from typing import Any

from specc.errors import UnsupportedError

# Fields that say nothing about the law of the next token: names, training-time settings, generation defaults.
INERT_FIELDS = frozenset(
    {
        "_attn_implementation_autoset", "_name_or_path", "architectures", "attention_dropout", "attn_implementation",
        "auto_map", "begin_suppress_tokens", "bos_token_id", "chunk_size_feed_forward", "decoder_start_token_id",
        "diversity_penalty", "do_sample", "dtype", "early_stopping", "encoder_no_repeat_ngram_size", "eos_token_id",
        "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id", "forced_eos_token_id",
        "id2label", "initializer_range", "is_decoder", "is_encoder_decoder", "is_llama_config", "label2id",
        "length_penalty", "max_length", "min_length", "model_type", "no_repeat_ngram_size", "num_beam_groups",
        "num_beams", "num_return_sequences", "output_attentions", "output_hidden_states", "output_scores",
        "pad_token_id", "prefix", "pretraining_tp", "problem_type", "remove_invalid_values", "repetition_penalty",
        "return_dict", "return_dict_in_generate", "sep_token_id", "suppress_tokens", "task_specific_params",
        "temperature", "tie_encoder_decoder", "tokenizer_class", "top_k", "top_p", "torch_dtype", "torchscript",
        "transformers.js_config", "transformers_version", "typical_p", "unk_token_id", "unsloth_fixed",
        "unsloth_version", "use_cache",
    }
)  # fmt: skip

_LARGEST = 2**31 - 1  # a size above this is a mistake, and would be refused only once memory is out


class ConfigReader:
    """Typed access to config.json that remembers what was read.

    Every accessor raises UnsupportedError naming the field when it is missing, of another type, or of a value that is
    not supported. `finish` refuses what nobody read. A null counts as absent, except to `optional`.

    source: named in errors. prefix: of an inner object's fields. ignore: fields, with prefix, the user vouches for.
    """

    def __init__(
        self, config: Mapping[str, Any], source: str, prefix: str = "", ignore: Collection[str] = frozenset()
    ) -> None:
        self._config = config
        self._source = source
        self._prefix = prefix
        self._ignore = ignore
        self._read: set[str] = set()

    def refuse(self, field: str, found: str, fix: str) -> UnsupportedError:
        """The error for `field`: where it stands, what was found, what to do."""
        return UnsupportedError(f"{self._source}: config.json field {self._prefix + field!r} {found}; {fix}")

    def wrong(self, field: str, expected: str) -> UnsupportedError:
        """The error for a field whose value is not as expected."""
        return self.refuse(field, f"is {_shown(self._config.get(field))}", f"expected {expected}")

    def has(self, field: str) -> bool:
        """Whether the field is there and not null. Counts as read."""
        self._read.add(field)
        return self._config.get(field) is not None

    def integer(self, field: str, default: int | None = None, *, minimum: int = 1, maximum: int = _LARGEST) -> int:
        value = self._get(field, default)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise self.wrong(field, f"a whole number from {minimum} to {maximum}")
        return value

    def optional(self, field: str, default: int) -> int | None:
        """A whole number, None where the field is null; `default` where it is absent."""
        self._read.add(field)
        return None if self._config.get(field, default) is None else self.integer(field, default)

    def number(self, field: str, default: float | None = None, *, above: float = 0.0) -> float:
        value = self._get(field, default)
        if not _is_number(value) or not above < value < math.inf:
            raise self.wrong(field, f"a number above {above:g}")
        return float(value)

    def flag(self, field: str, default: bool) -> bool:
        value = self._get(field, default)
        if not isinstance(value, bool):
            raise self.wrong(field, "true or false")
        return value

    def only(self, field: str, *supported: Any) -> Any:
        """The field's value, which must be one of `supported` (absent: the first of them)."""
        value = self._get(field, supported[0])
        if not any(_equal(value, known) for known in supported):
            raise self.wrong(field, " or ".join(map(repr, supported)) + "; specc builds no other form of it")
        return value

    def section(self, field: str) -> "ConfigReader":
        """A reader of the object in `field`; finish it too."""
        value = self._get(field, None)
        if not isinstance(value, Mapping):
            raise self.wrong(field, "an object")
        return ConfigReader(value, self._source, f"{self._prefix}{field}.", self._ignore)

    def raw(self, field: str) -> Any:
        """The field as it stands, None if absent. Counts as read."""
        self._read.add(field)
        return self._config.get(field)

    def finish(self, inert: Collection[str] = ()) -> None:
        """Refuse the first field that was neither read, nor known to be inert, nor vouched for."""
        for field in sorted(set(self._config) - self._read - set(inert)):
            name = self._prefix + field
            if name in self._ignore:
                continue
            near = difflib.get_close_matches(field, self._read | set(inert), n=1)
            hint = f" (nearest known: {near[0]!r})" if near else ""
            raise self.refuse(
                field,
                f"is {_shown(self._config[field])}, and specc does not know it{hint}",
                f"if it does not change the model's output, pass --ignore-config {repr(name)[1:-1]}",
            )

    def _get(self, field: str, default: Any) -> Any:
        self._read.add(field)
        value = self._config.get(field)
        if value is None:
            value = default
        if value is None:
            raise self.refuse(field, "is missing", "the checkpoint's config.json is incomplete")
        return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _equal(value: Any, known: Any) -> bool:
    """JSON equality: 1 is 1.0, but no number is a flag."""
    both_numbers = _is_number(value) and _is_number(known)
    return bool(value == known) and (both_numbers or type(value) is type(known))


def _shown(value: Any) -> str:
    """A value on one short line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

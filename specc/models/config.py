"""Reading config.json so that no field is ever silently ignored."""

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from specc.errors import UnsupportedError

# Fields that say nothing about the law of the next token: names, training-time settings, generation defaults.
INERT_FIELDS = frozenset(
    {
        "_attn_implementation_autoset", "_name_or_path", "architectures", "attention_dropout", "attn_implementation",
        "auto_map", "bos_token_id", "chunk_size_feed_forward", "decoder_start_token_id", "dtype", "eos_token_id",
        "finetuning_task", "id2label", "initializer_range", "is_decoder", "is_encoder_decoder", "is_llama_config",
        "label2id", "model_type", "output_attentions", "output_hidden_states", "pad_token_id", "prefix",
        "pretraining_tp", "problem_type", "return_dict", "sep_token_id", "task_specific_params", "tokenizer_class",
        "torch_dtype", "transformers.js_config", "transformers_version", "unsloth_fixed", "unsloth_version",
        "use_cache",
    }
)  # fmt: skip


class ConfigReader:
    """Typed access to config.json that remembers what was read.

    Every accessor raises UnsupportedError naming the field when it is missing, of another type, or of a value that is
    not supported. `finish` refuses what nobody read.
    """

    def __init__(self, config: Mapping[str, Any], source: str, prefix: str = "") -> None:
        self._config = config
        self._source = source
        self._prefix = prefix
        self._read: set[str] = set()

    def refuse(self, field: str, found: str, fix: str) -> UnsupportedError:
        """The error for `field`: where it stands, what was found, what to do."""
        return UnsupportedError(f"{self._source}: config.json field '{self._prefix}{field}' {found}; {fix}")

    def has(self, field: str) -> bool:
        """Whether the field is there and not null. Counts as read."""
        self._read.add(field)
        return self._config.get(field) is not None

    def integer(self, field: str, default: int | None = None, *, minimum: int = 1) -> int:
        value = self._get(field, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise self.refuse(field, f"is {value!r}", f"expected a whole number of at least {minimum}")
        return value

    def number(self, field: str, default: float | None = None) -> float:
        value = self._get(field, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0 or value == float("inf"):
            raise self.refuse(field, f"is {value!r}", "expected a positive number")
        return float(value)

    def flag(self, field: str, default: bool) -> bool:
        value = self._get(field, default)
        if not isinstance(value, bool):
            raise self.refuse(field, f"is {value!r}", "expected true or false")
        return value

    def only(self, field: str, *supported: Any, default: Any = None) -> Any:
        """The field's value, which must be one of `supported` (absent: `default`, or the first of them)."""
        fallback = supported[0] if default is None else default
        value = self._config.get(field, fallback)
        self._read.add(field)
        if not any(value == known and type(value) is type(known) for known in supported):
            known = " or ".join(repr(s) for s in supported)
            raise self.refuse(field, f"is {value!r}", f"only {known} is supported for this model_type")
        return value

    def section(self, field: str) -> "ConfigReader":
        """A reader of the object in `field`; finish it too."""
        value = self._get(field, None)
        if not isinstance(value, Mapping):
            raise self.refuse(field, f"is {value!r}", "expected an object")
        return ConfigReader(value, self._source, f"{self._prefix}{field}.")

    def raw(self, field: str) -> Any:
        """The field as it stands, None if absent. Counts as read."""
        self._read.add(field)
        return self._config.get(field)

    def finish(self, inert: Collection[str] = ()) -> None:
        """Refuse the first field that was neither read nor known to be inert."""
        for field in sorted(set(self._config) - self._read - set(inert)):
            near = difflib.get_close_matches(field, self._read | set(inert), n=1)
            hint = f" (nearest known: '{near[0]}')" if near else ""
            raise self.refuse(
                field,
                f"= {str(self._config[field])[:60]!r} is not known to specc{hint}",
                f"if it does not change the model's output, pass --ignore-config {field}",
            )

    def _get(self, field: str, default: Any) -> Any:
        self._read.add(field)
        value = self._config.get(field)
        if value is None:
            value = default
        if value is None:
            raise self.refuse(field, "is missing", "the checkpoint's config.json is incomplete")
        return value

"""A random Llama of a few thousand weights with a tokenizer and a chat template."""

from pathlib import Path

from tests.support.checkpoints import decoder_config, decoder_weights, tiny_tokenizer_json, write_hf_checkpoint

CHAT_TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant: {% endif %}"
)
VOCABULARY = 300


def write_tiny_verifier(path: Path, chat_template: str | None = CHAT_TEMPLATE, layers: int = 3) -> Path:
    """Write it; logits are spread enough for a drafter to have something to learn."""
    config = decoder_config(
        hidden_size=32, num_attention_heads=2, num_key_value_heads=1, intermediate_size=48, vocab_size=VOCABULARY,
        num_hidden_layers=layers, tie_word_embeddings=True,
    )  # fmt: skip
    scale = {"norm": 1.0, "embed_tokens": 0.5}
    weights = {
        name: array * next((factor for word, factor in scale.items() if word in name), 0.25)
        for name, array in decoder_weights(config).items()
    }
    weights["model.embed_tokens.weight"][VOCABULARY - 1] *= 3  # ends of turns come often
    tokenizer = tiny_tokenizer_json(VOCABULARY, ["<s>", "</s>"])
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    return write_hf_checkpoint(path, config, weights, tokenizer, tokenizer_config=special, chat_template=chat_template)

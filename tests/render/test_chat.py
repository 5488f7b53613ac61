import pytest

from specc.render import Message, chat_prompt
from specc_runtime.errors import TokenizerError

CHATML = """{% for message in messages %}
  {% if loop.first and message['role'] != 'system' %}
{{ '<|im_start|>system\nBe brief.<|im_end|>\n' -}}
  {% endif %}
{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\n' -}}
{% endif %}"""
HELLO: list[Message] = [{"role": "user", "content": "Hi {{ 1 }}"}]


def test_chatml_turns() -> None:
    assert chat_prompt(CHATML, HELLO, {}) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi {{ 1 }}<|im_end|>\n<|im_start|>assistant\n"
    )


def test_special_tokens_loop_controls_and_json_reach_the_template() -> None:
    template = "{{ bos_token }}{% for m in messages %}{{ m | tojson }}{% break %}{% endfor %}{{ eos_token }}"
    assert chat_prompt(template, HELLO, {"bos_token": "<s>"}) == '<s>{"role": "user", "content": "Hi {{ 1 }}"}'


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('no system turn') }}", "no system turn"),
        ("{% for %}", "can't be filled"),
        ("{{ messages[0].content + 1 }}", "TypeError"),
        ("{{ ''.__class__.__mro__ }}", "can't be filled"),
        ("{{ messages.append(1) }}", "can't be filled"),
        ("{{ range(10 ** 9) | list }}", "OverflowError"),
    ],
)
def test_broken_or_hostile_template_is_refused(template: str, reason: str) -> None:
    with pytest.raises(TokenizerError, match="chat template") as caught:
        chat_prompt(template, HELLO, {})
    assert reason in str(caught.value)

"""A user's process that generates once and says what it took, by the kernel's account and none of our code for it."""

import subprocess
import sys
from pathlib import Path

_CODE = """
import random, sys
from specc_runtime import Engine, SamplingParams

engine, length = Engine.load(sys.argv[1]), int(sys.argv[2])
draw = random.Random(1)
prompt = [draw.randrange(engine.manifest.tokenizer.token_count) for _ in range(length)]
engine.generate(prompt, SamplingParams(max_new_tokens=int(sys.argv[3]), ignore_eos=True)).finish().text
with open("/proc/self/status") as status:
    print(next(line for line in status if line.startswith("VmHWM:")).split()[1])
"""


def peak_of_generating(bundle: Path, prompt_tokens: int, new_tokens: int) -> int:
    """Bytes resident at most in a process that loads `bundle` and generates text with its defaults. Linux only."""
    command = [sys.executable, "-c", _CODE, str(bundle), str(prompt_tokens), str(new_tokens)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) * 1024

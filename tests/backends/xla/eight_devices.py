"""Run by `test_sharing_run.py` in a process of its own: a CPU that pretends to be eight devices runs a bundle.

Writes, as JSON, the tokens that follow a prompt, the same by executables that were written and loaded again, and for
every program that was called, what it sends between devices.
"""

import json
import os
import re
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

from specc_runtime import Engine, SamplingParams
from specc_runtime.engines.call import Arrays
from specc_runtime.engines.xla_call import ProgramCall
from specc_runtime.engines.xla_executable import load_executable

_SENT = re.compile(r" (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\(")


def main(bundle: Path, fused: bool, prompt: list[int], tokens: int) -> None:
    calls: dict[str, ProgramCall] = {}
    called = ProgramCall.__call__

    def noted(call: ProgramCall, inputs: Arrays) -> Arrays:
        calls[call.program.id] = call
        return called(call, inputs)

    ProgramCall.__call__ = noted  # type: ignore[method-assign]  # there is no fixture in a process of its own
    engine = Engine.load(bundle, fused=fused)
    params = SamplingParams(max_new_tokens=tokens, ignore_eos=True)
    made = engine.generate(prompt, params).finish()
    sent = {name: _SENT.findall(call._compiled.as_text()) for name, call in calls.items()}
    for call in calls.values():
        written = bundle / "again.executable"
        written.write_bytes(bytes(call._compiled.runtime_executable().serialize()))
        call.__dict__["_compiled"] = load_executable(written, call._devices, call.program)
    again = engine.generate(prompt, params).finish()
    sys.stdout.write(json.dumps({"ids": list(made.ids), "again": list(again.ids), "sent": sent}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "fused", json.loads(sys.argv[3]), int(sys.argv[4]))

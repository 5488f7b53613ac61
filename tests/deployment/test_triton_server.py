"""An emitted repository on a real Triton server: run where `tritonserver` is on the PATH.

TRITONSERVER_ARGUMENTS: further arguments, e.g. --backend-directory=DIR. The server's Python needs what the emitted
requirements.txt names.
"""

import json
import os
import shlex
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specc.deployment.emitting import emit
from specc.deployment.records import Asked
from specc_runtime import Engine, SamplingParams

START_S = 60

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tritonserver") is None, reason="no tritonserver on the PATH"),
]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def server(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that has loaded the tiny model."""
    folder = tmp_path_factory.mktemp("server")
    repository = emit("triton", bundle, folder / "triton", Asked(name="tiny")).output
    port, log = free_port(), folder / "log.txt"
    more = shlex.split(os.environ.get("TRITONSERVER_ARGUMENTS", ""))
    command = ["tritonserver", f"--model-repository={repository}", f"--http-port={port}", "--exit-timeout-secs=2"]
    closed = ["--allow-grpc=false", "--allow-metrics=false"]
    with log.open("w") as out, subprocess.Popen([*command, *closed, *more], stdout=out, stderr=out) as process:
        try:
            wait_until_ready(f"http://127.0.0.1:{port}", process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def wait_until_ready(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{address}/v2/health/ready", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"not ready after {START_S} s:\n{log.read_text()}")


def stream(address: str, **request: Any) -> list[dict[str, Any]]:
    """The events of one generate_stream."""
    body = json.dumps(request).encode()
    with urllib.request.urlopen(f"{address}/v2/models/tiny/generate_stream", body, timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_text_and_ids_stream_over_http(server: str, bundle: Path) -> None:
    engine = Engine.load(bundle)
    params = SamplingParams(max_new_tokens=16, temperature=0.8, seed=3)
    expected = engine.generate("hello", params).finish()
    options = {"max_new_tokens": 16, "temperature": 0.8, "seed": 3}
    for prompt in ({"text_input": "hello"}, {"input_ids": engine.codec.encode("hello")}):
        events = stream(server, **prompt, parameters=options)
        assert "".join(event["text_output"] for event in events) == expected.text
        given = [event["output_ids"] for event in events if "output_ids" in event]
        assert [token for ids in given for token in (ids if isinstance(ids, list) else [ids])] == expected.ids
        assert json.loads(events[-1]["summary"])["finish_reason"] == "length"


def test_what_can_not_be_served_is_a_bad_request(server: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refusal:
        stream(server, text_input="hello", parameters={"temprature": 1})
    assert refusal.value.code == 400
    assert "unknown parameter 'temprature'" in refusal.value.read().decode()

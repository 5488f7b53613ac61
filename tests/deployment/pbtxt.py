"""config.pbtxt through Triton's own protobuf: unknown fields and wrong types are errors."""

import importlib.util
from importlib.metadata import distribution
from pathlib import Path
from typing import Any


def parsed_config(path: Path) -> Any:
    """The ModelConfig that a config.pbtxt says. The module is loaded alone: its package would want grpc."""
    from google.protobuf import text_format

    file = distribution("tritonclient").locate_file("tritonclient/grpc/model_config_pb2.py")
    spec = importlib.util.spec_from_file_location("triton_model_config_pb2", str(file))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return text_format.Parse(path.read_text(encoding="utf-8"), module.ModelConfig())

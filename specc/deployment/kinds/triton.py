"""A model repository for NVIDIA's Triton Inference Server, with its Python backend on specc_runtime."""

import json
from collections.abc import Mapping
from dataclasses import fields

from specc.deployment.records import Kind, Subject

# https://docs.nvidia.com/deeplearning/triton-inference-server/release-notes/rel-26-09.html
IMAGE = "nvcr.io/nvidia/tritonserver:26.09-py3"


def _values(subject: Subject) -> Mapping[str, object]:
    """Triton leaves the choice of an accelerator to the model; its own image has NVIDIA's libraries only."""
    from specc_runtime.params import SamplingParams  # numpy, which the help does without

    settings = {
        "bundle": subject.bundle_path or "bundle",
        "threads": "" if subject.threads is None else str(subject.threads),
        "fused": "true" if subject.fused else "false",
    }
    return {
        "instance_kind": "KIND_CPU" if subject.on_cpu else "KIND_MODEL",
        "settings": {key: json.dumps(value, ensure_ascii=False) for key, value in settings.items()},
        "image": IMAGE if subject.container is not None and subject.container.on_triton else None,
        "options": [field.name for field in fields(SamplingParams) if field.name != "logits_processor"],
    }


KIND = Kind(
    summary="A Triton model repository, streaming over HTTP and gRPC.",
    details="DIR is the repository: DIR/NAME holds config.pbtxt and version 1 with model.py, the runtime and the "
    "bundle; beside it lies a Dockerfile for the server.",
    example="triton out/smollm2 -o out/triton --name smollm2",
    files={
        "{name}/config.pbtxt": "triton_config.pbtxt",
        "{name}/1/model.py": "triton_model.py",
        "Dockerfile": "triton.Dockerfile",
        "requirements.txt": "requirements.txt",
        "README.md": "triton_README.md",
    },
    values=_values,
    bundle="{name}/1/bundle",
    runtime="{name}/1/specc_runtime",
)

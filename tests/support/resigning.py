"""Changing a bundle so that only what it computes gives it away: its sizes and hashes are made right again."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

from specc_runtime.manifest import MANIFEST_NAME


def edit_manifest(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the document of manifest.json in place."""
    document = json.loads((bundle / MANIFEST_NAME).read_text(encoding="utf-8"))
    change(document)
    (bundle / MANIFEST_NAME).write_text(json.dumps(document), encoding="utf-8")


def resign(bundle: Path) -> None:
    """Make the manifest describe the files as they are."""

    def change(document: dict[str, Any]) -> None:
        for name, entry in document["files"].items():
            content = (bundle / name).read_bytes()
            entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

    edit_manifest(bundle, change)


def edit_graph(bundle: Path, name: str, change: Callable[[onnx.GraphProto], None]) -> None:
    """Change one .onnx file of a bundle, and sign it."""
    model = onnx.load(bundle / name, load_external_data=False)
    change(model.graph)
    onnx.save(model, bundle / name)
    resign(bundle)


def scaled_attribute(op_type: str, attribute: str, factor: float) -> Callable[[onnx.GraphProto], None]:
    """A change that multiplies a float attribute of every node of one op."""

    def change(graph: onnx.GraphProto) -> None:
        found = [a for node in graph.node if node.op_type == op_type for a in node.attribute if a.name == attribute]
        assert found, f"no {op_type} with {attribute}"
        for item in found:
            item.f *= factor

    return change

"""A GGUF checkpoint in another number format: all that llama.cpp and OpenVINO need to run it at ours."""

from pathlib import Path
from typing import Any

import gguf
from gguf import GGMLQuantizationType as Form
from gguf import GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType

from specc.checkpoint import open_checkpoint
from specc.errors import BenchError

_DERIVED = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")
_FILE_TYPES = {
    Form.Q8_0: LlamaFileType.MOSTLY_Q8_0,
    Form.F16: LlamaFileType.MOSTLY_F16,
    Form.F32: LlamaFileType.ALL_F32,
}


def gguf_source(model: str) -> Path:
    """The GGUF file behind checkpoint `model`. Raises BenchError if it is no GGUF."""
    checkpoint = open_checkpoint(model)
    path = Path(checkpoint.path)
    if path.suffix != ".gguf":
        raise BenchError(f"{model}: this engine reads GGUF; give --model a .gguf file of the same weights")
    return path


def write_gguf(source: Path, form: Form, output: Path) -> None:
    """Write the model in `source` with every matrix in `form`; vectors and metadata stay as they are."""
    reader = GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(output, architecture)
    writer.add_file_type(_FILE_TYPES[form])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for field in reader.fields.values():
        if not field.name.startswith(_DERIVED):
            inner = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        kept = form if len(tensor.shape) > 1 else Form.F32
        writer.add_tensor(tensor.name, _quantized(values, kept), raw_dtype=kept)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _quantized(values: Any, form: Form) -> Any:
    return values if form == Form.F32 else gguf.quants.quantize(values, form)

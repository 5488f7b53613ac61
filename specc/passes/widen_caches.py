"""Keep keys and values between steps in fp32."""

import onnx_ir as ir

from specc.core.state_names import PAST, PRESENT

_NARROW = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


def widen_caches(model: ir.Model) -> ir.Model:
    """State of 16 bits becomes f32: `past.0.key f16[...]` to `past.0.key f32[...]`, and `present.0.key` likewise.

    The rest of a core graph follows: it rounds what it writes to the dtype of the cache it is given.
    """
    for value in (*model.graph.inputs, *model.graph.outputs):
        if str(value.name).startswith((PAST, PRESENT)) and value.dtype in _NARROW:
            value.type = ir.TensorType(ir.DataType.FLOAT)  # copies of a graph share the old one
    return model

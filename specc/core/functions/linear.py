"""Linear layers: `y = x W^T`, the weight in the checkpoint's own `[out, in]` layout."""

from functools import cache

import numpy as np
import onnx_ir as ir

from specc.core.building import Body, function, reference, value

LINEAR = "linear"
LINEAR_Q8, LINEAR_W8A8 = "linear_q8", "linear_w8a8"
UNSIGNED_ZERO, SIGNED_ZERO = 128, 0  # zero points of u8 and of i8 codes
LARGEST_CODE = 127
SMALLEST_STEP = 2.0**-14  # of activations: the smallest normal number of fp16


@cache
def linear() -> ir.Function:
    """`linear(x[..., K], weight[N, K]) -> y[..., N]`. A weight stored in 16 bits is widened to x's dtype."""
    body = Body()
    x, weight = value("x"), value("weight")
    wide = body.op("CastLike", weight, x)
    y = body.op("MatMul", x, body.op("Transpose", wide, perm=[1, 0]))
    return function(LINEAR, [x, weight], {"y": y}, body)


@cache
def linear_q8() -> ir.Function:
    """`linear_q8(x[..., K], codes[N, K], scale[N, K / block_size]) {block_size, zero_point} -> y[..., N]`.

    weight = scale * (codes - zero_point), one scale for `block_size` consecutive inputs of one output. zero_point:
    UNSIGNED_ZERO of codes u8, SIGNED_ZERO of codes i8.
    """
    body = Body()
    x, codes, scale = value("x"), value("codes"), value("scale")
    zero = body.op("Expand", body.op("CastLike", body.constant_of("zero_point"), codes), body.op("Shape", scale))
    block = reference("block_size", "block_size", ir.AttributeType.INT)
    weight = body.op("DequantizeLinear", codes, scale, zero, axis=1, block_size=block)
    y = body.op("MatMul", x, body.op("Transpose", weight, perm=[1, 0]))
    attributes = [ir.Attr(name, ir.AttributeType.INT, None) for name in ("block_size", "zero_point")]
    return function(LINEAR_Q8, [x, codes, scale], {"y": y}, body, attributes)


@cache
def linear_w8a8() -> ir.Function:
    """`linear_w8a8(x[..., K], codes i8[N, K], scale[N, K / block_size]) {block_size, zero_point} -> y[..., N]`.

    `linear_q8` of x rounded to 255 steps, the same for all of x: its largest magnitude / 127. Rows depend on each other
    in their last bits, which a drafter may do and a verifier may not.
    """
    body = Body()
    x, codes, scale = value("x"), value("codes"), value("scale")
    most = body.op("CastLike", body.constant(LARGEST_CODE, np.float32), x)
    least = body.op("CastLike", body.constant(SMALLEST_STEP, np.float32), x)
    step = body.op("Max", body.op("Div", body.op("ReduceMax", body.op("Abs", x), keepdims=0), most), least)
    steps = body.op("QuantizeLinear", x, step, body.constant(SIGNED_ZERO, np.int8))
    zero = body.op("Expand", body.op("CastLike", body.constant_of("zero_point"), codes), body.op("Shape", scale))
    block = reference("block_size", "block_size", ir.AttributeType.INT)
    weight = body.op("DequantizeLinear", codes, scale, zero, axis=1, block_size=block)
    rounded = body.op("DequantizeLinear", steps, step)
    y = body.op("MatMul", rounded, body.op("Transpose", weight, perm=[1, 0]))
    attributes = [ir.Attr(name, ir.AttributeType.INT, None) for name in ("block_size", "zero_point")]
    return function(LINEAR_W8A8, [x, codes, scale], {"y": y}, body, attributes)

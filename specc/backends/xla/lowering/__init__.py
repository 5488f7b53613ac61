"""How each op of the core vocabulary, and some of its functions, become JAX: one file a kind of op.

`LOWERINGS` is the table. Shapes are static in XLA, so whatever an op says about shapes must be known while tracing: an
op whose inputs are all known is computed at once in numpy and stays known.
"""

from specc.backends.xla.lowering import (
    attention,
    constants,
    elementwise,
    functions,
    gathering,
    normalization,
    products,
    reductions,
    scattering,
    shaping,
)
from specc.backends.xla.lowering.table import LOWERINGS

__all__ = [
    "LOWERINGS",
    "attention",
    "constants",
    "elementwise",
    "functions",
    "gathering",
    "normalization",
    "products",
    "reductions",
    "scattering",
    "shaping",
]

import pytest

pytest.importorskip("jax", reason="the XLA backend needs the extra specc[xla]")

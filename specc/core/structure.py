"""A graph without its weights: what is kept, dumped and evaluated while the weights stay where they are."""

import onnx_ir as ir


def without_weights(model: ir.Model) -> ir.Model:
    """A copy whose initializers are inputs, after the graph's own, under the same names."""
    model = model.clone()
    for name, initializer in list(model.graph.initializers.items()):
        del model.graph.initializers[name]
        initializer.const_value = None
        model.graph.inputs.append(initializer)
    return model

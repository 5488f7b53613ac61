"""What a distillation reports: acceptance, the learning curve, and all that is needed to make the drafter again."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from specc.distill.learning_curve import learning_curve_svg
from specc.distill.measurements import Acceptance, CurvePoint
from specc.distill.working_folder import write_whole
from specc.render import render

GAMMAS = tuple(range(1, 9))

REPORT_JSON, REPORT_TEXT, PLOT = "report.json", "report.md", "learning_curve.svg"


@dataclass(frozen=True)
class DistillReport:
    """One finished distillation. facts: what report.json holds besides the measurements."""

    output: Path
    greedy: Acceptance
    sampled: Acceptance
    curve: tuple[CurvePoint, ...]
    facts: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """report.json's content."""
        return {
            **self.facts,
            "acceptance": {"T=0": _measured(self.greedy), "T=1": _measured(self.sampled)},
            "curve": [asdict(point) for point in self.curve],
        }

    def write(self) -> None:
        """Write report.json, report.md and the plot beside the weights."""
        document = self.as_json()
        text = render("drafter_report.md", gammas=GAMMAS, greedy=self.greedy, sampled=self.sampled, **document)
        write_whole(self.output / REPORT_JSON, (json.dumps(document, indent=2) + "\n").encode())
        write_whole(self.output / REPORT_TEXT, text.encode())
        write_whole(self.output / PLOT, learning_curve_svg(self.curve).encode())


def _measured(acceptance: Acceptance) -> dict[str, Any]:
    return {
        "rounds": acceptance.rounds,
        "first": round(acceptance.first, 4),
        "per_position": [round(value, 4) for value in acceptance.per_position],
        "tokens_per_round": {str(gamma): round(acceptance.tokens_per_round(gamma), 4) for gamma in GAMMAS},
    }

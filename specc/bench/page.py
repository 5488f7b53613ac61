"""The report as one HTML page that needs nothing else: its style and plots are in it."""

from specc.bench.plots import plots
from specc.bench.report import BenchReport
from specc.bench.tables import tables
from specc.render import byte_count, render


def page(report: BenchReport, verdict: tuple[str, ...]) -> str:
    """The page's text."""
    return render(
        "bench.html",
        bundle=report.bundle,
        verdict=verdict,
        plots=list(plots(report)),
        tables=list(tables(report)),
        facts=_facts(report),
    )


def _facts(report: BenchReport) -> list[tuple[str, str]]:
    """What ran, how, and on what; one row each."""
    settings, bundle = report.settings, report.bundle
    drafted = f"gamma {settings['gamma']}, drafter {settings['drafter']}"
    law = "greedy" if settings["temperature"] == 0 else f"temperature {settings['temperature']:g}"
    return [
        ("verifier", f"{bundle['verifier']}, precision {bundle['precision']}"),
        ("speculation", drafted),
        ("decoding", f"{law}, at most {settings['max_new_tokens']} tokens an answer"),
        ("prompts", f"{settings['questions']} questions, {'as a chat' if settings['chat'] else 'as bare text'}"),
        ("machine", f"{report.machine['processor']}, {settings['threads']} threads"),
        ("software", ", ".join([f"specc {settings['specc']}", *map(" ".join, bundle["toolchain"].items())])),
        ("peak memory", byte_count(report.peak_bytes)),
    ]

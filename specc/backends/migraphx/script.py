"""The script in a bundle that builds its programs on the device."""

from specc.render import render
from specc.targets import Target


def build_script(target: Target) -> str:
    """Python text with what `target` is and how its compiler is to be run."""
    return render(
        "build_migraphx.py",
        title=target.title,
        architecture=target.architecture,
        wavefront=target.wavefront,
        environment=[tuple(variable.split("=", 1)) for variable in target.environment],
        exhaustive_tune=target.exhaustive_tune,
    )

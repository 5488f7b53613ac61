"""How much memory a finished bundle takes to run, measured: what an engine adds to weights and caches is its secret."""

import subprocess
import sys
from pathlib import Path

from specc.errors import CompileError

COMMAND = "specc_runtime.resident_memory"
TIMEOUT_S = 600


def resident_bytes(root: Path) -> int:
    """Peak resident memory, in bytes, of a fresh process that runs the bundle in `root` with nothing but the runtime.

    Raises CompileError: that process could not be started, failed, or did not end in time.
    """
    command = [sys.executable, "-P", "-m", COMMAND, str(root)]  # -P: no module of the folder we happen to be in
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
        return int(done.stdout)
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[-1]
    except subprocess.TimeoutExpired:
        reason = f"no end after {TIMEOUT_S} s"
    except (OSError, ValueError) as error:
        reason = str(error)
    raise CompileError(f"memory to run the bundle was not measured ({reason}); try `python -m {COMMAND} BUNDLE`")

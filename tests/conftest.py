"""What every test process starts with."""

import os

from hypothesis import settings

os.environ["HF_HUB_OFFLINE"] = "1"  # no test may need a network
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # nor an accelerator, whatever compilers are installed

# No deadline: processes share cores, so an example's wall time says nothing.
settings.register_profile("specc", deadline=None, print_blob=True)
settings.load_profile("specc")

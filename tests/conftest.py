"""Settings of all tests."""

import os
import shutil
import signal

import pytest
from hypothesis import settings

# Threads of OpenMP that wait for each other must not spin: several tests run at once, and each
# has as many threads as there are processors. Read when torch is first imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# One thread of BLAS per process: as many tests run at once as there are processors. Tests of
# threads ask for theirs. Read when NumPy is first imported, which is after this.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Where tests are started in the background SIGINT is ignored, which the commands that they
# interrupt would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, so that a run says something of the change that it tests;
# pytest --hypothesis-profile=explore looks for new ones.
settings.register_profile("same", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("same")


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium; tests that need one are skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    binary = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if binary is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(
            executable_path=binary, args=["--no-sandbox", "--disable-gpu"]
        )
        yield launched
        launched.close()

"""Settings of all tests."""

import os
import signal

from hypothesis import settings

# Threads of OpenMP that wait for each other must not spin: several tests run at once, and each
# has as many threads as there are processors. Read when torch is first imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Where tests are started in the background SIGINT is ignored, which the commands that they
# interrupt would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, so that a run says something of the change that it tests;
# pytest --hypothesis-profile=explore looks for new ones.
settings.register_profile("same", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("same")

"""Settings of all tests."""

import signal

from hypothesis import settings

# Where tests are started in the background SIGINT is ignored, which the commands that they
# interrupt would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, so that a run says something of the change that it tests;
# pytest --hypothesis-profile=explore looks for new ones.
settings.register_profile("same", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("same")

"""Settings of all tests."""

from hypothesis import settings

# The same examples in every run, so that a run says something of the change that it tests;
# pytest --hypothesis-profile=explore looks for new ones.
settings.register_profile("same", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("same")

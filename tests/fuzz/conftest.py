"""The modules of the fuzzer import each other as a script does; only the test is collected."""

collect_ignore_glob = ["run.py", "worker.py", "check.py", "mutate.py", "targets.py", "forge_*.py"]

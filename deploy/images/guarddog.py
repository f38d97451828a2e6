#!/usr/bin/python3
# Starts GuardDog out of /opt/guarddog: a scanner's environment is HOME and PATH
# alone, so no PYTHONPATH could say where it is.
import sys

sys.path.insert(0, "/opt/guarddog")
sys.argv[0] = "guarddog"

from guarddog.cli import cli  # noqa: E402

sys.exit(cli())

"""Real kills at random instants: whatever hits a command, repeating it gives what an undisturbed one gives.

python -m tests.kills --n 1000                           commands of all kinds
python -m tests.kills --n 100 --command run --seed 7     one kind, other instants
python -m tests.kills --command run --only 4711          one trial again

A trial starts a command, sends it SIGKILL (mostly), SIGTERM or SIGINT at an instant drawn evenly from the time it takes, or
while a file is half written, and repeats it, `run` with --resume, perhaps to be hit again, until it ends by itself. Then

- every table, model, plan, page of figures, outcome and last checkpoint has the bytes of an undisturbed command; only wall and
  start times may differ, and pages, which show them, are whole;
- `fedloom verify` finds every record sound and finished, and no file of a write that was cut off is left;
- every exit code was right, no traceback was ever shown, and no process was left behind.

Commands run in children of a process that has imported everything and started no thread, so that a trial takes tenths of a
second; some are processes of their own, with the torch engine and two workers.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the small scenario that tests have in common

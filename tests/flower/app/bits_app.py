"""Several methods one after the other in one ServerApp, with our client app. Files go through the folder FEDLOOM_FOLDER:
cases.json says what to run, and a model is left for every case. With `stop` a case waits after its first cloud round until
somebody has done something to the nodes."""

import json
import os
import time
from pathlib import Path

import numpy as np
from flwr.serverapp import ServerApp

from fedloom.flower import client_app
from fedloom.simulator import Scenario

FOLDER = Path(os.environ["FEDLOOM_FOLDER"])
CASES = json.loads((FOLDER / "cases.json").read_text())

server = ServerApp()
client = client_app(Scenario.model_validate(CASES[0]["scenario"]), CASES[0]["method"])


@server.main()
def main(grid, context):
    from fedloom.flower import strategy
    from fedloom.flower.arrays import layout_of_arrays

    def stop(number, arrays):
        if number == 1 and case["stop"]:
            (FOLDER / "stopped").touch()
            while not (FOLDER / "go-on").exists():
                time.sleep(0.05)

    took_s = 0.0
    for case in CASES:
        began_s = time.monotonic()
        made = strategy(Scenario.model_validate(case["scenario"]), case["method"])
        result = made.start(grid, timeout=case["timeout_s"] or max(5.0, 2 * took_s), evaluate_fn=stop)
        took_s = time.monotonic() - began_s
        np.save(FOLDER / f"{case['method']}.npy", layout_of_arrays(result.arrays).row(result.arrays))
        last = result.evaluate_metrics_serverapp[max(result.evaluate_metrics_serverapp)]
    (FOLDER / "updates").write_text(str(last["updates"]))

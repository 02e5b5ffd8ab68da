"""A trainer that does one thing, in the standard library alone (it starts in 20 ms).

Run as `scripted_trainer.py BEHAVIOUR ORDER.json`.
"""

import json
import os
import signal
import subprocess
import sys
import time


def main(behaviour: str, order_path: str) -> None:
    folder = os.path.dirname(order_path)
    with open(order_path) as stream:
        order = json.load(stream)
    print(f"behaviour {behaviour}")
    if behaviour == "vanish":
        return
    if behaviour in ("hang", "stubborn"):
        if behaviour == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # A data loader's worker, say: in our session, and as deaf as we are.
        worker = subprocess.Popen(["/bin/sleep", "600"])
        print(f"worker {worker.pid}")
        while True:
            if behaviour == "hang":
                time.sleep(60)
    while behaviour == "wait" and not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.01)
    print("trained")
    failed = behaviour == "fail"
    answer = {"ok": True, "value": {"model_version": "1"}}
    result = (
        answer
        if behaviour == "promote"
        else {
            "trial_id": order["trial_id"],
            "attempt": order["attempt"],
            "outcome": "failed" if failed else "succeeded",
            "reason": "the candidate raised" if failed else "",
            "quality": None if failed else 0.75,
            "score": None if failed else 0.75,
            "cost_seconds": 0.01,
        }
    )
    if behaviour == "fault":
        result |= {"outcome": "interrupted", "quality": None, "score": None, "reason": "no such GPU"}
        result |= {"fault": True, "cost_seconds": 0.0}
    if behaviour == "interrupted":
        result |= {"outcome": "interrupted", "quality": None, "score": None, "reason": "asked to stop"}
    if behaviour == "wrong-attempt":
        result["attempt"] += 1
    aside = os.path.join(folder, "result.aside")
    with open(aside, "w") as stream:
        json.dump(result, stream)
    os.rename(aside, os.path.join(folder, "result.json"))


main(*sys.argv[1:])

"""A completions server of its own process, the synthetic LLM behind it, that can be made to die: PORT [REQUESTS].

It repeats the header Authorization in its texts, and refuses the model ``refused`` with all headers that it got.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

from prmcal import Prefix, Sampling
from prmcal.registry.plugins import llms, load_plugin_file
from prmcal.steps import split_steps

PARTING = "\nA: "


def main(port: int, most: int) -> None:
    load_plugin_file(Path(__file__).parents[2] / "plugins" / "synthetic.py")
    llm = llms.create("synthetic-llm", skill=0.7)
    answered, lock = [0], Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            with lock:
                answered[0] += 1
                if answered[0] > most > 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            question, _, begun = asked["prompt"].partition(PARTING)
            prefix = Prefix(question, split_steps(begun))
            ((given,),) = llm.generate([prefix], 1, Sampling(), asked["seed"])
            text = f"{self.headers.get('Authorization', '')}{given.text}"
            reply = {
                "choices": [{"index": 0, "text": text, "finish_reason": "stop"}],
                "usage": {"completion_tokens": given.tokens, "prompt_tokens": given.prompt_tokens},
            }
            refused = asked["model"] == "refused"
            body = json.dumps({"error": dict(self.headers)} if refused else reply).encode()
            self.send_response(400 if refused else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        request_queue_size = 128
        daemon_threads = True

    with Quiet(("127.0.0.1", port), Handler) as server:
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)

"""Programs of a model, run on tests in a process that is isolated from this machine."""

import atexit
import json
import sys
from pathlib import Path

from prmcal.errors import DataError
from prmcal.registry.grading.symbolic import GradingProcess, Verdict

SOLUTION = "{solution}"
"""What stands in the tests of a question for the program of a solution. Without it, the tests follow the program."""

_CANNOT = "cannot "
_VERDICTS: dict[str, Verdict] = {"passed": "correct", "failed": "incorrect", "over": "timed out"}


class ProgramRunner(GradingProcess):
    """Runs programs in ``sandbox.py``, one after another.

    `seconds` limits the processor time of a program, and `megabytes` its memory. It has no network, no files, and no
    processes besides its own.
    """

    program = Path(__file__).with_name("sandbox.py")

    def __init__(self, seconds: float = 5.0, megabytes: int = 1024) -> None:
        super().__init__(seconds, megabytes)

    def run(self, program: str) -> Verdict:
        """Run a program to its end, and say whether it raises nothing.

        Raises a DataError if it cannot be isolated on this machine. Nothing is run then.
        """
        reply = self.word(json.dumps(program), _VERDICTS)
        if reply in _VERDICTS:
            return _VERDICTS[reply]
        raise DataError(
            "Programs of a model are run only where they can be isolated, and here they cannot"
            f"{f' ({reply.removeprefix(_CANNOT)})' if reply else ''}. This needs Linux, and either root or user "
            "namespaces: `unshare --user --net --pid --fork true` must end without an error. Containers often forbid "
            "both: start them with --privileged or --cap-add SYS_ADMIN. To try it: "
            f"{sys.executable} -P {self.program} 5 1024"
        )


_RUNNER = ProgramRunner()
atexit.register(_RUNNER.close)


def run_tests(program: str, tests: str) -> Verdict:
    """Return "correct" if a program passes tests, which raise an error where it does not."""
    whole = tests.replace(SOLUTION, program) if SOLUTION in tests else f"{program}\n\n{tests}"
    return _RUNNER.run(whole + "\n")

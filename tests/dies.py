"""A process that dies before its n-th operation on files: every promise about kills is tried at every such place."""

import os
import sys
from collections.abc import Callable, Iterator

_OPERATIONS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
DIED = 9


def deaths(work: Callable[[], object], prepare: Callable[[], object], most: int = 400) -> Iterator[int]:
    """Yields after each death: `work` was begun in a process that died before its n-th operation, for each n.

    Args:
        work: what is done; it has ended well the last time, which is not yielded.
        prepare: is called before each.
        most: operations that it may take.
    """
    for number in range(most):
        prepare()
        child = os.fork()
        if child == 0:
            _die_before(number)
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - the parent is told by the exit status
                os.write(2, f"{error!r}\n".encode())
                os._exit(1)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            assert number > 0, "the work does nothing to files"
            return
        assert status == DIED
        yield number
    raise AssertionError(f"expected work of at most {most} operations")


def _die_before(number: int) -> None:
    seen = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event in _OPERATIONS:
            if seen == number:
                os._exit(DIED)
            seen += 1

    sys.addaudithook(hook)

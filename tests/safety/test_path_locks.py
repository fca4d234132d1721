from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from aar.safety.path_locks import PathLocks


def test_one_name_has_one_holder_and_leaves_nothing_behind() -> None:
    locks = PathLocks()
    inside: list[int] = []

    def work(number: int) -> None:
        with locks.held("/a"):
            inside.append(number)
            assert inside == [number]
            inside.remove(number)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(200)))
    assert len(locks) == 0


def test_other_names_need_not_wait() -> None:
    locks = PathLocks()
    with locks.held("/a"):
        other = threading.Thread(target=lambda: locks.held("/b").__enter__())
        other.start()
        other.join(10)
        assert not other.is_alive()

"""Several things done side by side by threads, which nobody waits for once one has failed or ctrl-c was pressed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any


@contextmanager
def at_once(number: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """A pool of at most `number` threads; the block ends when all is done.

    Where the block fails, which ctrl-c is too, what has not begun never begins, and nobody waits for what has: that of
    a guest ends with the guest, which whoever hears of the failure is about to end.
    """
    pool = ThreadPoolExecutor(number)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def over(futures: Sequence[Future[Any]]) -> bool:
    """Whether all have ended, or one of them has failed."""
    return all(one.done() for one in futures) or any(one.done() and one.exception() for one in futures)

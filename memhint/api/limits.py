"""How often one client may ask, and how much at once: a token bucket each, and a bound on how many are remembered."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

BODY_MOST = 64 * 1024  # bytes of a request's body
AT_ONCE_LEAST = 8  # requests of one client at once, however few [api] threads there are
CLIENTS_MOST = 10_000  # that are remembered; who has asked least lately is forgotten first


class Buckets:
    """``rate`` requests per second each, ``burst`` at once. A rate of 0 sets no limit."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float], most: int = CLIENTS_MOST) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what was left, and when

    def take(self, client: str) -> float:
        """0 where this request may go on; else the seconds until one may."""
        if not self._rate:
            return 0.0
        with self._lock:
            now = self._clock()
            left, then = self._clients.pop(client, (self._burst, now))
            left = min(self._burst, left + max(0.0, now - then) * self._rate)
            wait = max(0.0, (1.0 - left) / self._rate)
            self._clients[client] = (left if wait else left - 1.0, now)
            if len(self._clients) > self._most:
                self._clients.popitem(last=False)
            return wait

    def __len__(self) -> int:
        return len(self._clients)


class AtOnce:
    """How many requests of one client are worked at: the others find a thread and a processor, too."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._clients: Counter[str] = Counter()

    def begin(self, client: str) -> bool:
        """Whether one more may be; then it is to be ended."""
        with self._lock:
            if self._clients[client] >= self.most:
                return False
            self._clients[client] += 1
            return True

    def end(self, client: str) -> None:
        """One is done."""
        with self._lock:
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]


def client_of(address: str) -> str:
    """What counts as one client of those who have not shown who they are: an IPv6 network is one."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(found, IPv6Address):
        return f"{IPv6Address(int(found) >> 64 << 64)}/64"
    return str(found)

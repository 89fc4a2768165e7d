"""What a database says went wrong, as an error that says what to do next."""

from __future__ import annotations

from memhint.store.errors import StoreDamaged, StoreError, StoreFailed, StoreRefused


def trouble(name: str, what: str, *, refused: bool, told: bool = False) -> StoreError:
    """The error for what the driver said.

    :param name: of the database, as it may be shown
    :param refused: it does not take a value
    :param told: what it was told may be to blame, and not the state that it is in
    """
    if "malformed" in what or "not a database" in what:
        return StoreDamaged(
            f"{name}: {what}; see that [store] url names memhint's own file, then move that away and restart the agent "
            "(operator policies are lost with it)"
        )
    if refused:
        return StoreRefused(f"{name}: {what}")
    return (StoreFailed if told else StoreError)(f"{name}: {what}{_advice(what)}")


def _advice(what: str) -> str:
    if "locked" in what:
        return "; another process keeps it, look for one that hangs"
    if "is full" in what or "disk I/O" in what:
        return "; make room on that disk, or see what is wrong with it"
    if "readonly" in what or "unable to open" in what:
        return "; run as root or as the user of the agent"
    if "no such table" in what or ("relation" in what and "does not exist" in what) or "doesn't exist" in what:
        return "; restart the agent or the controller to make its tables"
    return "; see [store] url"

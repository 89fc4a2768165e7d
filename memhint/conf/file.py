"""One configuration file, held against the options that exist before oslo.config reads it.

oslo.config takes no notice of what is not registered, so that a typing mistake would silently mean the default, and its
own errors do not say which values an option takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from oslo_config import cfg, types
from oslo_log import _options as logging

from memhint.conf import aggregate
from memhint.conf.errors import ConfigError
from memhint.conf.libraries import libraries
from memhint.conf.opts import list_opts
from memhint.conf.policy import aggregate_group

_MOST = 10**12  # of any number: beyond it neither a store nor a clock has it
_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"


def check_file(name: str) -> tuple[str, ...]:
    """Every section, option and value of a file; the sections that say something.

    :raises ConfigError: on the first that is not accepted
    """
    sections = _sections(name)
    known = _known() | libraries(sections)
    for section, values in sections.items():
        if section not in known and section.startswith(aggregate_group("")):
            known[section] = known[aggregate.GROUP]
        if section not in known:
            raise ConfigError(name, f"[{section}]", f"is not a section: use {_closest(section, known)}")
        for option, texts in values.items():
            if option not in known[section]:
                raise ConfigError(name, f"[{section}] {option}", _instead(section, option, known))
            for text in texts:
                if not _takes(known[section][option], text):
                    accepted = _accepted(known[section][option])
                    shown = "this value" if known[section][option].secret else repr(text)
                    raise ConfigError(name, f"[{section}] {option}", f"{shown} is not accepted: use {accepted}")
    return tuple(section for section, values in sections.items() if values)


def _sections(name: str) -> Mapping[str, Mapping[str, list[str]]]:
    sections: dict[str, dict[str, list[str]]] = {}
    try:
        cfg.ConfigParser(name, sections).parse()
    except OSError as error:
        raise ConfigError(name, None, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(name, None, "is not UTF-8 text") from error
    except cfg.ParseError as error:
        if error.line.startswith(_MARK):
            raise ConfigError(name, None, "begins with a byte order mark: save it as UTF-8 without one") from error
        raise ConfigError(name, f"line {error.lineno}", f"{error.msg}: use [section] and option = value") from error
    return sections


def _known() -> dict[str, dict[str, cfg.Opt]]:
    known = {group: {option.dest: option for option in options} for group, options in list_opts()}
    for group, options in list_opts():
        for option in options:
            for old in option.deprecated_opts:  # where it was: oslo.config takes it there, and logs where it is now
                known.setdefault(old.group or group, {}).setdefault(old.name or option.dest, option)
    for _, options in logging.list_opts():
        for option in options:
            known["DEFAULT"][option.dest] = option
            for old in option.deprecated_opts:
                if old.name:
                    known["DEFAULT"][old.name.replace("-", "_")] = option
                    known["DEFAULT"][old.name] = option
    return known


def _instead(section: str, option: str, known: Mapping[str, Mapping[str, cfg.Opt]]) -> str:
    """What somebody may have meant who wrote an option that there is not."""
    others = sorted(other for other in known if option in known[other] and other != aggregate.GROUP)
    if others:
        return f"is not an option of this section: it is one of {', '.join(f'[{other}]' for other in others)}"
    return f"is not an option: use {_closest(option, known[section])}"


def _closest(word: str, known: Iterable[str]) -> str:
    names = sorted(known)
    import difflib  # only for a mistake

    return " or ".join(difflib.get_close_matches(word, names, n=2) or names)


def _takes(option: cfg.Opt, text: str) -> bool:
    if "$" in text:
        return True  # refers to another option: checked when it is read
    try:
        value = option.type(text)
    except ValueError:
        return False
    if isinstance(value, int | float):
        return math.isfinite(value) and abs(value) <= _MOST
    return value is not None


def _accepted(option: cfg.Opt) -> str:
    kind = option.type
    if isinstance(kind, types.Number):
        noun = "a whole number" if isinstance(kind, types.Integer) else "a number"
        return noun + _limits(kind.min, kind.max)
    if isinstance(kind, types.Boolean):
        return "true or false"
    choices = getattr(kind, "choices", None)
    if choices:
        return "one of " + ", ".join(str(choice) for choice in choices)
    pattern = getattr(getattr(kind, "item_type", kind), "regex", None)
    if pattern is not None:
        return f"a value of the form {pattern.pattern}. {option.help}"
    return str(kind)


def _limits(low: float | None, high: float | None) -> str:
    most = _MOST if high is None else high
    # as many digits as a bound has: one that is rounded up would not be accepted
    return f" not above {most:.9g}" if low is None else f" from {low:.9g} to {most:.9g}"

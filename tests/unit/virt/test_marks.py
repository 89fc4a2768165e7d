"""Marks in a domain's metadata: what is written is read, and what is wrong is said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.ownership import Mark
from memhint.virt.domain_xml import parse_domain
from memhint.virt.marks import DomainMarks

UUID = "d4b0ae51-3d1b-4d3a-9f0e-000000000001"
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=60)


def written(marks: list[Mark]) -> str | None:
    said: list[Any] = []
    domain = SimpleNamespace(setMetadata=lambda *words: said.append(words))
    connection = SimpleNamespace(lookupByUUIDString=lambda uuid: domain)
    caller: Any = SimpleNamespace(call=lambda what, function: function(connection))
    DomainMarks(caller).write(UUID, marks)
    ((_, element, prefix, uri, _),) = said
    # As libvirt keeps it: under the prefix and namespace that it was given.
    if element is None:
        return None
    return str(element).replace("<marks", f'<{prefix}:marks xmlns:{prefix}="{uri}"').replace(
        "</marks", f"</{prefix}:marks"
    ).replace("<mark ", f"<{prefix}:mark ")  # fmt: skip


def domain(metadata: str) -> str:
    memory = "<memory unit='KiB'>1048576</memory>"
    return f"<domain><uuid>{UUID}</uuid>{memory}<metadata>{metadata}</metadata></domain>"


@given(st.lists(st.builds(Mark, st.just(UUID), TEXT, TEXT, TEXT, TEXT, st.just(0.0)), max_size=16))
def test_what_is_written_is_read(marks: list[Mark]) -> None:
    element = written(marks)
    definition = parse_domain(domain(element or ""))
    assert definition.marks == tuple(marks)
    assert definition.faults == ()


def test_what_is_not_whole_is_no_mark_and_is_said() -> None:
    bad = '<m:mark knob="libvirt balloon target" before="1"/>'
    long = f'<m:mark knob="{"x" * 200}" before="1" after="2" instance="3"/>'
    good = '<m:mark knob="k" before="1" after="2" instance="3"/>'
    definition = parse_domain(domain(f'<m:marks xmlns:m="urn:memhint:marks:1">{bad}{long}{good}</m:marks>'))
    assert [mark.knob for mark in definition.marks] == ["k"]
    assert len(definition.faults) == 2


def test_no_more_are_read_than_a_vm_can_have() -> None:
    one = '<m:mark knob="k" before="1" after="2" instance="3"/>'
    definition = parse_domain(domain(f'<m:marks xmlns:m="urn:memhint:marks:1">{one * 1000}</m:marks>'))
    assert len(definition.marks) == 16

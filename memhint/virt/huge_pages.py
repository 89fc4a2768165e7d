"""Which part of a domain's memory its definition puts on the host's pools of explicit huge pages."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from xml.etree import ElementTree

from memhint.virt.xml_words import amount, nodeset

_EVERY = -1  # the place of a page size that is said of no node: it holds for those that nothing else is said of


def hugetlb_bytes(root: ElementTree.Element, memory: int) -> int | None:
    """Bytes of a domain's memory on explicit huge pages; None where it may have some and how much is unknown.

    ``<page>`` may name the nodes of the guest that it is for, and its size may be the kernel's ordinary one, which is
    no huge page at all. A memory device may say a size of its own.

    :param memory: the domain's whole memory, in bytes
    """
    sizes = _page_sizes(root.find("memoryBacking/hugepages"))
    parts: list[tuple[int | None, bool | None]] = []  # bytes, and whether they are on huge pages
    devices = 0
    for device in root.iterfind("devices/memory"):
        if device.get("model") not in ("dimm", "virtio-mem"):
            continue
        size = _size(device.find("target/size"))
        own = device.find("source/pagesize")
        huge = _on_huge(sizes, _node(device)) if own is None else _is_huge(_size(own))
        parts.append((size, huge))
        devices += size or 0
    cells = [(one.get("id") or str(place), one) for place, one in enumerate(root.iterfind("cpu/numa/cell"))]
    parts += [
        (
            amount(cell.get("memory", ""), cell.get("unit", "KiB")),
            _on_huge(sizes, int(name) if name.isdecimal() else 0),
        )
        for name, cell in cells
    ]
    if not cells:
        parts.append((memory - devices, _on_huge(sizes, 0)))
    if all(huge for _, huge in parts):
        return memory
    if any(huge is None or (huge and size is None) for size, huge in parts):
        return None
    return max(0, min(memory, sum(size or 0 for size, huge in parts if huge)))


def _page_sizes(hugepages: ElementTree.Element | None) -> Mapping[int, bool | None] | None:
    """By node of the guest, whether its pages are huge; None where nothing is said of huge pages."""
    if hugepages is None:
        return None
    found: dict[int, bool | None] = {}
    pages = hugepages.findall("page")
    for page in pages:
        huge = _is_huge(amount(page.get("size", ""), page.get("unit", "KiB")))
        for node in nodeset(page.get("nodeset") or "") or (_EVERY,):
            found[node] = huge
    return found if pages else {_EVERY: True}


def _on_huge(sizes: Mapping[int, bool | None] | None, node: int) -> bool | None:
    return False if sizes is None else sizes.get(node, sizes.get(_EVERY, False))


def _is_huge(size: int | None) -> bool | None:
    return None if size is None else size > mmap.PAGESIZE


def _size(element: ElementTree.Element | None) -> int | None:
    return None if element is None else amount((element.text or "").strip(), element.get("unit", "KiB"))


def _node(device: ElementTree.Element) -> int:
    text = (device.findtext("target/node") or "").strip()
    return int(text) if text.isdecimal() else 0

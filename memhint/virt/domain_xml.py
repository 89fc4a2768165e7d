"""What a domain's XML says about its memory."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree

from memhint.objects.domain import DomainFacts
from memhint.objects.ownership import Mark
from memhint.objects.policy import NOVA_KEYS, read_wishes
from memhint.virt.errors import DomainXMLError
from memhint.virt.huge_pages import hugetlb_bytes
from memhint.virt.marks import read_marks
from memhint.virt.metadata import NAMESPACE, PREFIX, read_policy
from memhint.virt.numa import numa_binding
from memhint.virt.xml_words import amount

NOVA_NAMESPACE = "http://openstack.org/xmlns/libvirt/nova/1.1"
NOVA = f"{{{NOVA_NAMESPACE}}}"
SPEC_PREFIX = "memhint:"
LIBOSINFO_NAMESPACE = "http://libosinfo.org/xmlns/libvirt/domain/1.0"
LIBOSINFO = f"{{{LIBOSINFO_NAMESPACE}}}"
_AGENT = "devices/channel/target[@name='org.qemu.guest_agent.0']"
_SCHEDULED = ("vcpusched", "iothreadsched", "emulatorsched")
# Prefixes are for people: a definition that is written back reads as it did.
for _prefix, _namespace in (
    (PREFIX, NAMESPACE),
    ("nova", NOVA_NAMESPACE),
    ("libosinfo", LIBOSINFO_NAMESPACE),
    ("qemu", "http://libvirt.org/schemas/domain/qemu/1.0"),
):
    ElementTree.register_namespace(_prefix, _namespace)


@dataclass(frozen=True, slots=True)
class Definition:
    """A domain's facts, and what in its metadata could not be used."""

    facts: DomainFacts
    faults: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    """What memhint has changed of it, as the running domain carries it."""


def parse_domain(xml: str, *, persistent: bool = True) -> Definition:
    """Read a domain's XML.

    :raises DomainXMLError: when it is no domain, or says nothing of its memory
    """
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError as error:
        raise DomainXMLError(f"not XML: {error}") from error
    if root.tag != "domain":
        raise DomainXMLError(f"a <{root.tag}>, where a <domain> was expected")
    metadata = root.find("metadata")
    policy, faults = read_policy(metadata)
    specs, spec_faults = _flavor_specs(metadata)
    balloon = root.find("devices/memballoon")
    has_balloon = balloon is not None and balloon.get("model") != "none"
    backing = root.find("memoryBacking")
    source = backing.find("source") if backing is not None else None
    access = backing.find("access") if backing is not None else None
    memory = _memory(root)
    numa = numa_binding(root, memory)
    huge = hugetlb_bytes(root, memory)
    facts = DomainFacts(
        memory=memory,
        persistent=persistent,
        project=_project(metadata),
        flavor_specs=specs,
        policy=policy,
        balloon=has_balloon,
        reporting_offered=has_balloon and balloon is not None and balloon.get("freePageReporting") == "on",
        deflate_on_oom=has_balloon and balloon is not None and balloon.get("autodeflate") == "on",
        stats_period=_stats_period(balloon) if has_balloon and balloon is not None else 0,
        hugepages=huge is None or huge > 0,
        hugetlb=huge or 0,
        locked=backing is not None and backing.find("locked") is not None,
        no_share_pages=backing is not None and backing.find("nosharepages") is not None,
        shared_memory=(source is not None and source.get("type") in ("memfd", "file"))
        or (access is not None and access.get("mode") == "shared")
        or root.find("cpu/numa/cell[@memAccess='shared']") is not None
        or root.find("devices/memory[@access='shared']") is not None,
        vfio=root.find("devices/hostdev[@type='pci']") is not None
        or root.find("devices/hostdev[@type='mdev']") is not None
        or root.find("devices/interface[@type='hostdev']") is not None
        or root.find("devices/interface[@type='vdpa']") is not None,
        confidential=root.find("launchSecurity") is not None,
        guest_agent=root.find(_AGENT) is not None,
        realtime=_realtime(root),
        file_backed=source is not None and source.get("type") == "file",
        numa_strict=numa.strict,
        numa_nodes=numa.nodes,
        numa_most=numa.most,
        os=_system(root, metadata),
    )
    marks, mark_faults = read_marks(metadata, (root.findtext("uuid") or "").strip())
    return Definition(facts, (*faults, *spec_faults, *mark_faults), marks)


def with_reporting(xml: str, value: str | None) -> str:
    """The domain's XML with ``freePageReporting`` set to "on" or "off", or removed for None.

    :raises DomainXMLError: when the domain has no virtio balloon
    """
    root = ElementTree.fromstring(xml)
    balloon = root.find("devices/memballoon")
    if balloon is None or not (balloon.get("model") or "").startswith("virtio"):
        raise DomainXMLError("the domain has no virtio memballoon to report through")
    if value is None:
        balloon.attrib.pop("freePageReporting", None)
    else:
        balloon.set("freePageReporting", value)
    return ElementTree.tostring(root, encoding="unicode")


def reporting_attribute(xml: str) -> str | None:
    """What the XML says of ``freePageReporting``; None where it does not say."""
    balloon = ElementTree.fromstring(xml).find("devices/memballoon")
    return balloon.get("freePageReporting") if balloon is not None else None


def agent_disconnected(xml: str) -> bool:
    """Whether the XML of a running domain says that nobody in the guest has the agent's channel open."""
    target = ElementTree.fromstring(xml).find(_AGENT)
    return target is not None and target.get("state") == "disconnected"


def _memory(root: ElementTree.Element) -> int:
    element = root.find("memory")
    text = (element.text or "").strip() if element is not None else ""
    unit = element.get("unit", "KiB") if element is not None else "KiB"
    found = amount(text, unit)
    if found is None:
        raise DomainXMLError(f"<memory unit={unit!r}>{text}</memory> is not an amount of memory")
    return found


def _realtime(root: ElementTree.Element) -> bool:
    tune = root.find("cputune")
    if tune is None:
        return False
    scheduled = (one.get("scheduler") for name in _SCHEDULED for one in tune.iterfind(name))
    return any(scheduler in ("fifo", "rr") for scheduler in scheduled)


def _system(root: ElementTree.Element, metadata: ElementTree.Element | None) -> str | None:
    """The guest's system, as the domain's definition names it."""
    named = metadata.find(f"{LIBOSINFO}libosinfo/{LIBOSINFO}os") if metadata is not None else None
    if named is not None:
        return named.get("id")
    return "windows" if root.find("features/hyperv") is not None else None


def _stats_period(balloon: ElementTree.Element) -> int:
    stats = balloon.find("stats")
    period = stats.get("period", "0") if stats is not None else "0"
    return int(period) if period.isdecimal() else 0


def _project(metadata: ElementTree.Element | None) -> str | None:
    owner = metadata.find(f"{NOVA}instance/{NOVA}owner/{NOVA}project") if metadata is not None else None
    return owner.get("uuid") if owner is not None else None


def _flavor_specs(metadata: ElementTree.Element | None) -> tuple[dict[str, str], list[str]]:
    """The flavor's extra specs of our namespace: Nova writes them into the domain since 32.0."""
    values: dict[str, str] = {}
    faults: list[str] = []
    if metadata is None:
        return values, faults
    for spec in metadata.iterfind(f"{NOVA}instance/{NOVA}flavor/{NOVA}extraSpecs/{NOVA}extraSpec"):
        name = spec.get("name", "")
        if not name.startswith(SPEC_PREFIX) or name.removeprefix(SPEC_PREFIX) in NOVA_KEYS:
            continue
        said, wrong = read_wishes([(name.removeprefix(SPEC_PREFIX), (spec.text or "").strip())])
        values.update(said)
        faults += [f"flavor extra spec {name}: {fault}" for fault in wrong]
    return values, faults

"""Reading a domain's XML, as libvirt 9.0 and Nova write it."""

from xml.etree import ElementTree

import pytest

from memhint.objects.policy import KEYS, PolicyError, PolicyKey
from memhint.objects.units import GIB, MIB
from memhint.virt.domain_xml import parse_domain, reporting_attribute, with_reporting
from memhint.virt.errors import DomainXMLError
from memhint.virt.metadata import TAG, read_policy

RECORDED = """
<domain type='qemu' id='1' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>instance-00000001</name>
  <uuid>6f1d3c2a-0000-4000-8000-000000000001</uuid>
  <metadata>
    <nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
      <nova:flavor name="m1.small">
        <nova:memory>1024</nova:memory>
        <nova:extraSpecs>
          <nova:extraSpec name="hw:mem_page_size">small</nova:extraSpec>
          <nova:extraSpec name="memhint:reporting">off</nova:extraSpec>
          <nova:extraSpec name="memhint:frp">on</nova:extraSpec>
          <nova:extraSpec name="memhint:max_ratio">1.25</nova:extraSpec>
          <nova:extraSpec name="memhint:huge_pages">deny</nova:extraSpec>
        </nova:extraSpecs>
      </nova:flavor>
      <nova:owner>
        <nova:user uuid="u1">admin</nova:user>
        <nova:project uuid="0b5e8d7a4c1f4f0f9d0e6a7b8c9d0e1f">demo</nova:project>
      </nova:owner>
    </nova:instance>
    <memhint:policy xmlns:memhint="urn:memhint:policy:1" dedup="on" guest_actions="maybe"/>
  </metadata>
  <memory unit='KiB'>1048576</memory>
  <currentMemory unit='KiB'>1048576</currentMemory>
  <devices>
    <channel type='unix'>
      <source mode='bind' path='/run/x'/>
      <target type='virtio' name='org.qemu.guest_agent.0' state='connected'/>
    </channel>
    <memballoon model='virtio' autodeflate='on' freePageReporting='on'>
      <stats period='10'/>
    </memballoon>
  </devices>
  <qemu:commandline><qemu:arg value='-nodefaults'/></qemu:commandline>
</domain>
"""


def domain(body: str) -> str:
    return f"<domain type='kvm'><memory unit='GiB'>2</memory>{body}</domain>"


def test_a_nova_instance() -> None:
    found = parse_domain(RECORDED)
    facts = found.facts
    assert facts.memory == 1 * GIB
    assert facts.project == "0b5e8d7a4c1f4f0f9d0e6a7b8c9d0e1f"
    assert facts.flavor_specs == {"reporting": "off"}
    assert facts.policy == {"dedup": "on", "guest_actions": "deny"}
    assert (facts.balloon, facts.reporting_offered, facts.stats_period, facts.guest_agent) == (True, True, 10, True)
    pinned = [facts.hugepages, facts.locked, facts.vfio, facts.confidential, facts.shared_memory]
    assert not any(pinned)


CELLS = (
    "<cpu><numa><cell id='0' cpus='0' memory='1536' unit='MiB'/><cell id='1' cpus='1' memory='524288'/></numa></cpu>"
)
DIMM = (
    "<devices><memory model='dimm'>{source}<target><size unit='KiB'>524288</size><node>{node}</node></target></memory>"
    "</devices>"
)


def pages(*said: str) -> str:
    return f"<memoryBacking><hugepages>{''.join(said)}</hugepages></memoryBacking>"


@pytest.mark.parametrize(
    ("body", "hugepages", "hugetlb"),
    [
        ("", False, 0),
        (pages(), True, 2 * GIB),
        (pages() + CELLS, True, 2 * GIB),
        (pages("<page size='2048' unit='KiB'/>"), True, 2 * GIB),
        (pages("<page size='1' unit='G' nodeset='0'/>"), True, 2 * GIB),
        (pages("<page size='2048' unit='KiB' nodeset='1'/>") + CELLS, True, GIB // 2),
        (pages("<page size='1' unit='GiB' nodeset='0'/>") + CELLS, True, 3 * GIB // 2),
        (pages("<page size='1' unit='GiB' nodeset='0-1'/>") + CELLS, True, 2 * GIB),
        (pages("<page size='2' unit='M'/>", "<page size='4' unit='KiB' nodeset='0'/>") + CELLS, True, GIB // 2),
        (pages("<page size='4' unit='KiB'/>"), False, 0),
        (pages("<page size='4096' unit='b'/>") + CELLS, False, 0),
        (pages("<page size='2' unit='furlong' nodeset='1'/>") + CELLS, True, 0),
        (pages() + DIMM.format(source="", node=0), True, 2 * GIB),
        (DIMM.format(source="<source><pagesize unit='KiB'>2048</pagesize></source>", node=0), True, GIB // 2),
        (
            pages() + DIMM.format(source="<source><pagesize unit='KiB'>4</pagesize></source>", node=0),
            True,
            3 * GIB // 2,
        ),
    ],
)
def test_only_what_is_on_pools_of_huge_pages_is_counted_as_there(body: str, hugepages: bool, hugetlb: int) -> None:
    facts = parse_domain(domain(body)).facts
    assert (facts.hugepages, facts.hugetlb) == (hugepages, hugetlb)


def test_a_misspelt_key_and_a_wrong_value_are_told_and_the_rest_holds() -> None:
    faults = parse_domain(RECORDED).faults
    assert len(faults) == 2
    assert any("guest_actions='maybe'" in fault for fault in faults)
    assert any("memhint:frp" in fault for fault in faults)


def with_wishes(key: str, value: str) -> str:
    """A domain that says so of one key in its flavor and in its own metadata."""
    specs = f"<nova:extraSpecs><nova:extraSpec name='memhint:{key}'>{value}</nova:extraSpec></nova:extraSpecs>"
    nova = "xmlns:nova='http://openstack.org/xmlns/libvirt/nova/1.1'"
    own = f"<m:policy xmlns:m='urn:memhint:policy:1' {key}='{value}'/>"
    return domain(f"<metadata><nova:instance {nova}><nova:flavor>{specs}</nova:flavor></nova:instance>{own}</metadata>")


@pytest.mark.parametrize("value", ["Deny", "Guaranteed", ""])
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_wrong_value_is_an_opt_out_where_there_is_one_and_else_not_said(key: PolicyKey, value: str) -> None:
    try:
        said = {key.name: key.check(value)}  # a name, such as a project's, may be spelt so
    except PolicyError:
        said = {} if key.opt_out is None else {key.name: key.opt_out}
    found = parse_domain(with_wishes(key.name, value))
    assert found.facts.flavor_specs == found.facts.policy == said
    wrong = key.opt_out is not None or not said
    assert len(found.faults) == 2 * wrong
    assert all(f"{key.name}={value!r}" in fault for fault in found.faults)
    assert all((f"counts as {key.opt_out}" in fault) == (key.opt_out is not None) for fault in found.faults)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ("<memoryBacking><hugepages/></memoryBacking>", "hugepages"),
        ("<memoryBacking><locked/></memoryBacking>", "locked"),
        ("<memoryBacking><nosharepages/></memoryBacking>", "no_share_pages"),
        ("<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>", "shared_memory"),
        ("<cpu><numa><cell id='0' memory='1' memAccess='shared'/></numa></cpu>", "shared_memory"),
        ("<devices><memory model='dimm' access='shared'/></devices>", "shared_memory"),
        ("<devices><hostdev mode='subsystem' type='pci'/></devices>", "vfio"),
        ("<devices><hostdev mode='subsystem' type='mdev'/></devices>", "vfio"),
        ("<launchSecurity type='sev'/>", "confidential"),
        ("<devices><interface type='vdpa'/></devices>", "vfio"),
        ("<memoryBacking><source type='file'/></memoryBacking>", "file_backed"),
        ("<cputune><vcpusched vcpus='0-1' scheduler='fifo' priority='1'/></cputune>", "realtime"),
        ("<cputune><emulatorsched scheduler='rr' priority='1'/></cputune>", "realtime"),
        ("<numatune><memory mode='strict' nodeset='0'/></numatune>", "numa_strict"),
        ("<numatune><memory nodeset='0'/></numatune>", "numa_strict"),
        ("<numatune><memory mode='restrictive' nodeset='0'/></numatune>", "numa_strict"),
        (
            "<numatune><memory mode='preferred'/><memnode cellid='0' mode='strict' nodeset='1'/></numatune>",
            "numa_strict",
        ),
    ],
)
def test_what_pins_or_shares_memory(body: str, field: str) -> None:
    assert getattr(parse_domain(domain(body)).facts, field) is True


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ("<memoryBacking><source type='memfd'/></memoryBacking>", "file_backed"),
        ("<cputune><vcpusched vcpus='0' scheduler='batch'/><shares>9</shares></cputune>", "realtime"),
        ("<numatune><memory mode='preferred' nodeset='0'/></numatune>", "numa_strict"),
    ],
)
def test_what_only_looks_like_it(body: str, field: str) -> None:
    assert getattr(parse_domain(domain(body)).facts, field) is False


@pytest.mark.parametrize(
    ("tune", "nodes"),
    [
        ("<memory mode='strict' nodeset='0-3,^2'/>", (0, 1, 3)),
        ("<memory mode='strict' nodeset='0'/><memnode cellid='0' mode='strict' nodeset='4'/>", (0, 4)),
        ("<memory mode='strict' placement='auto'/>", ()),
        ("<memory mode='strict' nodeset='a,-1,99999,1'/>", (1,)),
    ],
)
def test_the_nodes_that_memory_is_bound_to(tune: str, nodes: tuple[int, ...]) -> None:
    facts = parse_domain(domain(f"<numatune>{tune}</numatune>")).facts
    assert (facts.numa_strict, facts.numa_nodes) == (True, nodes)


@pytest.mark.parametrize(
    ("tune", "nodes", "most"),
    [
        ("<memory nodeset='0-1'/>", (0, 1), (2048, 2048)),
        ("<memory nodeset='0'/><memnode cellid='1' nodeset='2'/>", (0, 2), (1536, 512)),
        ("<memnode cellid='0' nodeset='1'/><memnode cellid='1' nodeset='1-2'/>", (1, 2), (2048, 512)),
        ("<memory nodeset='3'/><memnode cellid='0' mode='preferred' nodeset='1'/>", (3,), (512,)),
        ("<memory nodeset='0'/><memnode cellid='7' nodeset='2'/>", (0, 2), ()),
    ],
)
def test_how_much_may_come_to_lie_on_each_node(tune: str, nodes: tuple[int, ...], most: tuple[int, ...]) -> None:
    cells = "<cell id='0' memory='1536' unit='MiB'/><cell id='1' memory='524288'/>"
    body = f"<cpu><numa>{cells}</numa></cpu><numatune>{tune}</numatune>"
    facts = parse_domain(domain(body)).facts
    assert (facts.numa_nodes, tuple(one // MIB for one in facts.numa_most)) == (nodes, most)


DIMM = "<memory model='dimm'><target><size unit='MiB'>4096</size><node>0</node></target></memory>"
OWN = DIMM.replace("<target>", "<source><nodemask>1</nodemask></source><target>", 1)


@pytest.mark.parametrize(
    ("tune", "device", "nodes", "most"),
    [
        ("<memnode cellid='0' nodeset='1'/>", DIMM, (1,), (6144,)),
        ("<memory nodeset='0'/><memnode cellid='0' nodeset='1'/>", DIMM, (0, 1), (0, 6144)),
        ("<memory nodeset='0'/>", DIMM, (0,), (6144,)),
        ("<memory nodeset='0'/>", OWN, (0, 1), (2048, 4096)),
        ("", OWN, (1,), (4096,)),
        ("", DIMM, (), ()),
        ("<memory mode='preferred' nodeset='0'/>", OWN, (), ()),
        ("<memory nodeset='0'/>", OWN.replace("'dimm'", "'virtio-mem'"), (0, 1), (2048, 4096)),
        ("<memory nodeset='0'/>", OWN.replace("4096", "a lot"), (0, 1), ()),
    ],
)
def test_memory_that_is_plugged_in_is_bound_as_its_cell_is(
    tune: str, device: str, nodes: tuple[int, ...], most: tuple[int, ...]
) -> None:
    cell = "<cpu><numa><cell id='0' memory='2' unit='GiB'/></numa></cpu>"
    text = domain(f"{cell}<numatune>{tune}</numatune><devices>{device}</devices>")
    facts = parse_domain(text.replace("'GiB'>2<", "'GiB'>6<", 1)).facts
    assert (facts.numa_nodes, tuple(one // MIB for one in facts.numa_most)) == (nodes, most)
    assert facts.numa_strict is bool(nodes)


@pytest.mark.parametrize(
    ("body", "system"),
    [
        (
            "<metadata><l:libosinfo xmlns:l='http://libosinfo.org/xmlns/libvirt/domain/1.0'>"
            "<l:os id='http://microsoft.com/win/2k22'/></l:libosinfo></metadata>",
            "http://microsoft.com/win/2k22",
        ),
        ("<features><acpi/><hyperv mode='custom'/></features>", "windows"),
        ("<features><acpi/></features>", None),
    ],
)
def test_the_guests_system_where_somebody_said_it(body: str, system: str | None) -> None:
    assert parse_domain(domain(body)).facts.os == system


def test_a_domain_without_a_balloon_offers_no_reporting() -> None:
    facts = parse_domain(domain("<devices><memballoon model='none' freePageReporting='on'/></devices>")).facts
    assert (facts.balloon, facts.reporting_offered) == (False, False)


def test_a_usb_device_is_no_reason_to_pin() -> None:
    assert not parse_domain(domain("<devices><hostdev mode='subsystem' type='usb'/></devices>")).facts.vfio


@pytest.mark.parametrize(
    ("unit", "number", "size"), [("KiB", 1024, MIB), ("MiB", 3, 3 * MIB), ("b", 4096, 4096), ("GB", 1, 10**9)]
)
def test_units(unit: str, number: int, size: int) -> None:
    assert parse_domain(f"<domain><memory unit='{unit}'>{number}</memory></domain>").facts.memory == size


@pytest.mark.parametrize(
    "xml", ["", "<domain", "<network/>", "<domain/>", "<domain><memory unit='KiB'>lots</memory></domain>"]
)
def test_what_is_no_domain_is_refused(xml: str) -> None:
    with pytest.raises(DomainXMLError):
        parse_domain(xml)


@pytest.mark.parametrize(("value", "expected"), [("off", "off"), ("on", "on"), (None, None)])
def test_setting_the_attribute_changes_nothing_else(value: str | None, expected: str | None) -> None:
    changed = with_reporting(RECORDED, value)
    assert reporting_attribute(changed) == expected
    before, after = ElementTree.fromstring(RECORDED), ElementTree.fromstring(changed)
    for root in (before, after):
        root.find("devices/memballoon").attrib.pop("freePageReporting", None)
    assert ElementTree.canonicalize(ElementTree.tostring(before)) == ElementTree.canonicalize(
        ElementTree.tostring(after)
    )
    assert "qemu:commandline" in changed


def test_setting_it_on_a_domain_without_a_balloon_is_refused() -> None:
    with pytest.raises(DomainXMLError):
        with_reporting(domain("<devices><memballoon model='none'/></devices>"), "on")


def test_the_policy_element_reads_back() -> None:
    element = ElementTree.Element(TAG, {"reporting": "off", "guest_actions": "allow"})
    metadata = ElementTree.Element("metadata")
    metadata.append(element)
    assert read_policy(metadata) == ({"reporting": "off", "guest_actions": "allow"}, [])

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.guest import reporting_knob as knob
from memhint.guest.capabilities import Capabilities
from memhint.guest.errors import GuestAnswerMalformed, GuestCommandFailed, GuestCommandMissing, GuestError, GuestTimeout
from memhint.guest.protocol import GuestAgent
from memhint.objects.guest import GuestKernel

from .fake_agent import FakeAgent
from .strategies import raw_answers

ORDER = "/sys/module/page_reporting/parameters/page_reporting_order"
DEVICES = "/sys/bus/virtio/devices"
DRIVER = "/sys/bus/virtio/drivers/virtio_balloon"
CAPABILITIES = Capabilities("1", frozenset(), release="6.1.0", boot_id="x")


def sysfs(balloon: int | None = 3, devices: int = 5, order: str | None = "9\n", reporting: bool = True) -> FakeAgent:
    files = {f"{DEVICES}/virtio{number}/device": "0x0001\n" for number in range(devices)}
    if balloon is not None:
        files[f"{DEVICES}/virtio{balloon}/device"] = "0x0005\n"
        files[f"{DEVICES}/virtio{balloon}/features"] = "01000" + ("1" if reporting else "0") + "0" * 58 + "\n"
        files[f"{DRIVER}/virtio{balloon}/device"] = "0x0005\n"
        files |= {f"{DRIVER}/bind": "", f"{DRIVER}/unbind": ""}
    if order is not None:
        files[ORDER] = order
    return FakeAgent(files)


def test_a_guest_that_reports_is_recognised() -> None:
    guest = sysfs()
    assert knob.read_guest_kernel(GuestAgent(guest), 5.0, CAPABILITIES) == GuestKernel(
        at=5.0,
        release="6.1.0",
        boot_id="x",
        order=9,
        balloon_device="virtio3",
        balloon_bound=True,
        reporting_offered=True,
    )
    assert guest.handles == {}


def test_an_unbound_balloon_is_there_and_not_bound() -> None:
    guest = sysfs()
    del guest.files[f"{DRIVER}/virtio3/device"]
    kernel = knob.read_guest_kernel(GuestAgent(guest), 5.0, CAPABILITIES)
    assert (kernel.balloon_device, kernel.balloon_bound) == ("virtio3", False)


def test_a_feature_that_was_not_negotiated_is_not_offered() -> None:
    kernel = knob.read_guest_kernel(GuestAgent(sysfs(reporting=False)), 5.0, CAPABILITIES)
    assert kernel.reporting_offered is False


def test_a_guest_without_balloon_and_without_reporting_has_neither() -> None:
    kernel = knob.read_guest_kernel(GuestAgent(sysfs(balloon=None, order=None)), 5.0, CAPABILITIES)
    assert (kernel.order, kernel.balloon_device) == (None, None)
    assert (kernel.balloon_bound, kernel.reporting_offered) == (None, None)


@pytest.mark.parametrize(("text", "order"), [("9\n", 9), ("0", 0), ("4294967295\n", 4294967295), ("-1\n", -1)])
def test_the_order_is_read_as_the_file_has_it(text: str, order: int) -> None:
    assert knob.read_order(GuestAgent(sysfs(order=text))) == order
    assert (order in knob.UNSET_ORDERS) == (order not in (0, 9))


@pytest.mark.parametrize("text", ["", "nine", "-2", "4294967296", "9 9", "٩", "1" * 900])
def test_an_order_that_is_none_is_malformed(text: str) -> None:
    with pytest.raises(GuestAnswerMalformed, match="order"):
        knob.read_order(GuestAgent(sysfs(order=text)))


def test_the_search_ends_after_three_holes_in_a_row() -> None:
    guest = sysfs(balloon=9, devices=2)
    assert knob.find_balloon(GuestAgent(guest)) is None
    assert len(guest.paths()) == 5


def test_the_search_passes_a_small_hole_and_leading_ones() -> None:
    guest = FakeAgent({f"{DEVICES}/virtio6/device": "0x0001", f"{DEVICES}/virtio9/device": "0x0005"})
    assert knob.find_balloon(GuestAgent(guest)) == "virtio9"


def test_the_search_ends_at_32_devices() -> None:
    guest = sysfs(balloon=40, devices=40)
    assert knob.find_balloon(GuestAgent(guest)) is None
    assert len(guest.paths()) == 32


def test_a_right_hint_costs_one_file() -> None:
    guest = sysfs()
    assert knob.find_balloon(GuestAgent(guest), "virtio3") == "virtio3"
    assert guest.paths() == [f"{DEVICES}/virtio3/device"]


@pytest.mark.parametrize("hint", ["virtio1", "virtio17", "../../etc", "virtio1/../virtio3", "virtio3\n"])
def test_a_wrong_hint_is_survived_and_never_becomes_a_path(hint: str) -> None:
    guest = sysfs()
    assert knob.find_balloon(GuestAgent(guest), hint) == "virtio3"
    assert all(path.removeprefix(f"{DEVICES}/virtio").removesuffix("/device").isdigit() for path in guest.paths())


@pytest.mark.parametrize("features", ["", "01", "0x20", "2" * 64])
def test_features_that_are_no_bits_are_malformed(features: str) -> None:
    guest = sysfs()
    guest.files[f"{DEVICES}/virtio3/features"] = features
    with pytest.raises(GuestAnswerMalformed, match="feature"):
        knob.read_reporting_feature(GuestAgent(guest), "virtio3")


def test_the_order_is_written_and_a_refusal_is_the_kernels() -> None:
    guest = sysfs()
    knob.write_order(GuestAgent(guest), knob.STOP_ORDER)
    assert guest.files[ORDER] == "11"
    guest.refused_writes.add(ORDER)
    with pytest.raises(GuestCommandFailed, match="Invalid argument"):
        knob.write_order(GuestAgent(guest), 9)
    assert guest.files[ORDER] == "11"
    assert guest.crimes == []


@pytest.mark.parametrize("order", [-1, 17, 4294967295])
def test_an_order_that_no_kernel_should_be_given_is_not_sent(order: int) -> None:
    guest = sysfs()
    with pytest.raises(ValueError, match="order"):
        knob.write_order(GuestAgent(guest), order)
    assert guest.calls == []


def test_unbinding_and_binding_write_the_device_to_the_driver() -> None:
    guest = sysfs()
    knob.unbind(GuestAgent(guest), "virtio3")
    knob.bind(GuestAgent(guest), "virtio3")
    assert guest.files[f"{DRIVER}/unbind"] == "virtio3"
    assert guest.files[f"{DRIVER}/bind"] == "virtio3"


@pytest.mark.parametrize("device", ["", "virtio", "virtio1234", "virtio3\n", "../virtio3", "pci0", "virtio٣"])
@pytest.mark.parametrize("act", [knob.unbind, knob.bind, knob.is_bound, knob.read_reporting_feature])
def test_a_device_name_that_is_none_never_becomes_a_path(act: object, device: str) -> None:
    guest = sysfs()
    with pytest.raises(GuestAnswerMalformed, match="virtio device"):
        act(GuestAgent(guest), device)  # type: ignore[operator]
    assert guest.calls == []


def test_blocked_file_commands_are_missing_not_an_absent_balloon() -> None:
    guest = sysfs()
    guest.blocked.add("guest-file-open")
    with pytest.raises(GuestCommandMissing):
        knob.find_balloon(GuestAgent(guest))


def test_a_guest_that_hangs_is_a_timeout_not_an_absent_balloon() -> None:
    guest = sysfs()
    guest.hang_at.add("guest-file-open")
    with pytest.raises(GuestTimeout):
        knob.find_balloon(GuestAgent(guest))


@given(raw_answers | st.text(max_size=40))
def test_any_answers_give_a_record_or_a_guest_error(raw: object) -> None:
    try:
        knob.read_guest_kernel(GuestAgent(lambda request, timeout: raw), 1.0, CAPABILITIES)  # type: ignore[arg-type]
    except GuestError:
        return

"""`memhint vms`, `memhint vm show`, `memhint vm history`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from memhint.cli.fleet.base import FleetShow, Rows, host_name, there_is
from memhint.cli.fleet.columns import sizes, text, words
from memhint.cli.fleet.points import AT, PointList
from memhint.cli.fleet.records import gap_lines, lever_line, policy_value
from memhint.cli.fleet.watch import WatchedList
from memhint.cli.words import moment, size
from memhint.client.client import Changes, Client, Item, Listing
from memhint.client.find import find_uuid
from memhint.client.follow import Connected, HostsChanged, News
from memhint.objects.domain import DomainState
from memhint.objects.summary import DOMAIN_SORT_KEYS


class VmList(WatchedList):
    """List the VMs of the fleet: what each has, uses, and could give back."""

    examples = """\
examples:
  %(prog)s --sort unreported:desc --limit 10    who holds most free memory that its host could have back
  %(prog)s --host compute-7 --long
  %(prog)s --name web --state running
  %(prog)s --sort reclaimable:desc --limit 20 --watch
  %(prog)s -f json | jq 'map(.returned // 0) | add'

A dash is an unknown value, never 0.
"""
    member, key, sort_keys = "domains", "uuid", DOMAIN_SORT_KEYS
    columns = (
        *words("name", ("uuid", "UUID"), "host", "project"),
        *words("state", "class"),
        *sizes("assigned", "resident", "footprint", "demand"),
        *words(("demand_reason", "Why")),
        *sizes("free", "reported", "unreported", "shared", "swap", "returned", "reclaimable"),
        *words("source", ("agreement", "Claim")),
    )
    short = (
        "name",
        "host",
        "state",
        "class",
        "assigned",
        "resident",
        "demand",
        "free",
        "unreported",
        "returned",
        "reclaimable",
    )

    def add_filters(self, parser: argparse.ArgumentParser) -> None:
        """Which VMs."""
        parser.add_argument("--host", metavar="HOST", type=host_name, help="on this host")
        parser.add_argument("--project", metavar="ID", help="of this project")
        parser.add_argument("--name", metavar="TEXT", help="with this in the name")
        parser.add_argument("--state", choices=[str(one) for one in DomainState])

    def items(self, client: Client, parsed_args: argparse.Namespace) -> Iterator[Item]:
        """The list as it is now."""
        found = client.domains(
            sort=parsed_args.sort,
            limit=parsed_args.limit,
            host=parsed_args.host,
            project=parsed_args.project,
            name=parsed_args.name,
            state=parsed_args.state,
        )
        return iter(there_is(client, parsed_args.host, found))

    def everything(self, client: Client, parsed_args: argparse.Namespace) -> Listing:
        """All VMs; which of them are wanted is seen to here, as a VM may become one and cease to be."""
        return client.list_domains()

    def stream(self, client: Client, listing: Listing) -> Iterator[News]:
        """The stream tells when it is time to ask."""
        return client.follow()

    def changes(self, client: Client, parsed_args: argparse.Namespace, since: str, news: News) -> Changes | None:
        """VMs may have changed where hosts have, and while the stream was lost."""
        return client.changed_domains(since) if isinstance(news, (Connected, HostsChanged)) else None

    def wanted(self, parsed_args: argparse.Namespace, item: Item) -> bool:
        """As the server chooses."""
        if parsed_args.name and parsed_args.name.lower() not in str(item.get("name")).lower():
            return False
        asked = {name: getattr(parsed_args, name) for name in ("host", "project", "state")}
        return all(value is None or item.get(name) == value for name, value in asked.items())


class VmShow(FleetShow):
    """Show all that is known of a VM."""

    examples = """\
examples:
  %(prog)s web-1
  %(prog)s 6f1d3c2a-0000-4000-8000-000000000001 -f json | jq .reclaimable_by
"""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what this command takes."""
        add_vm(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Field names and values."""
        client = self.client()
        found = client.domain(find_uuid(client, parsed_args.vm, parsed_args.host))
        return self.one(parsed_args, found, _rows(found))


class VmHistory(PointList):
    """Show a VM's key numbers over time."""

    examples = """\
examples:
  %(prog)s web-1 --since 6h --step 10m
"""
    columns = (
        *AT,
        *sizes("assigned", "resident", "footprint", "demand", "free", "reported", "unreported", "shared", "swap"),
    )

    def add_subject(self, parser: argparse.ArgumentParser) -> None:
        """The VM."""
        add_vm(parser)

    def points(self, client: Client, parsed_args: argparse.Namespace, **when: float | int | None) -> Sequence[Item]:
        """Oldest first."""
        return client.domain_history(find_uuid(client, parsed_args.vm, parsed_args.host), **when)


def add_vm(parser: argparse.ArgumentParser) -> None:
    """The VM that a command is about."""
    parser.add_argument("vm", metavar="VM", help="name or UUID")
    parser.add_argument("--host", metavar="HOST", type=host_name, help="look for the name on this host only")


def _rows(one: Item) -> dict[str, str]:
    rows = {
        "Name": text(one.get("name")),
        "UUID": text(one.get("uuid")),
        "Host": f"{one.get('host')}, report of {moment(one.get('at'))} UTC",
        "Project": text(one.get("project")),
        "State": f"{one.get('state')}, class {one.get('class')}",
        "Assigned": f"{size(one.get('assigned'))}, at least {size(one.get('minimum'))} of it"
        if one.get("minimum")
        else size(one.get("assigned")),
        "Resident": size(one.get("resident")),
        "Footprint": size(one.get("footprint")),
        "Demand": f"{size(one.get('demand'))} ({text(one.get('demand_reason'))})",
        "Free": size(one.get("free")),
        "Reported": size(one.get("reported")),
        "Unreported": size(one.get("unreported")),
        "Said by": f"{text(one.get('source'))}, claim: {text(one.get('agreement'))}",
        "Guest kernel": text((one.get("guest_kernel") or {}).get("release")),
        "Shared": size(one.get("shared")),
        "Swap": size(one.get("swap")),
        "Returned": size(one.get("returned")),
    }
    for name, found in (one.get("reclaimable_by") or {}).items():
        most = found.get("at_most")
        rows[f"Reclaimable by {name}"] = (
            f"at most {size(most)} ({found.get('source')})" if most is not None else "unknown"
        )
    for lever in one.get("levers") or ():
        rows[f"Lever {lever.get('lever')}"] = lever_line(lever)
    for name, setting in (one.get("policy") or {}).items():
        rows[f"Policy {name}"] = policy_value(name, setting)
    excluded = [f"{each.get('reason')}: {each.get('detail')}" for each in one.get("excluded") or ()]
    rows["Excluded"] = "\n".join(excluded) or "no"
    rows["Gaps"] = gap_lines(one)
    return rows

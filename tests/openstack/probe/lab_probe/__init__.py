"""A scheduler filter that a test plugs into a stack: it refuses flavors that say so."""

from nova.scheduler.filters import BaseHostFilter


class Probe(BaseHostFilter):
    """Passes every host unless the flavor has lab_probe:refuse."""

    def host_passes(self, host_state, spec_obj):
        return "lab_probe:refuse" not in spec_obj.flavor.extra_specs

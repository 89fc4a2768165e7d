from __future__ import annotations

import io
import socket
from pathlib import Path

from oslo_config import cfg, generator

ETC = Path(__file__).parents[3] / "etc"


def test_the_committed_sample_is_what_the_options_generate_now() -> None:
    conf = cfg.ConfigOpts()
    generator.register_cli_opts(conf)
    conf(["--config-file", str(ETC / "memhint-config-generator.conf")])
    now = io.StringIO()
    generator.generate(conf, output_file=now)
    committed = (ETC / "memhint.conf.sample").read_text()
    assert committed == now.getvalue(), "run: oslo-config-generator --config-file etc/memhint-config-generator.conf"


def test_the_sample_does_not_name_the_machine_that_generated_it() -> None:
    assert f"host_name = {socket.gethostname()}\n" not in (ETC / "memhint.conf.sample").read_text()

from __future__ import annotations

from pathlib import Path

import pytest

from memhint.conf import ConfigError, load

KEYSTONE = "[keystone_authtoken]\nauth_type = password\nauth_url = http://127.0.0.1/\nusername = memhint\n"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "memhint.conf"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text", ["[oslo_policy]\npolicy_file = policy.yaml\n", KEYSTONE, KEYSTONE + "user_domain_name = Default\n"]
)
def test_sections_of_the_libraries_that_the_api_uses_are_taken(tmp_path: Path, text: str) -> None:
    load([write(tmp_path, text)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[oslo_policy]\npolicy_fil = policy.yaml\n", r"\[oslo_policy\] policy_fil: is not an option: use policy_file"),
        (KEYSTONE + "pasword = sesame\n", r"\[keystone_authtoken\] pasword: is not an option: use password"),
        ("[keystone_authtoken]\nauth_type = colour\n", r"\[keystone_authtoken\] auth_type: 'colour' is not accepted"),
    ],
)
def test_a_mistake_in_them_is_named_and_no_secret_is_repeated(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        load([write(tmp_path, text)])
    assert "sesame" not in str(caught.value)

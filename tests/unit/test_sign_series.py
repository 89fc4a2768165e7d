"""The copy of a patch series that is posted: who it is from, who signs it, and nothing else that differs."""

from __future__ import annotations

import email
import email.policy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.programs import ROOT, load

SERIES = sorted(path.parent for path in ROOT.glob("*/patches/*/series"))

tool = load(ROOT / "tools" / "sign_series")

ADA = "Ada Lovelace <ada@analytical.test>"
ZOE = "Zoë O'Brien <zoe@host.test>"


def signers(path: Path, **changes: object) -> Path:
    values = {"author": ADA, "signed_off_by": [ADA, ZOE], "trailers": ["Tested-by: Eve <eve@host.test>"], **changes}
    file = path / "signers.toml"
    # JSON's texts and lists are TOML's as well
    file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
    return file


PEOPLE = tool.Signers(ADA, (ADA, ZOE), ("Tested-by: Eve <eve@host.test>",))


def test_every_series_is_found() -> None:
    assert {path.parts[-3] for path in SERIES} == {"kernel", "qemu", "guest_agent"}


@pytest.mark.parametrize("folder", SERIES, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_the_page_knows_every_series_and_how_many_patches_it_has(folder: Path) -> None:
    count = len((folder / "series").read_text().split())
    rows = [row.split("|") for row in (ROOT / "doc" / "upstream.md").read_text().splitlines()]
    (row,) = (row for row in rows if len(row) > 3 and f"`{folder.relative_to(ROOT)}`" in row[1])
    assert row[3].strip() == str(count)


@pytest.mark.parametrize("folder", SERIES, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_a_signed_series_differs_in_its_people_and_numbers_only(folder: Path) -> None:
    names = (folder / "series").read_text().split()
    files = tool.signed(folder, PEOPLE, "PATCH", 2)
    assert list(files) == ["0000-cover-letter.patch", *names]
    for number, name in enumerate(names, 1):
        before, after = (folder / name).read_text(), files[name]
        assert "example.org" not in after
        assert before.partition("\n---\n")[2] == after.partition("\n---\n")[2]
        old, new = (email.message_from_string(one, policy=email.policy.default) for one in (before, after))
        assert new["From"] == ADA
        label, _, subject = new["Subject"].partition("] ")
        assert subject == old["Subject"].removeprefix("[PATCH] ")
        assert label.startswith("[PATCH v2 ")
        assert [int(part) for part in label.split()[-1].split("/")] == [number, len(names)]
        added = ["Tested-by: Eve <eve@host.test>", f"Signed-off-by: {ADA}", f"Signed-off-by: {ZOE}"]
        message, was = (one.partition("\n\n")[2].partition("\n---\n")[0].split("\n") for one in (after, before))
        assert message == [*was[:-1], *added]


def test_a_patch_can_be_applied_with_its_authors_name(tmp_path: Path) -> None:
    """git reads what was written, also where a header cannot hold a name as it is."""
    (tmp_path / "a").write_text("one\n")
    me = ("user.name=me", "user.email=me@host.test", "commit.gpgsign=false")
    git = ["git", "-C", str(tmp_path), *(word for setting in me for word in ("-c", setting))]
    for words in (["init", "-q"], ["add", "a"], ["commit", "-qm", "a"]):
        subprocess.run([*git, *words], check=True)
    patch = (
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
        f"From: {tool.PLACEHOLDER}\nDate: Mon, 23 Nov 2026 04:50:00 +0000\nSubject: [PATCH] a: say two\n\n"
        f"Why.\n\nSigned-off-by: {tool.PLACEHOLDER}\n---\n a | 2 +-\n\n"
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n"
    )
    mail = tmp_path / "mail"
    for author, email_of in ((ZOE, "zoe@host.test"), ("Knuth, Donald E. (TeX) <dek@host.test>", "dek@host.test")):
        mail.write_text(tool.sign(patch, tool.Signers(author, (author,)), "PATCH RFC"))
        subprocess.run([*git, "am", "-q", str(mail)], check=True)
        shown = subprocess.run([*git, "log", "-1", "--format=%an|%ae|%B"], check=True, capture_output=True, text=True)
        name, address, body = shown.stdout.split("|")
        assert (f"{name} <{address}>", address) == (author, email_of)
        assert body.split("\n") == ["a: say two", "", "Why.", "", f"Signed-off-by: {author}", "", ""]
        subprocess.run([*git, "reset", "-q", "--hard", "HEAD~1"], check=True)


def test_the_cover_letter_has_to_be_written_before_it_is_sent() -> None:
    cover = tool.signed(ROOT / "qemu/patches/10.0", PEOPLE)["0000-cover-letter.patch"]
    assert "[PATCH 00/19] *** SUBJECT HERE ***" in cover
    assert "*** BLURB HERE ***" in cover
    assert "  balloon: add query-balloon-reporting\n" in cover


@pytest.mark.parametrize(("name", "count"), [("counters", 6), ("enabled", 2), ("flush", 3)])
def test_a_letter_goes_with_the_patches_it_is_of(name: str, count: int) -> None:
    letter = tool.read_letter(ROOT / f"kernel/patches/7.3/cover.{name}")
    files = tool.signed(ROOT / "kernel/patches/7.3", PEOPLE, letter=letter)
    assert len(files) == 1 + count
    cover = files.pop("0000-cover-letter.patch")
    assert f"Subject: [PATCH 0/{count}] mm/page_reporting: " in cover
    assert "***" not in cover
    assert len(cover.split("  mm/page_reporting: ")) + len(cover.split("  selftests/mm: ")) == 2 + count


@pytest.mark.parametrize("text", ["", "Subject: a\n\nb\n", "Patches: 1-6\n\nb\n", "Patches: 1\nSubject: a\n\nb\n"])
def test_a_letter_that_does_not_say_of_what_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "cover").write_text(text)
    with pytest.raises(tool.SigningError, match="Patches: FIRST-LAST"):
        tool.read_letter(tmp_path / "cover")


@pytest.mark.parametrize(("first", "last"), [(1, 99), (6, 5)])
def test_a_letter_of_patches_that_are_not_there_is_refused(first: int, last: int) -> None:
    with pytest.raises(tool.SigningError, match="has no patches"):
        tool.signed(ROOT / "kernel/patches/7.3", PEOPLE, letter=tool.Letter("a", "b", first, last))


def test_the_placeholder_is_refused_and_is_what_the_project_ships() -> None:
    with pytest.raises(tool.SigningError, match="placeholder"):
        tool.read_signers(ROOT / "tools" / "signers.toml")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"author": "Ada"}, "NAME <ADDRESS>"),
        ({"signed_off_by": [ZOE]}, "same spelling"),
        ({"signed_off_by": []}, "same spelling"),
        ({"signed_off_by": ADA}, "not a list"),
        ({"trailers": ["no trailer"]}, "no trailer"),
        ({"trailers": [f"Signed-off-by: {ADA}"]}, "no trailer"),
        ({"trailers": [1]}, "not a list"),
        ({"signed_off_by": [ADA, "Bob <bob@lists.example.com>"]}, "placeholder"),
        ({"sender": ADA}, "needs"),
    ],
)
def test_a_file_that_names_nobody_properly_is_refused(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    with pytest.raises(tool.SigningError, match=words):
        tool.read_signers(signers(tmp_path, **changes))


def test_a_proper_file_is_read(tmp_path: Path) -> None:
    file = signers(tmp_path, signed_off_by=[ADA])
    assert tool.read_signers(file) == tool.Signers(ADA, (ADA,), ("Tested-by: Eve <eve@host.test>",))


def test_nothing_is_written_unless_every_patch_can_be_signed(tmp_path: Path) -> None:
    folder, out = tmp_path / "patches", tmp_path / "out"
    folder.mkdir()
    source = ROOT / "qemu/patches/10.0"
    names = (source / "series").read_text().split()
    for name in ("series", *names):
        (folder / name).write_text((source / name).read_text())
    (folder / names[-1]).write_text((source / names[-1]).read_text().replace("Signed-off-by", "Signed"))
    command = [
        sys.executable,
        ROOT / "tools" / "sign_series",
        folder,
        out,
        "--signers",
        signers(tmp_path, signed_off_by=[ADA]),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert names[-1] in done.stderr
    assert not out.exists()
    (folder / names[-1]).write_text((source / names[-1]).read_text())
    subprocess.run(command, capture_output=True, check=True)
    assert sorted(path.name for path in out.iterdir()) == ["0000-cover-letter.patch", *names]
    # a second run does not mix two copies
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1

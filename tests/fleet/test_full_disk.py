"""A real disk without room: a small file system that only one process and its children see."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.commands import cf
from tests.fleet.test_parts import bytes_of
from tests.fleet.test_processes import ENVIRONMENT
from tests.many_parts import Held
from tests.patient import PATIENCE

#: Mounts the small disk, begins a run there, fills the disk, waits for the end of the run, makes
#: room, and runs the same command again; tells what happened as JSON.
_DRIVER = """
import json, os, shutil, subprocess, sys, time
from pathlib import Path
from tests.fleet.test_parts import bytes_of

disk, config = Path(sys.argv[1]), sys.argv[2]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(disk)], check=True)
out = disk / "results"
words = [sys.executable, "-m", "cfopt", "explain", config, "--trust", "--out", str(out)]
words += ["--workers", "2"]
pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
client = subprocess.Popen(words, **pipes)
while client.poll() is None and len(bytes_of(out)) < 3:
    time.sleep(0.02)
filler = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
size = 2**20
while size:
    try:
        os.write(filler, bytes(size))
    except OSError:
        size //= 2
shutil.rmtree(Path(config).with_name("held"))
said, _ = client.communicate()
kept = bytes_of(out)
(disk / "filler").unlink()
os.close(filler)
again = subprocess.run(words, **pipes)
print(json.dumps([client.returncode, said, kept, again.returncode, again.stdout, bytes_of(out)]))
"""


def _can_mount(folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    mount = ["mount", "-t", "tmpfs", "none", str(folder)]
    return not subprocess.run(["unshare", "-rm", *mount], capture_output=True).returncode


@pytest.mark.long
def test_a_full_disk_ends_the_run_which_resumes_once_there_is_room(example: Path) -> None:
    disk = example.parent / "disk"
    disk.mkdir()
    if not _can_mount(disk):
        pytest.skip("file systems cannot be mounted here")
    Held(example, 6)
    words = ["unshare", "-rm", sys.executable, "-c", _DRIVER, str(disk), str(example)]
    root = Path(__file__).parents[2]
    told = subprocess.run(
        words, capture_output=True, text=True, timeout=PATIENCE, cwd=root, env=ENVIRONMENT
    )
    assert told.returncode == 0, told.stderr
    code, said, kept, again, resumed, found = json.loads(told.stdout)
    assert code == 2, said
    assert "Traceback" not in said
    assert "rows are done and kept" in said
    assert 3 <= len(kept) < 30
    assert again == 0, resumed
    assert "rows are already done" in resumed
    undisturbed = example.parent / "undisturbed"
    done = cf("explain", example, "--trust", "--workers", "1", "--out", undisturbed)
    assert done.exit_code == 0, done.output
    assert found == bytes_of(undisturbed)
    assert {name: found[name] for name in kept} == kept

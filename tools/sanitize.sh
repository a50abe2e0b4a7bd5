#!/usr/bin/env bash
# Differential and fuzz tests of the modules in C, which are built with gcc's sanitizers for addresses and undefined
# behaviour, in a copy of the product. The first error of a sanitizer ends the tests. Called by `make sanitize`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
copy=build/sanitize
python=$PWD/.venv/bin/python
messages=${MESSAGES:-20000}

rm -rf "$copy"
mkdir -p "$copy"
cp -r rstreams tests adapters hatch_build.py pyproject.toml pytest_rstreams.py "$copy"
cd "$copy"
CFLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all" "$python" hatch_build.py

LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
# The interpreter and the engine keep some memory to the end; PYTHONMALLOC shows each object of Python to the sanitizer.
export LD_PRELOAD ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH=$PWD
run=("$python" -m pytest -q -x -n 2 -p no:cacheprovider)
"${run[@]}" -m "not slow" tests/net/engine/test_{arriving_bodies,loops,loops_in_c,messages_arriving,messages_beside,parts_beside}.py \
    tests/message/test_{codec_in_c,codec_and_user_code,forwarding}.py tests/protocol/test_data_sections.py
"${run[@]}" -k "changed_bytes or written_in_any_way" tests/net/engine/test_messages_arriving.py
"$python" -m tests.message.fuzz_codec --messages "$messages"

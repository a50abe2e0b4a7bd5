#!/usr/bin/env bash
# Installs the release in dist/ on Debians that have python3 and python3-venv, no compiler and no package index, and runs
# the README's first program there: SUITES="bookworm" tools/release_check.sh (or `make release-check`)
#
# The Debians are made under build/release (tools/interop/chroot.sh), once. Needs root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

suites=${SUITES:-bookworm trixie forky}
top=$PWD/build/release

die() { echo "release-check: $*" >&2; exit 1; }

first_block() { awk -v kind="^\`\`\`$1" 'begun && /^```/ { exit } begun; $0 ~ kind { begun = 1 }' README.md; }

try_in() { # try_in SUITE TREE: prints the version of Python, and what differs from what the README says
    local tree=$2
    rm -rf "$tree/release"
    mkdir "$tree/release"
    cp -r dist/wheelhouse "$tree/release/"
    first_block python >"$tree/release/program.py"
    first_block text >"$tree/release/expected"
    chroot "$tree" env -i PATH=/usr/bin:/bin LANG=C.UTF-8 HOME=/release sh -euc '
        cd /release
        python3 -c "import platform; print(platform.python_version())"
        for compiler in cc gcc clang; do
            if command -v $compiler >&2; then echo "there is a compiler"; exit 1; fi
        done
        python3 -m venv venv
        venv/bin/python -m pip install --quiet --disable-pip-version-check --no-index --find-links wheelhouse rstreams
        timeout 60 venv/bin/python -W error program.py >printed
        diff expected printed'
}

[[ $(id -u) == 0 ]] || die "needs root, to make a Debian of its own"
[[ -d dist/wheelhouse ]] || die "there is no dist/wheelhouse: run make release first"
failed=0
for suite in $suites; do
    said=$(tools/interop/chroot.sh "$suite" "$top/$suite" python3 python3-venv 2>&1) || die "$suite: $said"
    if said=$(try_in "$suite" "$top/$suite" 2>&1); then
        echo "release-check: $suite, Python $said: ok"
    else
        echo "release-check: $suite, Python $said: FAILED"
        failed=1
    fi
done
exit $failed

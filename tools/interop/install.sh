#!/usr/bin/env bash
# Installs the peers of the interop tests under build/interop/. One that cannot be had leaves the reason, one line, in
# build/interop/PEER.skipped: its tests are skipped with it. Nothing outside build/ changes but for debootstrap itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=$PWD/build/interop
mkdir -p "$build"

have() { # PEER WHY: what its installer printed last is why it is not to be had
    local peer=$1 why
    shift
    if why=$("$@" 2>&1); then
        rm -f "$build/$peer.skipped"
    else
        why=$(tail -1 <<<"$why")
        echo "${why:-it could not be installed}" >"$build/$peer.skipped"
        echo "interop: no $peer: ${why:-it could not be installed}" >&2
    fi
}

rhea() {
    command -v node >/dev/null && command -v npm >/dev/null || { echo "needs node and npm"; return 1; }
    mkdir -p "$build/rhea"
    cmp -s tests/interop/rhea/package-lock.json "$build/rhea/installed.json" && return
    cp tests/interop/rhea/package.json tests/interop/rhea/package-lock.json "$build/rhea"
    npm --prefix "$build/rhea" ci --no-audit --no-fund --loglevel error >"$build/rhea.log" 2>&1 || {
        echo "npm cannot install rhea (see build/interop/rhea.log)"
        return 1
    }
    cp tests/interop/rhea/package-lock.json "$build/rhea/installed.json"
}

debian() { # SUITE PACKAGE...
    tools/interop/chroot.sh "$1" "$build/$1" "${@:2}"
}

proton_broker() { # the example broker of the engine's own project, in C
    debian bookworm "${bookworm[@]}" || return 1
    [[ -x $build/bookworm/opt/proton-broker ]] && return
    chroot "$build/bookworm" sh -c \
        'gcc -O1 -o /opt/proton-broker "$(dpkg -L libqpid-proton11-dev-examples | grep "/c/broker\.c$")" \
        -lqpid-proton -l:libqpid-proton-proactor.so.1 -lpthread' >"$build/proton.log" 2>&1 || {
        echo "the example broker does not compile (see build/interop/proton.log)"
        return 1
    }
}

elsewhere() { # VARIABLE: a peer that no registry here has; the tests run against one that is running already
    [[ -n ${!1:-} ]] || { echo "no registry here has it; name one that runs with $1=amqp://user:password@host:port"; return 1; }
}

activemq() {
    debian trixie "${trixie[@]}" && tools/interop/activemq.sh "$build/trixie"
}

bookworm=(rabbitmq-server gcc libc6-dev libqpid-proton11-dev libqpid-proton11-dev-examples)
trixie=(rabbitmq-server libactivemq-java libapache-qpid-proton-j-java default-jdk-headless xz-utils)

have rhea rhea
have rabbitmq-3.10 debian bookworm "${bookworm[@]}"
have rabbitmq-4.0 debian trixie "${trixie[@]}"
have rabbitmq-4.3 debian forky rabbitmq-server
have proton-broker proton_broker
have activemq activemq
have artemis elsewhere RSTREAMS_INTEROP_ARTEMIS
have router elsewhere RSTREAMS_INTEROP_ROUTER

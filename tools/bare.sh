#!/usr/bin/env bash
# Runs the README's commands on bare Debians: SUITES=... USERS=... TARGETS=... tools/bare.sh (or `make bare`)
#
# For each suite and user it makes a fresh Debian under build/bare, which has python3, git, make and ca-certificates and
# nothing else, and a clone of HEAD, and runs `make TARGET` there for each target in turn. The user `plain` cannot
# install packages: where a target ends because some are missing, root installs those that its line
# "run: sudo apt-get install ..." names, no others, and the target is run again. The table at the end tells which.
#
# The Debian itself is made once (tools/interop/chroot.sh) and copied for each run. pip's cache is kept for each suite
# in build/bare/cache, as it would be on a machine of its own; without that folder all is downloaded and built anew.
# What this machine says about its network and its packages (DNS, certificates, pip's settings, the folders that these
# name) is copied or mounted read-only at run time.
#
# Each run has a table of mounts and of processes of its own, so that both are gone when it ends, however it ends. The
# process that removes its folder never sees a mount in it. Needs root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

suites=${SUITES:-bookworm trixie forky}
users=${USERS:-root plain}
targets=${TARGETS:-demo test}
limit_s=${LIMIT_S:-3600}
top=$PWD/build/bare

die() { echo "bare: $*" >&2; exit 1; }

# ---------------------------------------------------------------------------------- what this machine knows of networks

pip_files() { # the files that hold pip's settings here, each with its place for a user whose home is $1
    local home=$1
    echo "/etc/pip.conf /etc/pip.conf"
    echo "${PIP_CONFIG_FILE:-} $home/.pip/pip.conf"
    echo "$HOME/.pip/pip.conf $home/.pip/pip.conf"
    echo "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf $home/.config/pip/pip.conf"
}

pip_folders() { # the folders that pip's settings name; an index of files has those files beside it
    local path
    { pip_files "$HOME" | cut --delimiter=' ' --fields=1 | xargs cat; env | grep '^PIP_'; } 2>/dev/null | grep -oE '(file://)?/[^ ,"]+' |
        sed 's|^file://||; s|/simple/*$||' | sort -u |
        while read -r path; do [[ -d $path ]] && echo "$path"; done
}

passed_on() { # the variables about networks and packages
    env | grep -iE '^(PIP_[A-Z_]*|(https?|ftp|all|no)_proxy|(SSL_CERT|REQUESTS_CA|CURL_CA|NODE_EXTRA_CA)_[A-Z_]*)=' |
        grep -v '^PIP_CONFIG_FILE=' || true
}

bring_settings() { # into the Debian at $1, for a user whose home is $2
    local tree=$1 file place
    cp --dereference /etc/resolv.conf /etc/hosts "$tree/etc/"
    if compgen -G "/usr/local/share/ca-certificates/*.crt" >/dev/null; then
        cp /usr/local/share/ca-certificates/*.crt "$tree/usr/local/share/ca-certificates/"
        chroot "$tree" update-ca-certificates >/dev/null 2>&1
    fi
    while read -r file; do # certificates that a variable names and that are not Debian's own file
        [[ ! -f $file || -e $tree$file ]] || install -D --mode=644 "$file" "$tree$file"
    done < <(passed_on | cut --delimiter== --fields=2-)
    while read -r file place; do
        [[ ! -f $file ]] || install -D --mode=644 "$file" "$tree$place"
    done < <(pip_files "$2")
}

# --------------------------------------------------------------------------------------------------------- inside a run

mount_in() { # what a container has too
    local tree=$1 cache=$2 home=$3 folder
    mount -t proc proc "$tree/proc"
    mkdir -p "$tree/dev/shm" "$tree/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$tree/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$tree/dev/pts"
    ln -sf pts/ptmx "$tree/dev/ptmx"
    mount --bind "$cache" "$tree$home/.cache/pip"
    for folder in $(pip_folders); do
        mkdir -p "$tree$folder"
        mount --bind "$folder" "$tree$folder"
        mount -o remount,bind,ro "$tree$folder"
    done
}

as_user() { # as_user TREE USER HOME COMMAND...; bash has what it starts in the background ignore SIGINT
    local tree=$1 user=$2 home=$3 settings
    shift 3
    mapfile -t settings < <(passed_on)
    chroot "$tree" setpriv --reuid="$user" --regid="$user" --init-groups env -i --default-signal=INT HOME="$home" USER="$user" \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb "${settings[@]}" \
        sh -c 'cd ~/rstreams && exec "$@"' sh "$@"
}

run_target() { # run_target TREE USER HOME TARGET LOG; notes the packages that root had to install in TREE/told
    local tree=$1 user=$2 home=$3 target=$4 log=$5 told="" packages
    until as_user "$tree" "$user" "$home" timeout --kill-after=60 "$limit_s" make "$target" </dev/null >>"$log" 2>&1; do
        packages=$(sed -n 's/.*run: sudo apt-get install \([a-z0-9.+ -]*\)$/\1/p' "$log" | tail -1)
        [[ $user != root && -n $packages && $packages != "$told" ]] || return 1
        told=$packages
        echo "bare: root installs what that line says: $packages" >>"$log"
        echo "$packages" >>"$tree/told"
        # shellcheck disable=SC2086 # several packages
        DEBIAN_FRONTEND=noninteractive chroot "$tree" sh -c 'apt-get update && apt-get install --yes "$@"' sh $packages \
            </dev/null >"$tree/apt.log" 2>&1 || { cat "$tree/apt.log" >>"$log"; return 1; }
    done
}

run_inside() { # run_inside TREE SUITE USER HOME: in a table of mounts and of processes of its own
    local tree=$1 suite=$2 user=$3 home=$4 python target began result log told
    mount_in "$tree" "$top/cache/$suite" "$home"
    python=$(chroot "$tree" python3 -c "import platform; print(platform.python_version())")
    for target in $targets; do
        began=$SECONDS result=ok
        log=$top/$suite-$user-$target.log
        : >"$tree/told" >"$log"
        echo "bare: $suite (Python $python), $user: make $target; see build/bare/${log##*/}" >&2
        run_target "$tree" "$user" "$home" "$target" "$log" || result=FAILED
        told=$(xargs <"$tree/told")
        echo "$suite $python $user $target $result $((SECONDS - began)) ${told:+(told to install: $told)}" >>"$top/table"
    done
}

# ------------------------------------------------------------------------------------------------------------- the runs

tree="" run=""
clean_up() {
    if [[ -n $run ]]; then # its first process takes all others with it
        first=$(pgrep --parent "$run") || true
        { kill -KILL "$run" && wait "$run"; } 2>/dev/null || true
        [[ -z $first ]] || timeout 60 tail --pid="$first" -f /dev/null || true
        run=""
    fi
    [[ -n $tree && -e $tree ]] || return 0
    if grep -qF " $tree/" /proc/self/mountinfo; then # cannot be, for mounts are made in runs of their own
        die "something is mounted in $tree: it stays"
    fi
    rm -rf --one-file-system "$tree"
}

main() {
    local user suite said home ids failed=0
    [[ $(id -u) == 0 ]] || die "needs root, to make a Debian of its own and to run in it"
    for user in $users; do [[ $user == root || $user == plain ]] || die "USERS=\"$users\": root and plain are allowed"; done
    [[ -z $(git status --porcelain) ]] || echo "bare: note that HEAD is tested; what is not committed is no part of it" >&2
    trap clean_up EXIT
    trap 'exit 130' INT TERM HUP

    mkdir -p "$top/base"
    : >"$top/table"
    for suite in $suites; do
        echo "bare: a Debian $suite with python3, git, make and ca-certificates; the first time this takes minutes" >&2
        if ! said=$(tools/interop/chroot.sh "$suite" "$top/base/$suite" python3 git make ca-certificates); then
            echo "$suite - - - FAILED 0 ($said)" >>"$top/table"
            continue
        fi
        for user in $users; do
            tree=$top/tree-$suite-$user-$$
            home=/root
            cp --archive --one-file-system "$top/base/$suite" "$tree"
            if [[ $user == plain ]]; then
                home=/home/plain
                chroot "$tree" useradd --create-home --shell /bin/bash plain
            fi
            bring_settings "$tree" "$home"
            git clone --quiet --no-hardlinks "$PWD" "$tree$home/rstreams"
            mkdir -p "$top/cache/$suite" "$tree$home/.cache/pip"
            chroot "$tree" chown -R "$user:" "$home"
            ids=$(chroot "$tree" id -u "$user"):$(chroot "$tree" id -g "$user")
            chown -R "$ids" "$top/cache/$suite" # pip wants its cache to be the user's own
            unshare --mount --pid --fork --kill-child "$0" --inside "$tree" "$suite" "$user" "$home" &
            run=$!
            wait "$run" || failed=1
            run=""
            clean_up
        done
    done

    sed -i '1i suite python user target result seconds' "$top/table"
    awk '{ printf "%-10s %-9s %-6s %-16s %-7s %7s ", $1, $2, $3, $4, $5, $6; $1 = $2 = $3 = $4 = $5 = $6 = ""; sub(/^ +/, ""); print }' "$top/table"
    ! grep -q ' FAILED ' "$top/table" && ((!failed))
}

# bash reads a script as it runs it; here it has read all of it before it begins.
if [[ ${1:-} == --inside ]]; then
    run_inside "${@:2}"
else
    main
fi
exit

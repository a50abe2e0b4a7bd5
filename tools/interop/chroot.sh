#!/usr/bin/env bash
# Makes a Debian of its own with some packages in it: tools/interop/chroot.sh SUITE DIRECTORY PACKAGE...
#
# Brokers come from Debian, but not onto this machine: a package that is a service would start it and make users for
# it. So each lives in a directory under build/, made by debootstrap from the mirror that this machine's apt uses, and
# the tests run it by chroot. Nothing is done if the directory has the packages already. Needs root.
#
# Prints why, in one line, and fails if it cannot be done; all else goes to DIRECTORY.log.
set -euo pipefail

suite=$1 root=$2
shift 2
stamp=$root/interop-packages
[[ -e $stamp && $(<"$stamp") == "$*" ]] && exit 0

die() { echo "$*"; exit 1; }
[[ $(id -u) == 0 ]] || die "needs root to make a chroot of Debian $suite"
# In a mount table of its own, so that nothing stays mounted whatever happens.
[[ ${OWN_MOUNTS:-} ]] || exec env OWN_MOUNTS=1 unshare --mount "$0" "$suite" "$root" "$@"
command -v apt-get >/dev/null || die "this system has no apt"
mkdir -p "$(dirname "$root")"
log=$root.log
if ! command -v debootstrap >/dev/null; then
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends debootstrap; } \
        </dev/null >"$log" 2>&1 || die "apt cannot install debootstrap (see $log)"
fi

# The archive this machine takes Debian's packages from: the one that is not for security updates alone.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Created-By: Packages' 2>>"$log" |
    grep -v -e security | sort -u | head -1) || true
[[ -n $mirror ]] || die "apt on this machine knows no Debian archive"

if [[ ! -e $root/interop-base ]]; then
    rm -rf "$root"
    # An older debootstrap has no script for a newer suite; they all do what the one for sid does.
    script=()
    [[ -e /usr/share/debootstrap/scripts/$suite ]] || script=(/usr/share/debootstrap/scripts/sid)
    debootstrap --variant=minbase "$suite" "$root" "$mirror" "${script[@]}" </dev/null >>"$log" 2>&1 ||
        die "debootstrap of Debian $suite failed (see $log)"
    echo "127.0.0.1 localhost" >"$root/etc/hosts"
    # No package may start its service in here.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    touch "$root/interop-base"
fi

mkdir -p "$root/proc"
mount -t proc proc "$root/proc" || die "cannot mount proc in a chroot"
cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
# A mirror kept at one date says that its lists are out of date.
echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/interop"
for setting in /etc/apt/apt.conf.d/*; do # proxies and the like
    grep -qsi 'acquire::.*\(proxy\|retries\)' "$setting" && cp "$setting" "$root/etc/apt/apt.conf.d/"
done
DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$root" sh -c \
    'apt-get update && apt-get install --yes --no-install-recommends "$@" && apt-get clean' sh "$@" \
    </dev/null >>"$log" 2>&1 || die "apt in Debian $suite cannot install $* (see $log)"
echo "$*" >"$stamp"

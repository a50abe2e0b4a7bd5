#!/usr/bin/env bash
# Makes ActiveMQ Classic speak AMQP: tools/interop/activemq.sh DIRECTORY
#
# Debian's package is built without the broker's AMQP transport, but its source has it. So the source is taken by apt,
# which checks it, and that part alone is compiled against the jars of the package, into DIRECTORY/opt/activemq.
#
# DIRECTORY is what chroot.sh made, with libactivemq-java, libapache-qpid-proton-j-java, xz-utils and a JDK. Prints why, in one
# line, and fails if it cannot be done; all else goes to DIRECTORY-activemq.log.
set -euo pipefail

root=$1
[[ -e $root/opt/activemq/classes ]] && exit 0
# In a mount table of its own, so that nothing stays mounted whatever happens.
[[ ${OWN_MOUNTS:-} ]] || exec env OWN_MOUNTS=1 unshare --mount "$0" "$root"
log=$root-activemq.log
mount -t proc proc "$root/proc" || { echo "cannot mount proc in a chroot"; exit 1; }
cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
LC_ALL=C chroot "$root" sh -ec '
    sed -n "s/^deb /deb-src /p" /etc/apt/sources.list >/etc/apt/sources.list.d/source.list
    apt-get update
    rm -rf /opt/activemq && mkdir -p /opt/activemq/new
    cd /opt/activemq
    apt-get source --download-only --tar-only activemq
    tar -xf activemq_*.orig.tar.* --strip-components=4 --wildcards "*/activemq-amqp/src/main/*"
    find java -name "*.java" ! -name "*WS*" >sources # not over WebSocket, which needs Jetty
    jars=$(printf "/usr/share/java/%s.jar:" activemq-broker activemq-client hawtbuf proton-j geronimo-jms_1.1_spec slf4j-api)
    javac -nowarn -d new -cp "$jars" @sources
    cp -r resources/. new
    mv new classes
' >"$log" 2>&1 </dev/null || { echo "the AMQP transport of ActiveMQ cannot be compiled (see $log)"; exit 1; }

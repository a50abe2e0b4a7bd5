/* A disk that fails when a test says so: a library that is loaded before libc (LD_PRELOAD).
 *
 * disk_fails(folder, kinds, after, times, error): of the calls of these kinds on files below `folder`, let `after` pass,
 * have `times` of the next ones fail (-1: all), and let the rest pass.
 * disk_calls(): how many calls there were since then.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { WRITES = 1, SYNCS = 2, READS = 4, OPENS = 8 };

static char folder[PATH_MAX];
static volatile long wanted, passing, failing, calls, error_number;

void disk_fails(const char *path, long kinds, long after, long times, long error)
{
    strncpy(folder, path, sizeof folder - 1);
    passing = after, failing = times, calls = 0, error_number = error;
    wanted = kinds;
}

long disk_calls(void) { return calls; }

static int fails_at(const char *path, int kind)
{
    if (!(wanted & kind) || strncmp(path, folder, strlen(folder)))
        return 0;
    calls++;
    if (passing > 0) {
        passing--;
        return 0;
    }
    if (failing > 0)
        failing--;
    else if (!failing)
        return 0;
    errno = (int)error_number;
    return 1;
}

static int fails(int file, int kind)
{
    char link[64], path[PATH_MAX];
    ssize_t size;
    int before = errno;
    if (!(wanted & kind))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    size = readlink(link, path, sizeof path - 1);
    errno = before;
    if (size < 0)
        return 0;
    path[size] = 0;
    return fails_at(path, kind);
}

#define REAL(name, type, ...)                                   \
    static type (*real)(__VA_ARGS__);                           \
    if (!real)                                                  \
        real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name);

#define MOVES(name, kind, buffer, offset)                                          \
    ssize_t name(int file, buffer data, size_t size, offset at)                    \
    {                                                                              \
        REAL(#name, ssize_t, int, buffer, size_t, offset)                          \
        return fails(file, kind) ? -1 : real(file, data, size, at);                \
    }
MOVES(pwrite, WRITES, const void *, off_t)
MOVES(pwrite64, WRITES, const void *, off64_t)
MOVES(pread, READS, void *, off_t)
MOVES(pread64, READS, void *, off64_t)

ssize_t write(int file, const void *data, size_t size)
{
    REAL("write", ssize_t, int, const void *, size_t)
    return fails(file, WRITES) ? -1 : real(file, data, size);
}

ssize_t read(int file, void *data, size_t size)
{
    REAL("read", ssize_t, int, void *, size_t)
    return fails(file, READS) ? -1 : real(file, data, size);
}

/* No test cuts the power: a sync that does not fail is left out. */
#define SYNCING(name)                                   \
    int name(int file)                                  \
    {                                                   \
        return fails(file, SYNCS) ? -1 : 0;             \
    }
SYNCING(fsync)
SYNCING(fdatasync)

#define SIZING(name, offset)                                        \
    int name(int file, offset size)                                 \
    {                                                               \
        REAL(#name, int, int, offset)                               \
        return fails(file, WRITES) ? -1 : real(file, size);         \
    }
SIZING(ftruncate, off_t)
SIZING(ftruncate64, off64_t)

#define KEEPING(name, offset)                                                       \
    int name(int file, offset at, offset size)                                      \
    {                                                                               \
        REAL(#name, int, int, offset, offset)                                       \
        return fails(file, WRITES) ? (int)error_number : real(file, at, size);      \
    }
KEEPING(posix_fallocate, off_t)
KEEPING(posix_fallocate64, off64_t)

#define OPENING(name)                                                   \
    int name(const char *path, int flags, ...)                          \
    {                                                                   \
        va_list more;                                                   \
        mode_t mode;                                                    \
        REAL(#name, int, const char *, int, ...)                        \
        va_start(more, flags);                                          \
        mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                                   \
        return fails_at(path, OPENS) ? -1 : real(path, flags, mode);    \
    }
OPENING(open)
OPENING(open64)

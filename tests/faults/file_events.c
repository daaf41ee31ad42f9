/* Brings about faults at changes of files: loaded before the C library (LD_PRELOAD), controlled by fault_injection.py.

   An event is a call that changes a file or folder below the root. Programs in other languages call the same functions
   of the C library as Python does, so their changes count too; buffered output of <stdio.h> and memory maps do not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OFF, COUNT, KILL_BEFORE, KILL_AFTER, SIGNAL, FULL_FROM, FULL_BYTES, READ_ONLY };
enum { GO, FAIL, DIE };

#define LONGEST 100000
static int kind;
static long place, number;
static char root[PATH_MAX], seen[LONGEST];
static int signal_number;

long fault_events(void) { return number; }
const char *fault_seen(void) { return seen; }

void fault_arm(int what, long where, int sent, const char *below) {
    strncpy(root, below, sizeof root - 1);
    place = where, signal_number = sent, number = 0, kind = what;
    memset(seen, 0, sizeof seen);
}

static timer_t timer;
static int timed;

void fault_disarm(void) {
    kind = OFF;
    if (timed) timer_delete(timer), timed = 0;
}

/* Send a signal after this much processor time of the process. */
int fault_timer(int sent, double seconds) {
    struct sigevent about = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = sent};
    struct itimerspec when = {.it_value = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)}};
    if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &about, &timer)) return -1;
    timed = 1;
    return timer_settime(timer, 0, &when, NULL);
}

/* A process that is started with FAULT="kind place signal root" is armed at once; its children are not. */
__attribute__((constructor)) static void from_environment(void) {
    char *text = getenv("FAULT"), *rest;
    if (!text) return;
    int what = strtol(text, &rest, 10);
    long where = strtol(rest, &rest, 10);
    int sent = strtol(rest, &rest, 10);
    while (*rest == ' ') rest++;
    fault_arm(what, where, sent, rest);
    unsetenv("FAULT");
}

static int below(const char *path) {
    size_t length = strlen(root);
    return !strncmp(path, root, length) && (path[length] == '/' || !path[length]);
}

static int descriptor_below(int descriptor) {
    char link[64] = "/proc/self/fd/", target[PATH_MAX];
    char digits[16];
    int at = 15, from = descriptor;
    digits[at] = 0;
    do digits[--at] = '0' + from % 10; while (from /= 10);
    strcat(link, digits + at);
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length < 0) return 0;
    target[length] = 0;
    return below(target);
}

static int path_below(int folder, const char *path) {
    if (!path) return 0;
    if (path[0] == '/') return below(path);
    if (folder != AT_FDCWD) return descriptor_below(folder);
    char here[PATH_MAX];
    return getcwd(here, sizeof here) && below(here);
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Count an event and say what becomes of it; `bytes` is shortened to what still fits on a full disk. */
static int event(char name, size_t *bytes) {
    long now = __atomic_add_fetch(&number, 1, __ATOMIC_SEQ_CST);
    if (now < LONGEST) seen[now - 1] = name;
    int frees = name == 'u';
    switch (kind) {
    case KILL_BEFORE:
        if (now == place) die();
        return GO;
    case KILL_AFTER:
        return now == place ? DIE : GO;
    case SIGNAL:
        if (now == place) kill(getpid(), signal_number);
        return GO;
    case FULL_FROM:
        if (now < place || frees) return GO;
        errno = ENOSPC;
        return FAIL;
    case FULL_BYTES:
        if (frees || name == 'r') return GO;
        if (bytes && place > 0) {
            if ((long)*bytes > place) *bytes = place;
            place -= *bytes;
            return GO;
        }
        if (place > 0) return GO;
        errno = ENOSPC;
        return FAIL;
    case READ_ONLY:
        errno = place ? (int)place : EROFS;
        return FAIL;
    }
    return GO;
}

#define NEXT(type, name) static type (*next)(); if (!next) *(void **)&next = dlsym(RTLD_NEXT, #name)
#define ACT(letter, here, call)                                            \
    int fate = kind && (here) ? event(letter, NULL) : GO;                  \
    if (fate == FAIL) return -1;                                           \
    int result = call;                                                     \
    if (fate == DIE) die();                                                \
    return result

#define WRITING(flags) (((flags) & O_ACCMODE) != O_RDONLY || (flags) & O_CREAT)
#define OPEN(name)                                                                             \
    int name(const char *path, int flags, ...) {                                               \
        NEXT(int, name);                                                                       \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        ACT('o', WRITING(flags) && path_below(AT_FDCWD, path), next(path, flags, mode));       \
    }
#define OPENAT(name)                                                                           \
    int name(int folder, const char *path, int flags, ...) {                                   \
        NEXT(int, name);                                                                       \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        ACT('o', WRITING(flags) && path_below(folder, path), next(folder, path, flags, mode)); \
    }
OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64)

/* A process that is killed in a write leaves half of it. */
#define WRITTEN(call)                                                                       \
    size_t wanted = size;                                                                   \
    int fate = kind && descriptor_below(descriptor) ? event('w', &wanted) : GO;             \
    if (fate == FAIL) return -1;                                                            \
    if (fate == DIE) wanted /= 2;                                                           \
    size = wanted;                                                                          \
    ssize_t result = call;                                                                  \
    if (fate == DIE) die();                                                                 \
    return result
ssize_t write(int descriptor, const void *data, size_t size) { NEXT(ssize_t, write); WRITTEN(next(descriptor, data, size)); }
ssize_t pwrite(int descriptor, const void *data, size_t size, off_t at) { NEXT(ssize_t, pwrite); WRITTEN(next(descriptor, data, size, at)); }
ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t at) { NEXT(ssize_t, pwrite64); WRITTEN(next(descriptor, data, size, at)); }
ssize_t sendfile(int descriptor, int from, off_t *at, size_t size) { NEXT(ssize_t, sendfile); WRITTEN(next(descriptor, from, at, size)); }
ssize_t sendfile64(int descriptor, int from, off64_t *at, size_t size) { NEXT(ssize_t, sendfile64); WRITTEN(next(descriptor, from, at, size)); }
ssize_t copy_file_range(int from, off64_t *at, int descriptor, off64_t *to, size_t size, unsigned flags) {
    NEXT(ssize_t, copy_file_range);
    WRITTEN(next(from, at, descriptor, to, size, flags));
}
ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    NEXT(ssize_t, writev);
    size_t size = 0;
    for (int part = 0; part < count; part++) size += parts[part].iov_len;
    int fate = kind && descriptor_below(descriptor) ? event('w', &size) : GO;
    if (fate == FAIL) return -1;
    ssize_t result = next(descriptor, parts, count);
    if (fate == DIE) die();
    return result;
}

int fsync(int descriptor) { NEXT(int, fsync); ACT('s', descriptor_below(descriptor), next(descriptor)); }
int fdatasync(int descriptor) { NEXT(int, fdatasync); ACT('s', descriptor_below(descriptor), next(descriptor)); }
int ftruncate(int descriptor, off_t size) { NEXT(int, ftruncate); ACT('t', descriptor_below(descriptor), next(descriptor, size)); }
int ftruncate64(int descriptor, off64_t size) { NEXT(int, ftruncate64); ACT('t', descriptor_below(descriptor), next(descriptor, size)); }
int fchmod(int descriptor, mode_t mode) { NEXT(int, fchmod); ACT('c', descriptor_below(descriptor), next(descriptor, mode)); }
int chmod(const char *path, mode_t mode) { NEXT(int, chmod); ACT('c', path_below(AT_FDCWD, path), next(path, mode)); }
int fchmodat(int folder, const char *path, mode_t mode, int flags) { NEXT(int, fchmodat); ACT('c', path_below(folder, path), next(folder, path, mode, flags)); }
int rename(const char *old, const char *new) { NEXT(int, rename); ACT('r', path_below(AT_FDCWD, new), next(old, new)); }
int renameat(int from, const char *old, int to, const char *new) { NEXT(int, renameat); ACT('r', path_below(to, new), next(from, old, to, new)); }
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) { NEXT(int, renameat2); ACT('r', path_below(to, new), next(from, old, to, new, flags)); }
int link(const char *old, const char *new) { NEXT(int, link); ACT('l', path_below(AT_FDCWD, new), next(old, new)); }
int linkat(int from, const char *old, int to, const char *new, int flags) { NEXT(int, linkat); ACT('l', path_below(to, new), next(from, old, to, new, flags)); }
int symlink(const char *old, const char *new) { NEXT(int, symlink); ACT('l', path_below(AT_FDCWD, new), next(old, new)); }
int unlink(const char *path) { NEXT(int, unlink); ACT('u', path_below(AT_FDCWD, path), next(path)); }
int unlinkat(int folder, const char *path, int flags) { NEXT(int, unlinkat); ACT('u', path_below(folder, path), next(folder, path, flags)); }
int rmdir(const char *path) { NEXT(int, rmdir); ACT('u', path_below(AT_FDCWD, path), next(path)); }
int mkdir(const char *path, mode_t mode) { NEXT(int, mkdir); ACT('m', path_below(AT_FDCWD, path), next(path, mode)); }
int mkdirat(int folder, const char *path, mode_t mode) { NEXT(int, mkdirat); ACT('m', path_below(folder, path), next(folder, path, mode)); }

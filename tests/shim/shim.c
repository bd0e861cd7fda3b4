/* What a program does to the files of one directory: written down, and broken at will.
 *
 * Preloaded by tests/it/proof_power.rs and tests/it/proof_disk.rs (cc -shared -fPIC). Linux and glibc.
 *
 * SHIM_DIR      only files below this directory count; the -shm of SQLite never does
 * SHIM_JOURNAL  where each write, truncation, sync, creation, renaming and removal is appended, after it was done
 * SHIM_FAIL     "N:EIO": the N-th step on a file whose path holds SHIM_ONLY fails; "N:ENOSPC": from it on there is no
 *               more room than what is removed, for as long as the file SHIM_FULL exists (the N-th step makes it)
 * SHIM_COUNT    a file that is told, in a line each, every step that could fail
 *
 * A record of the journal: kind (1 byte), result of the call (1: done, 0: failed), length of the path (2), offset (8),
 * length of the data (4), all little-endian; then the path, below SHIM_DIR, and the data.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { WRITE = 'w', TRUNCATE = 't', SYNC = 's', CREATE = 'c', RENAME = 'r', UNLINK = 'u' };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *dir, *only, *full, *count_file; /* see above */
static size_t dir_len;
static int journal = -1, fail_errno;
static long fail_at = -1, steps;

/* Straight to the kernel: what the shim does itself is not written down. */
static long raw_write(int fd, const void *data, size_t len) { return syscall(SYS_write, fd, data, len); }

__attribute__((constructor)) static void begin(void) {
    dir = getenv("SHIM_DIR");
    only = getenv("SHIM_ONLY");
    full = getenv("SHIM_FULL");
    count_file = getenv("SHIM_COUNT");
    dir_len = dir ? strlen(dir) : 0;
    const char *path = getenv("SHIM_JOURNAL");
    if (path) journal = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    const char *fail = getenv("SHIM_FAIL");
    if (fail) {
        fail_at = strtol(fail, NULL, 10);
        fail_errno = strstr(fail, "ENOSPC") ? ENOSPC : EIO;
    }
}

/* The path below our directory, or NULL if it is none of ours. */
static const char *ours(const char *path) {
    if (!dir || strncmp(path, dir, dir_len) != 0) return NULL;
    if (path[dir_len] == '\0') return ".";
    if (path[dir_len] != '/') return NULL;
    size_t len = strlen(path);
    if (len > 4 && strcmp(path + len - 4, "-shm") == 0) return NULL;
    if (strstr(path, " (deleted)")) return NULL;
    return path + dir_len + 1;
}

static const char *ours_fd(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX);
    if (len <= 0 || len >= PATH_MAX) return NULL;
    path[len] = '\0';
    return ours(path);
}

static void put(uint8_t *to, uint64_t value, int bytes) {
    for (int at = 0; at < bytes; at++) to[at] = (uint8_t)(value >> (8 * at));
}

static void note(enum kind kind, int done, const char *path, uint64_t offset, const void *data, size_t len) {
    if (journal < 0) return;
    size_t path_len = strlen(path), all = 16 + path_len + len;
    uint8_t *record = malloc(all);
    if (!record) abort();
    record[0] = (uint8_t)kind;
    record[1] = (uint8_t)done;
    put(record + 2, path_len, 2);
    put(record + 4, offset, 8);
    put(record + 12, len, 4);
    memcpy(record + 16, path, path_len);
    if (len) memcpy(record + 16 + path_len, data, len);
    if (raw_write(journal, record, all) != (ssize_t)all) abort(); /* a journal that misses something proves nothing */
    free(record);
}

/* How many bytes there is room for once the disk is full: what was removed, less what was written since. */
static long room;

static int exists(const char *path) { return path && syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0; }

static void append(const char *file, const char *line, size_t len) {
    int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) abort();
    raw_write(fd, line, len);
    syscall(SYS_close, fd);
}

/* Whether this step fails, with errno set; `takes` is how many bytes it needs. Under the lock: steps have an order. */
static int fails(const char *what, const char *path, long takes) {
    static int filled;
    if (!only || strstr(path, only)) {
        steps++;
        if (count_file) {
            char line[PATH_MAX + 64];
            int len = snprintf(line, sizeof line, "%ld %s %s\n", steps, what, path);
            append(count_file, line, (size_t)len);
        }
    } else if (fail_errno != ENOSPC) {
        return 0;
    }
    if (fail_at < 0 || steps < fail_at) return 0;
    if (fail_errno == ENOSPC) {
        if (!filled) append(full, "", 0);
        filled = 1;
        if (!exists(full)) return 0; /* somebody made room */
        if (takes <= room) {
            room -= takes;
            return 0;
        }
    } else if (steps != fail_at) {
        return 0;
    }
    errno = fail_errno;
    return 1;
}

static off_t place(int fd) { return (off_t)syscall(SYS_lseek, fd, 0, SEEK_CUR); }

static int appends(int fd) { return (int)(syscall(SYS_fcntl, fd, F_GETFL) & O_APPEND); }

static ssize_t written(int fd, const char *path, const void *data, size_t len, off_t at, int seek) {
    pthread_mutex_lock(&lock);
    ssize_t done = -1;
    if (!fails("write", path, (long)len)) {
        if (seek) {
            if (appends(fd)) {
                struct stat stat;
                at = fstat(fd, &stat) == 0 ? stat.st_size : 0;
            } else {
                at = place(fd);
            }
            done = raw_write(fd, data, len);
        } else {
            done = syscall(SYS_pwrite64, fd, data, len, at);
        }
        if (done >= 0) note(WRITE, 1, path, (uint64_t)at, data, (size_t)done);
    }
    int error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

ssize_t write(int fd, const void *data, size_t len) {
    char buffer[PATH_MAX + 1];
    const char *path = ours_fd(fd, buffer);
    return path ? written(fd, path, data, len, 0, 1) : raw_write(fd, data, len);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off_t at) {
    char buffer[PATH_MAX + 1];
    const char *path = ours_fd(fd, buffer);
    return path ? written(fd, path, data, len, at, 0) : syscall(SYS_pwrite64, fd, data, len, at);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at) { return pwrite64(fd, data, len, at); }

static ssize_t gathered(int fd, const struct iovec *parts, int count, off_t at, int seek) {
    char buffer[PATH_MAX + 1];
    const char *path = ours_fd(fd, buffer);
    if (!path) return seek ? syscall(SYS_writev, fd, parts, count) : syscall(SYS_pwritev, fd, parts, count, at, 0);
    size_t len = 0;
    for (int n = 0; n < count; n++) len += parts[n].iov_len;
    uint8_t *data = malloc(len ? len : 1), *to = data;
    if (!data) abort();
    for (int n = 0; n < count; n++) {
        memcpy(to, parts[n].iov_base, parts[n].iov_len);
        to += parts[n].iov_len;
    }
    ssize_t done = written(fd, path, data, len, at, seek);
    int error = errno;
    free(data);
    errno = error;
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) { return gathered(fd, parts, count, 0, 1); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { return gathered(fd, parts, count, at, 0); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) { return gathered(fd, parts, count, at, 0); }

int ftruncate64(int fd, off_t len) {
    char buffer[PATH_MAX + 1];
    const char *path = ours_fd(fd, buffer);
    if (!path) return (int)syscall(SYS_ftruncate, fd, len);
    pthread_mutex_lock(&lock);
    int done = fails("truncate", path, 0) ? -1 : (int)syscall(SYS_ftruncate, fd, len);
    int error = errno;
    if (done == 0) note(TRUNCATE, 1, path, (uint64_t)len, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

int ftruncate(int fd, off_t len) { return ftruncate64(fd, len); }

/* Room that is asked for without writing would not be in the journal: there is none to be had. */
int posix_fallocate64(int fd, off_t at, off_t len) {
    char buffer[PATH_MAX + 1];
    return ours_fd(fd, buffer) ? EOPNOTSUPP : (int)syscall(SYS_fallocate, fd, 0, at, len);
}
int posix_fallocate(int fd, off_t at, off_t len) { return posix_fallocate64(fd, at, len); }

static int synced(int fd, long call) {
    char buffer[PATH_MAX + 1];
    const char *path = ours_fd(fd, buffer);
    if (!path) return (int)syscall(call, fd);
    pthread_mutex_lock(&lock);
    int done = fails("sync", path, 0) ? -1 : (int)syscall(call, fd);
    int error = errno;
    note(SYNC, done == 0, path, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

static int opened(int at, const char *name, int flags, mode_t mode) {
    char buffer[PATH_MAX + 1];
    struct stat before;
    int new = (flags & O_CREAT) && syscall(SYS_newfstatat, at, name, &before, 0) != 0;
    int fd = (int)syscall(SYS_openat, at, name, flags, mode);
    int error = errno;
    const char *path = fd >= 0 && (flags & (O_CREAT | O_TRUNC)) ? ours_fd(fd, buffer) : NULL;
    if (path) {
        pthread_mutex_lock(&lock);
        if (new) note(CREATE, 1, path, 0, NULL, 0);
        else if (flags & O_TRUNC) note(TRUNCATE, 1, path, 0, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    errno = error;
    return fd;
}

#define MODE(flags, last) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, last); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open64(const char *name, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, name, flags, mode); }
int open(const char *name, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, name, flags, mode); }
int openat64(int at, const char *name, int flags, ...) { MODE(flags, flags) return opened(at, name, flags, mode); }
int openat(int at, const char *name, int flags, ...) { MODE(flags, flags) return opened(at, name, flags, mode); }

static const char *whole(const char *name, char *buffer) {
    if (name[0] == '/') return name;
    size_t len = 0;
    if (syscall(SYS_getcwd, buffer, PATH_MAX) < 0) return name;
    len = strlen(buffer);
    snprintf(buffer + len, PATH_MAX - len, "/%s", name);
    return buffer;
}

int rename(const char *from, const char *to) {
    char from_buffer[PATH_MAX + 1], to_buffer[PATH_MAX + 1];
    const char *old = ours(whole(from, from_buffer)), *new = ours(whole(to, to_buffer));
    int done = (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
    int error = errno;
    if (done == 0 && old && new) {
        pthread_mutex_lock(&lock);
        note(RENAME, 1, old, 0, new, strlen(new));
        pthread_mutex_unlock(&lock);
    }
    errno = error;
    return done;
}

static int removed(int at, const char *name, int flags) {
    char buffer[PATH_MAX + 1];
    const char *path = flags || at != AT_FDCWD ? NULL : ours(whole(name, buffer));
    struct stat stat;
    int is_file = path && syscall(SYS_newfstatat, at, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(stat.st_mode);
    int done = (int)syscall(SYS_unlinkat, at, name, flags);
    int error = errno;
    if (done == 0 && is_file) {
        pthread_mutex_lock(&lock);
        room += (long)stat.st_size;
        note(UNLINK, 1, path, 0, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    errno = error;
    return done;
}

int unlink(const char *name) { return removed(AT_FDCWD, name, 0); }
int unlinkat(int at, const char *name, int flags) { return removed(at, name, flags); }

/* Stands between a server and the C library (LD_PRELOAD) and does what files say that are found
 * in the directory FAULTS:
 *
 *   fail-sync   syncs of files whose path contains this text fail with EIO
 *   hold-sync   the same syncs wait for as long as this file is there; `held` tells of one
 *   lie-sync    the same syncs succeed, and nothing is synced
 *   slow-sync   the same syncs take their time by what was written to the file since the last one:
 *               the file sync-rate says how many bytes in a millisecond
 *   late-sync   the same syncs take so many ms more: the file sync-ms contains the number
 *   full        writes to files whose path contains this text fail with ENOSPC
 *   undo        a directory: what a write to a file below a version-2 directory replaces is noted
 *               there, in a file named by device and inode, until a sync of the file succeeds. So
 *               whoever killed the server can take back what a power cut would have taken.
 *   clock       "+N" or "-N": the wall clock is N seconds away from the true one; "=N": it stands
 *               still at N seconds since 1970
 *
 * Everything goes to the kernel directly: nothing is allocated here, so an allocator may ask for
 * the time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const struct timespec PAUSE = {0, 5 * 1000 * 1000};

static int open_at_faults(const char *name, int flags)
{
	char path[4096];
	const char *dir = getenv("FAULTS");
	if (dir == NULL)
		return -1;
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0644);
}

/* What the file says, without a line's end; false if it is not there. */
static int read_order(const char *name, char *text, size_t size)
{
	int saved = errno;
	int file = open_at_faults(name, O_RDONLY);
	ssize_t length = -1;
	if (file >= 0) {
		length = syscall(SYS_read, file, text, size - 1);
		syscall(SYS_close, file);
	}
	errno = saved;
	if (length < 0)
		return 0;
	text[length] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return 1;
}

static int is_meant(int file, const char *order)
{
	char text[256], link[64], path[4096];
	if (!read_order(order, text, sizeof text))
		return 0;
	snprintf(link, sizeof link, "/proc/self/fd/%d", file);
	ssize_t length = readlink(link, path, sizeof path - 1);
	if (length < 0)
		return 0;
	path[length] = '\0';
	return strstr(path, text) != NULL;
}

/* Before each piece of what a write replaces; faults.rs reads it. */
struct undo {
	uint64_t offset, size_before, length;
	unsigned char bytes[16384];
};

static const size_t UNDO_HEADER = 3 * sizeof(uint64_t);

static int open_undo(const struct stat *about, int flags)
{
	char name[64];
	snprintf(name, sizeof name, "undo/%llu-%llu", (unsigned long long)about->st_dev,
		 (unsigned long long)about->st_ino);
	return open_at_faults(name, flags);
}

static int is_below_version_2(int file)
{
	char link[64], path[4096];
	snprintf(link, sizeof link, "/proc/self/fd/%d", file);
	ssize_t length = readlink(link, path, sizeof path - 1);
	if (length < 0)
		return 0;
	path[length] = '\0';
	return strstr(path, "/version-2/") != NULL;
}

/* Notes what is now from `at` on, and how long the file is, before that changes. */
static void note(int file, off64_t at, size_t length)
{
	int saved = errno;
	struct stat about;
	if (getenv("FAULTS") == NULL || fstat(file, &about) != 0 || !S_ISREG(about.st_mode) ||
	    !is_below_version_2(file))
		goto done;
	/* A file without anything is new, or was cut: what is noted of its inode is another's. */
	int is_new = about.st_size == 0;
	int notes = open_undo(&about, O_WRONLY | O_APPEND | O_CREAT | (is_new ? O_TRUNC : 0));
	if (notes < 0)
		goto done;
	char link[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", file);
	/* The file itself may be open for writing only. */
	int reader = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
	size_t left = at < about.st_size ? (size_t)(about.st_size - at) : 0;
	left = left < length ? left : length;
	do {
		struct undo piece = {.offset = (uint64_t)at, .size_before = (uint64_t)about.st_size};
		size_t wanted = left < sizeof piece.bytes ? left : sizeof piece.bytes;
		ssize_t got = wanted > 0 ? syscall(SYS_pread64, reader, piece.bytes, wanted, at) : 0;
		piece.length = got > 0 ? (uint64_t)got : 0;
		syscall(SYS_write, notes, &piece, UNDO_HEADER + piece.length);
		left = got > 0 ? left - (size_t)got : 0;
		at += got;
	} while (left > 0);
	if (reader >= 0)
		syscall(SYS_close, reader);
	syscall(SYS_close, notes);
done:
	errno = saved;
}

/* What is synced stays. */
static void forget(int file)
{
	int saved = errno;
	struct stat about;
	if (getenv("FAULTS") != NULL && fstat(file, &about) == 0 && S_ISREG(about.st_mode)) {
		int notes = open_undo(&about, O_WRONLY | O_TRUNC);
		if (notes >= 0)
			syscall(SYS_close, notes);
	}
	errno = saved;
}

static int is_full(int file)
{
	if (!is_meant(file, "full"))
		return 0;
	errno = ENOSPC;
	return 1;
}

/* Bytes of each file that are written and not synced. */
static _Atomic long unsynced[1024];

static _Atomic long *unsynced_of(int file)
{
	return file >= 0 && file < 1024 ? &unsynced[file] : NULL;
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t at)
{
	if (is_full(file))
		return -1;
	note(file, at, length);
	ssize_t written = syscall(SYS_pwrite64, file, bytes, length, at);
	if (written > 0 && unsynced_of(file) != NULL)
		*unsynced_of(file) += written;
	return written;
}

/* Where the next write without a position goes; false for what is no file. */
static int position(int file, off64_t *at)
{
	int saved = errno;
	struct stat about;
	int is_file = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
	if (is_file)
		*at = (fcntl(file, F_GETFL) & O_APPEND) ? about.st_size : lseek(file, 0, SEEK_CUR);
	errno = saved;
	return is_file;
}

ssize_t write(int file, const void *bytes, size_t length)
{
	off64_t at;
	if (position(file, &at)) {
		if (is_full(file))
			return -1;
		note(file, at, length);
	}
	return syscall(SYS_write, file, bytes, length);
}

ssize_t writev(int file, const struct iovec *pieces, int count)
{
	off64_t at;
	if (position(file, &at)) {
		size_t length = 0;
		for (int piece = 0; piece < count; piece++)
			length += pieces[piece].iov_len;
		if (is_full(file))
			return -1;
		note(file, at, length);
	}
	return syscall(SYS_writev, file, pieces, count);
}

int ftruncate64(int file, off64_t length)
{
	if (is_full(file))
		return -1;
	note(file, length, SIZE_MAX);
	return (int)syscall(SYS_ftruncate, file, length);
}

int ftruncate(int file, off_t length)
{
	return ftruncate64(file, length);
}

/* As long as that many bytes take, and no longer than the disk is slow. */
static void sync_slowly(int file, long bytes)
{
	char rate[64];
	long ms, pause_ms = PAUSE.tv_nsec / (1000 * 1000);
	if (!read_order("sync-rate", rate, sizeof rate) || atol(rate) <= 0)
		return;
	for (ms = bytes / atol(rate); ms >= pause_ms && is_meant(file, "slow-sync"); ms -= pause_ms)
		syscall(SYS_nanosleep, &PAUSE, NULL);
	if (ms > 0 && ms < pause_ms) {
		struct timespec rest = {0, ms * 1000 * 1000};
		syscall(SYS_nanosleep, &rest, NULL);
	}
}

static void sync_late(void)
{
	char text[64];
	long ms;
	if (!read_order("sync-ms", text, sizeof text) || (ms = atol(text)) <= 0)
		return;
	struct timespec pause = {ms / 1000, ms % 1000 * 1000 * 1000};
	syscall(SYS_nanosleep, &pause, NULL);
}

static int sync_file(long number, int file)
{
	int is_told = 0;
	long bytes = unsynced_of(file) != NULL ? (long)*unsynced_of(file) : 0;
	if (is_meant(file, "slow-sync"))
		sync_slowly(file, bytes);
	if (is_meant(file, "late-sync"))
		sync_late();
	while (is_meant(file, "hold-sync")) {
		if (!is_told) {
			syscall(SYS_close, open_at_faults("held", O_WRONLY | O_CREAT));
			is_told = 1;
		}
		syscall(SYS_nanosleep, &PAUSE, NULL);
	}
	if (is_meant(file, "fail-sync")) {
		errno = EIO;
		return -1;
	}
	int lies = is_meant(file, "lie-sync");
	int result = lies ? 0 : (int)syscall(number, file);
	if (result == 0 && unsynced_of(file) != NULL)
		*unsynced_of(file) -= bytes;
	if (result == 0 && !lies)
		forget(file);
	return result;
}

int fdatasync(int file)
{
	return sync_file(SYS_fdatasync, file);
}

int fsync(int file)
{
	return sync_file(SYS_fsync, file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	char text[64];
	int result = (int)syscall(SYS_clock_gettime, clock, now);
	int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
	if (result != 0 || !is_wall || !read_order("clock", text, sizeof text))
		return result;
	if (text[0] == '=') {
		now->tv_sec = atoll(text + 1);
		now->tv_nsec = 0;
	} else {
		now->tv_sec += atoll(text);
	}
	return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec exact;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &exact) != 0)
		return -1;
	now->tv_sec = exact.tv_sec;
	now->tv_usec = exact.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *seconds)
{
	struct timespec exact;
	if (clock_gettime(CLOCK_REALTIME, &exact) != 0)
		return -1;
	if (seconds != NULL)
		*seconds = exact.tv_sec;
	return exact.tv_sec;
}

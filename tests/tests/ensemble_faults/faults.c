/* Stands between a server and the C library (LD_PRELOAD) and does what files say that are found
 * in the directory FAULTS:
 *
 *   fail-sync   syncs of files whose path contains this text fail with EIO
 *   hold-sync   the same syncs wait for as long as this file is there; `held` tells of one
 *   clock       "+N" or "-N": the wall clock is N seconds away from the true one; "=N": it stands
 *               still at N seconds since 1970
 *
 * Everything goes to the kernel directly: nothing is allocated here, so an allocator may ask for
 * the time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
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

static int sync_file(long number, int file)
{
	int is_told = 0;
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
	return (int)syscall(number, file);
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

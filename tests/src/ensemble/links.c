/* Carries packets between members in user space, and treats each direction as ordered.
 *
 * Usage: links DEVICE SEED. Routing rules of the namespace send packets to the TUN device. This
 * program reads them, and writes each of them back when its time has come. The namespace then
 * routes them to their destination. Orders on standard input, one per line:
 *
 *   shape FROM TO DELAY_MS JITTER_MS LOSS_PERCENT REPEAT_PERCENT BYTES_PER_MS
 *   end
 *
 * FROM and TO are the last bytes of IPv4 addresses. The rate 0 means no limit. `end` ends all
 * shapes; packets that wait are still delivered. The answer to each order is a line
 * `done PACKETS LOST REPEATED DELAYED` with the numbers since the last `end`. The program exits at
 * the end of its input.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* Waiting packets of all directions, as a router's buffer. More packets are lost. */
#define WAITING_MAX 4096

struct shape {
	int is_set, delay_ms, jitter_ms, loss, repeat, bytes_per_ms;
	/* When the line is free for the next packet. */
	int64_t free_at_us;
};

struct packet {
	int64_t due_us;
	uint64_t number;
	size_t length;
	unsigned char *bytes;
};

static struct shape shapes[256][256];
/* A heap: the packet that is due first is at 0. */
static struct packet waiting[WAITING_MAX];
static size_t count;
static uint64_t next_number;
static unsigned long packets, lost, repeated, delayed;

static int64_t now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int is_before(const struct packet *one, const struct packet *other)
{
	if (one->due_us != other->due_us)
		return one->due_us < other->due_us;
	return one->number < other->number;
}

static void swap(size_t one, size_t other)
{
	struct packet kept = waiting[one];
	waiting[one] = waiting[other];
	waiting[other] = kept;
}

static void push(int64_t due_us, const unsigned char *bytes, size_t length)
{
	unsigned char *copy = count < WAITING_MAX ? malloc(length) : NULL;
	if (copy == NULL) {
		lost++;
		return;
	}
	memcpy(copy, bytes, length);
	size_t at = count++;
	waiting[at] = (struct packet){due_us, next_number++, length, copy};
	for (; at > 0 && is_before(&waiting[at], &waiting[(at - 1) / 2]); at = (at - 1) / 2)
		swap(at, (at - 1) / 2);
}

static struct packet pop(void)
{
	struct packet first = waiting[0];
	waiting[0] = waiting[--count];
	for (size_t at = 0;;) {
		size_t least = at;
		for (size_t child = 2 * at + 1; child <= 2 * at + 2; child++)
			if (child < count && is_before(&waiting[child], &waiting[least]))
				least = child;
		if (least == at)
			return first;
		swap(at, least);
		at = least;
	}
}

static int happens(int percent)
{
	return lrand48() % 100 < percent;
}

static void take(const unsigned char *bytes, size_t length)
{
	/* Only IPv4 has addresses at these places. */
	if (length < 20 || bytes[0] >> 4 != 4)
		return;
	struct shape *shape = &shapes[bytes[15]][bytes[19]];
	int64_t now = now_us(), due = now;
	packets++;
	if (happens(shape->loss)) {
		lost++;
		return;
	}
	if (shape->bytes_per_ms > 0) {
		int64_t start = shape->free_at_us > now ? shape->free_at_us : now;
		due = start + (int64_t)length * 1000 / shape->bytes_per_ms;
		shape->free_at_us = due;
	}
	due += shape->delay_ms * 1000;
	if (shape->jitter_ms > 0)
		due += lrand48() % (shape->jitter_ms * 1000L);
	delayed += due > now;
	push(due, bytes, length);
	if (happens(shape->repeat)) {
		repeated++;
		push(due, bytes, length);
	}
}

/* Returns 0 at the end of the input. */
static int obey(void)
{
	char line[256];
	struct shape shape = {.is_set = 1};
	int from, to;
	if (fgets(line, sizeof line, stdin) == NULL)
		return 0;
	int got = sscanf(line, "shape %d %d %d %d %d %d %d", &from, &to, &shape.delay_ms,
			 &shape.jitter_ms, &shape.loss, &shape.repeat, &shape.bytes_per_ms);
	int is_end = strcmp(line, "end\n") == 0;
	if (got == 7 && from >= 0 && from < 256 && to >= 0 && to < 256) {
		shapes[from][to] = shape;
	} else if (is_end) {
		memset(shapes, 0, sizeof shapes);
	} else {
		fprintf(stderr, "links: unknown order: %s", line);
		exit(1);
	}
	printf("done %lu %lu %lu %lu\n", packets, lost, repeated, delayed);
	fflush(stdout);
	if (is_end)
		packets = lost = repeated = delayed = 0;
	return 1;
}

static int open_device(const char *name)
{
	struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
	if (device < 0 || ioctl(device, TUNSETIFF, &request) != 0) {
		fprintf(stderr, "links: /dev/net/tun: %s\n", strerror(errno));
		exit(1);
	}
	return device;
}

int main(int argument_count, char **arguments)
{
	static unsigned char bytes[65536];
	if (argument_count != 3)
		return 2;
	int device = open_device(arguments[1]);
	srand48(atol(arguments[2]));
	/* An order is read as soon as poll reports it, so no second line may wait in a buffer. */
	setvbuf(stdin, NULL, _IONBF, 0);
	puts("ready");
	fflush(stdout);
	for (;;) {
		struct pollfd files[] = {{device, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
		struct timespec limit = {0, 0}, *until = NULL;
		if (count > 0) {
			int64_t left = waiting[0].due_us - now_us();
			left = left > 0 ? left : 0;
			limit.tv_sec = left / 1000000;
			limit.tv_nsec = left % 1000000 * 1000;
			until = &limit;
		}
		if (ppoll(files, 2, until, NULL) < 0 && errno != EINTR)
			return 1;
		if (files[1].revents != 0 && !obey())
			return 0;
		for (ssize_t got; (got = read(device, bytes, sizeof bytes)) > 0;)
			take(bytes, (size_t)got);
		for (int64_t now = now_us(); count > 0 && waiting[0].due_us <= now;) {
			struct packet packet = pop();
			/* The namespace may refuse a packet; then it is lost, as on a real line. */
			if (write(device, packet.bytes, packet.length) < 0)
				lost++;
			free(packet.bytes);
		}
	}
}

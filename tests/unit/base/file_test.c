// SPDX-License-Identifier: BSD-2-Clause
/* Files and pipes read and written whole; places in sorted arrays. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include "scratch.h"
#include "tap.h"

#define BIG (300u << 10) /* larger than a pipe's buffer and than the first read */

static char big[BIG];

/* Returns the result of file_read() of @path, and its text in *@ret_text. */
static int get(const char *path, size_t max, char **ret_text, size_t *ret_len)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	free(*ret_text);
	*ret_text = NULL;
	*ret_len = 0;
	return file_read(fd, max, ret_text, ret_len);
}

static void test_read(const char *path)
{
	_cleanup_free_ char *text = NULL;
	size_t len;

	scratch_file("file", "", 0);
	is_int(get(path, 0, &text, &len), 0, "an empty file can be read");
	is_str(text, "", "as an empty text");
	scratch_file("file", "four", 4);
	is_int(get(path, 4, &text, &len), 0, "a file of just so many bytes can be read");
	is_str(text, "four", "and ends with a zero byte");
	is_int(len, 4, "which does not count");
	is_int(get(path, 3, &text, &len), -EFBIG, "a byte more is too many");
	ok(!text, "and nothing is to be freed");
	scratch_file("file", big, BIG);
	is_int(get(path, BIG, &text, &len), 0, "a big file is read to its end");
	ok(len == BIG && !memcmp(text, big, BIG) && !text[BIG], "with all of its bytes");
	is_int(get(path, BIG - 1, &text, &len), -EFBIG, "a big file can be too big");
	is_int(get("/proc/self/comm", 64, &text, &len), 0,
		"a file whose size is told as 0 can be read");
	ok(len > 1 && text[len - 1] == '\n', "to its end");
	is_int(get("/", 64, &text, &len), -EISDIR, "a folder can't be read");
	is_int(file_read(-1, 64, &text, &len), -EBADF, "nor what was not opened");
}

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
	alarms++;
}

struct feeder {
	int fd;
	pthread_t reader;
	int code;
};

/* Writes more than the pipe takes, and interrupts the reader before it comes. */
static void *feed(void *arg)
{
	struct feeder *f = arg;

	while (alarms < 20) {
		pthread_kill(f->reader, SIGALRM);
		sleep_ms(1);
	}
	f->code = file_write(f->fd, big, BIG);
	close(f->fd);
	return NULL;
}

static void test_pipe(void)
{
	/* Without SA_RESTART a read that waits ends with EINTR. */
	struct sigaction action = { .sa_handler = on_alarm };
	_cleanup_free_ char *text = NULL;
	struct feeder f = { .reader = pthread_self(), .code = -1 };
	pthread_t thread;
	size_t len = 0;
	int fds[2];

	sigaction(SIGALRM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (pipe2(fds, O_CLOEXEC)) {
		ok(false, "there is a pipe");
		return;
	}
	f.fd = fds[1];
	pthread_create(&thread, NULL, feed, &f);
	is_int(file_read(fds[0], BIG, &text, &len), 0,
		"a pipe is read to its end, whatever signals come");
	close(fds[0]);
	pthread_join(thread, NULL);
	is_int(f.code, 0, "all was written into it");
	ok(len == BIG && !memcmp(text, big, BIG), "and all was read");
}

static void test_number(const char *path)
{
	int64_t number = 7;

	scratch_file("file", "-3\n", 3);
	is_int(file_read_number(path, &number), 0, "a setting's number can be read");
	is_int(number, -3, "with its sign");
	scratch_file("file", "max\n", 4);
	is_int(file_read_number(path, &number), -EINVAL, "a word is no number");
	is_int(number, -3, "and what was there stays");
	is_int(file_read_number("/nonexistent", &number), -ENOENT, "nor is no file one");
}

static void test_replace(const char *path, const char *other)
{
	_cleanup_free_ char *text = NULL;
	struct stat before, after;
	size_t len;

	scratch_file("file", "old", 3);
	if (link(path, other) || stat(path, &before))
		ok(false, "a file can have a second name");
	is_int(file_replace(path, 0644, big, BIG), 0, "a file can be replaced");
	is_int(get(path, BIG, &text, &len), 0, "what is there now can be read");
	is_int(len, BIG, "it is all of what was written");
	is_int(get(other, BIG, &text, &len), 0, "the file that was there can be read");
	is_str(text, "old", "it is as it was");
	ok(!stat(path, &after) && after.st_ino != before.st_ino, "they are two");
	is_int(after.st_mode & 07777, 0644, "the new one may be read by all");
	is_int(file_replace("/nonexistent/file", 0644, "", 0), -ENOENT,
		"no file comes to be in a folder that is not there");
	is_int(file_replace("/dev/full", 0644, "x", 1), -ENOSPC, "a device is written to");
	is_int(file_replace("/dev/null", 0644, "x", 1), 0, "and stays what it is");
	ok(!stat("/dev/null", &after) && S_ISCHR(after.st_mode), "a device");
}

/* As /dev/stdout is one, but not everybody's. */
static void test_replace_descriptor(const char *path, const char *link)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	_cleanup_free_ char *text = NULL;
	char name[64];
	struct stat st;
	size_t len;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	ok(!symlink(name, link), "a link to an open file can be made");
	is_int(file_descriptor(link), fd, "it is the descriptor's");
	is_int(file_descriptor(name), fd, "so is its name in /proc");
	is_int(file_descriptor(path), -1, "the file's own name is not");
	is_int(file_descriptor("/proc/self/exe"), -1, "nor is another link of /proc");
	is_int(file_replace(link, 0644, "one", 3), 0, "it is written to");
	is_int(file_replace(name, 0644, "two", 3), 0, "by both names");
	ok(!lstat(link, &st) && S_ISLNK(st.st_mode), "the link is there still");
	is_int(get(path, BIG, &text, &len), 0, "the file can be read");
	is_str(text, "onetwo", "one stands behind the other");
}

static void test_first_where(void)
{
	static const int sorted[] = { 1, 3, 3, 5 };
	static const struct {
		int key;
		size_t at, behind;
	} cases[] = { { 0, 0, 0 }, { 1, 0, 1 }, { 2, 1, 1 }, { 3, 1, 3 }, { 5, 3, 4 },
		{ 6, 4, 4 } };

	for (size_t k = 0; k < ARRAY_SIZE(cases); k++) {
		int key = cases[k].key;

		ok(FIRST_WHERE(ARRAY_SIZE(sorted), i, sorted[i] >= key) == cases[k].at,
			"the first that is not below %d is found", key);
		ok(FIRST_WHERE(ARRAY_SIZE(sorted), i, sorted[i] > key) == cases[k].behind,
			"the first above %d is found", key);
	}
	ok(FIRST_WHERE(0, i, sorted[i] > 0) == 0, "among none there is none");
}

static void test_clock(void)
{
	struct timespec ts = timespec_of(2000000001);

	ok(ts.tv_sec == 2 && ts.tv_nsec == 1, "nanoseconds are seconds and the rest");
	ok(!ns_until(clock_ns(CLOCK_MONOTONIC)), "until now there is nothing left");
	ok(ns_until(UINT64_MAX) > UINT64_MAX / 2, "until the end of time there is much");
}

int main(void)
{
	const char *path;

	scratch_begin();
	path = scratch("file");
	for (size_t i = 0; i < BIG; i++)
		big[i] = "0123456789abcdefghi"[i % 19];
	test_read(path);
	test_pipe();
	test_number(path);
	test_replace(path, scratch("other"));
	test_replace_descriptor(scratch("open"), scratch("link"));
	test_first_where();
	test_clock();
	return tap_done();
}

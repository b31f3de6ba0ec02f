// SPDX-License-Identifier: BSD-2-Clause
// The cache of answers: a line on boot and version, then a line for each experiment.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "feature.h"
#include "feature_cache.h"
#include "util.h"
#include "version.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define CACHE_MAX 4096

static const char answers[] = {
	[ANSWER_UNKNOWN] = '?', [ANSWER_NO] = 'n', [ANSWER_YES] = 'y'
};

/* Root's own, and nobody else may write it; a file has no second name. */
static bool is_trusted(int fd, mode_t type)
{
	struct stat st;

	return !fstat(fd, &st) && (st.st_mode & S_IFMT) == type && st.st_uid == 0 &&
		!(st.st_mode & (S_IWGRP | S_IWOTH)) &&
		(type == S_IFDIR || st.st_nlink == 1);
}

static ssize_t read_all(int fd, char *buf, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size - 1) {
		n = read(fd, buf + len, size - 1 - len);
		if (n < 0)
			return -errno;
		if (!n)
			break;
		len += n;
	}
	buf[len] = '\0';
	return len;
}

/* The first line of a cache of this boot. */
static int head_line(char *buf, size_t size)
{
	_cleanup_close_ int fd =
		open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char boot[64];

	if (fd < 0 || read_all(fd, boot, sizeof(boot)) <= 0)
		return -ENOENT;
	boot[strcspn(boot, "\n")] = '\0';
	snprintf(buf, size, "funcsnoop %s boot %s\n", FUNCSNOOP_VERSION, boot);
	return 0;
}

static bool take_line(char *line, size_t number, struct experiment_result *ret)
{
	const char *answer;

	if (line[0] != (char)('0' + number) || line[1] != ' ' || !line[2] ||
		line[3] != ' ')
		return false;
	answer = memchr(answers, line[2], sizeof(answers));
	if (!answer || !line[4] || strlen(line + 4) >= sizeof(ret->why))
		return false;
	for (const char *c = line + 4; *c; c++)
		if (*c < ' ' || *c > '~')
			return false;
	ret->answer = (enum answer)(answer - answers);
	strcpy(ret->why, line + 4);
	return true;
}

static bool take_text(char *text, struct experiment_result results[EXPERIMENT_CNT])
{
	struct experiment_result found[EXPERIMENT_CNT];
	char head[256], *line = text, *end;

	if (head_line(head, sizeof(head)) || strncmp(text, head, strlen(head)) != 0)
		return false;
	line += strlen(head);
	for (size_t i = 0; i < EXPERIMENT_CNT; i++) {
		end = strchr(line, '\n');
		if (!end)
			return false;
		*end = '\0';
		if (!take_line(line, i, &found[i]))
			return false;
		line = end + 1;
	}
	if (*line)
		return false;
	memcpy(results, found, sizeof(found));
	return true;
}

bool feature_cache_read(struct experiment_result results[EXPERIMENT_CNT])
{
	_cleanup_close_ int dir = open(FEATURE_CACHE_DIR, DIR_FLAGS);
	_cleanup_close_ int fd = -1;
	char text[CACHE_MAX];

	if (dir < 0 || !is_trusted(dir, S_IFDIR))
		return false;
	fd = openat(dir, FEATURE_CACHE_FILE,
		O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || !is_trusted(fd, S_IFREG) || read_all(fd, text, sizeof(text)) <= 0)
		return false;
	return take_text(text, results);
}

static int write_text(int fd, const struct experiment_result results[EXPERIMENT_CNT])
{
	char text[CACHE_MAX];
	size_t len;

	if (head_line(text, sizeof(text)))
		return -ENOENT;
	len = strlen(text);
	for (size_t i = 0; i < EXPERIMENT_CNT; i++)
		len += snprintf(text + len, sizeof(text) - len, "%zu %c %s\n", i,
			answers[results[i].answer], results[i].why);
	return write(fd, text, len) == (ssize_t)len ? 0 : -EIO;
}

void feature_cache_write(const struct experiment_result results[EXPERIMENT_CNT])
{
	_cleanup_close_ int dir = -1, fd = -1;
	char temp[64];

	if (geteuid() != 0)
		return;
	if (mkdir(FEATURE_CACHE_DIR, 0700) && errno != EEXIST)
		return;
	dir = open(FEATURE_CACHE_DIR, DIR_FLAGS);
	if (dir < 0 || !is_trusted(dir, S_IFDIR))
		return;
	snprintf(temp, sizeof(temp), FEATURE_CACHE_FILE ".%d", getpid());
	fd = openat(
		dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST) /* of a process that was killed */
		unlinkat(dir, temp, 0);
	if (fd < 0)
		return;
	if (write_text(fd, results) || renameat(dir, temp, dir, FEATURE_CACHE_FILE))
		unlinkat(dir, temp, 0);
}

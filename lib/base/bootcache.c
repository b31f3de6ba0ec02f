// SPDX-License-Identifier: BSD-2-Clause
// Texts of this boot: a line on version and boot, then the text.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bootcache.h"
#include "base/util.h"
#include "base/version.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

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

bool bootcache_read(const char *name, char *buf)
{
	_cleanup_close_ int dir = open(BOOTCACHE_DIR, DIR_FLAGS);
	_cleanup_close_ int fd = -1;
	char head[256];

	if (dir < 0 || !is_trusted(dir, S_IFDIR))
		return false;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || !is_trusted(fd, S_IFREG) || read_all(fd, buf, BOOTCACHE_MAX) <= 0)
		return false;
	if (head_line(head, sizeof(head)) || strncmp(buf, head, strlen(head)) != 0)
		return false;
	memmove(buf, buf + strlen(head), strlen(buf + strlen(head)) + 1);
	return true;
}

static int write_text(int fd, const char *text)
{
	char whole[BOOTCACHE_MAX];
	size_t len;

	if (head_line(whole, sizeof(whole)))
		return -ENOENT;
	len = strlen(whole);
	if (len + strlen(text) >= sizeof(whole))
		return -E2BIG;
	strcpy(whole + len, text);
	len = strlen(whole);
	return write(fd, whole, len) == (ssize_t)len ? 0 : -EIO;
}

void bootcache_write(const char *name, const char *text)
{
	_cleanup_close_ int dir = -1, fd = -1;
	char temp[64];

	if (geteuid() != 0)
		return;
	if (mkdir(BOOTCACHE_DIR, 0700) && errno != EEXIST)
		return;
	dir = open(BOOTCACHE_DIR, DIR_FLAGS);
	if (dir < 0 || !is_trusted(dir, S_IFDIR))
		return;
	snprintf(temp, sizeof(temp), "%s.%d", name, getpid());
	fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST) /* of a process that was killed */
		unlinkat(dir, temp, 0);
	if (fd < 0)
		return;
	if (write_text(fd, text) || renameat(dir, temp, dir, name))
		unlinkat(dir, temp, 0);
}

// SPDX-License-Identifier: BSD-2-Clause
// Texts of this boot: a line on version and boot, then the text.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bootcache.h"
#include "base/file.h"
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

/* The first line of a cache of this boot. */
static int head_line(char *buf, size_t size)
{
	_cleanup_close_ int fd =
		open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *boot = NULL;
	size_t len;

	if (fd < 0 || file_read(fd, 63, &boot, &len))
		return -ENOENT;
	boot[strcspn(boot, "\n")] = '\0';
	snprintf(buf, size, "funcsnoop %s boot %s\n", FUNCSNOOP_VERSION, boot);
	return 0;
}

char *bootcache_read(const char *name)
{
	_cleanup_close_ int dir = open(BOOTCACHE_DIR, DIR_FLAGS);
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	char head[256];
	size_t len;

	if (dir < 0 || !is_trusted(dir, S_IFDIR))
		return NULL;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || !is_trusted(fd, S_IFREG) ||
		file_read(fd, BOOTCACHE_MAX, &text, &len))
		return NULL;
	if (head_line(head, sizeof(head)) || strncmp(text, head, strlen(head)) != 0)
		return NULL;
	memmove(text, text + strlen(head), len + 1 - strlen(head));
	return TAKE_PTR(text);
}

static int write_text(int fd, const char *text)
{
	char head[256];
	int code;

	if (head_line(head, sizeof(head)))
		return -ENOENT;
	if (strlen(head) + strlen(text) > BOOTCACHE_MAX)
		return -E2BIG;
	code = file_write(fd, head, strlen(head));
	return code ? code : file_write(fd, text, strlen(text));
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
